"""Operations without parameters, one folder each: `reference.py` in plain torch, GPU kernels beside it."""
