"""Tensor maths without parameters. The `_torch` modules are the readable reference; callers import from here."""

from libranet.ops.affine_torch import apply_affine
from libranet.ops.cayley_torch import SINGULAR_DET, cayley
from libranet.ops.resample_torch import downsample, pad_to_multiple, upsample
from libranet.ops.slicing_torch import slice_grid, slice_plane

__all__ = [
    "SINGULAR_DET",
    "apply_affine",
    "cayley",
    "downsample",
    "pad_to_multiple",
    "slice_grid",
    "slice_plane",
    "upsample",
]
