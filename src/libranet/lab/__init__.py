"""The laboratory: peers, ablations, analyses, scenes and the paper's tables. The product never imports it."""
