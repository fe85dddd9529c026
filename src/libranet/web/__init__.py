"""`libranet web`: the page as a static site whose engine is the visitor's own browser."""
