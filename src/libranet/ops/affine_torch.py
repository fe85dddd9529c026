"""One affine colour transform per pixel."""

from torch import Tensor


def apply_affine(
    matrix: Tensor,  # [B, 3, 3, h, w]
    offset: Tensor,  # [B, 3, h, w]
    image: Tensor,  # [B, 3, h, w]
) -> Tensor:  # [B, 3, h, w]
    """Return A x + b at each pixel. Written as products and sums, so that A = I, b = 0 returns x to the last bit."""
    return (matrix * image[:, None]).sum(dim=2) + offset
