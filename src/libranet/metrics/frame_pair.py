"""The checks that every metric makes on its frames."""

from torch import Tensor

from libranet.errors import InputError


def check_frame(
    image: Tensor,  # [3, H, W] in [0, 1]
) -> None:
    """Check that this is one RGB frame in floating point."""
    if image.dim() != 3 or image.shape[0] != 3:
        raise InputError(f"expected a frame as [3, H, W], got shape {tuple(image.shape)}")
    if not image.is_floating_point():
        raise InputError(f"expected floating-point frames in [0, 1], got {image.dtype}: divide by 255 first")


def check_pair(
    image: Tensor,  # [3, H, W] in [0, 1]
    reference: Tensor,  # [3, H, W] in [0, 1]
) -> None:
    """Check that both are RGB frames of one size."""
    check_frame(image)
    check_frame(reference)
    if image.shape != reference.shape:
        found, wanted = (f"{shape[2]}x{shape[1]}" for shape in (image.shape, reference.shape))
        raise InputError(f"expected a frame of the reference's size, {wanted}, got {found}")
