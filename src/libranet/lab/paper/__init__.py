"""The paper's tables: reported values, and the rows that stand beside them."""
