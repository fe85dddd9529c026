"""Depth, transmission and flow: half-float maps beside the frames, one OpenEXR file per frame."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from libranet.atomic import write_atomically
from libranet.data.arrays import Map
from libranet.data.exr import encode_exr, read_exr_rows
from libranet.data.frames import Box
from libranet.errors import InputError

MAP_CHANNELS: dict[str, tuple[tuple[str, ...], ...]] = {
    "depth": (("Z",),),
    "transmission": (("Y",), ("R", "G", "B")),
    "flow": (("u", "v"),),
}
"""Channel names by modality. A transmission has three channels where scattering depends on the colour."""


def write_map(path: Path, modality: str, values: npt.NDArray[np.floating]) -> None:  # [C, H, W]
    """Write a map in half precision, whole or not at all."""
    for names in MAP_CHANNELS[modality]:
        if len(names) == values.shape[0]:
            channels = {name: np.asarray(values[i], np.float16) for i, name in enumerate(names)}
            write_atomically(path, encode_exr(channels, level=2))
            return
    raise InputError(f"expected {modality} with {MAP_CHANNELS[modality]} as channels, got {values.shape[0]} for {path}")


def read_map(path: Path, modality: str, box: Box | None = None) -> Map:  # [C, H, W]
    """Read a map, decoding only the rows of `box`."""
    try:
        rows = read_exr_rows(path, top=box.top, height=box.height) if box else read_exr_rows(path)
    except OSError as error:
        raise InputError(f"could not read the {modality} map {path}: {error.strerror or error}") from error
    for names in MAP_CHANNELS[modality]:
        if set(names) == set(rows):
            values = np.stack([rows[name] for name in names]).astype(np.float32)
            return values[:, :, box.left : box.left + box.width] if box else values
    raise InputError(f"expected {modality} with channels {MAP_CHANNELS[modality]}, got {sorted(rows)} in {path}")
