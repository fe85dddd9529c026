"""Metrics of restored video: frames in, numbers out. Their formulas are in docs/metrics.md."""

from libranet.metrics.fidelity import psnr, ssim
from libranet.metrics.temporal import sigma_psnr, warp_error

__all__ = ["psnr", "sigma_psnr", "ssim", "warp_error"]
