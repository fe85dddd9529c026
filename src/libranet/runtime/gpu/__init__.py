"""The fused GPU path: 8-bit frames in and out on the device, checked against the plain network. Needs Triton."""

from libranet.runtime.gpu.support import why_not_fused

__all__ = ["why_not_fused"]
