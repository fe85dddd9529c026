"""How dense the haze of an image is, for programs. `--view haze` and `--view confidence` draw the same maps."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from libranet.device import Precision
from libranet.engine.dehazer import read_frame
from libranet.engine.image_files import read_upright
from libranet.frames import ColorConverter
from libranet.network import Network
from libranet.network.haze_map import confidence, haze_map
from libranet.runtime import load_network, make_backend


@dataclass(frozen=True)
class Haze:
    """The haze before every pixel."""

    transmission: np.ndarray  # [H, W] float32: 1 is clear air, 0 shows nothing but haze
    confidence: np.ndarray  # [H, W] float32: the share of the dehazed pixel that was seen, and is not enlarged noise


def estimate_haze(
    image: Any,
    model: Network | str | Path | None = None,
    *,
    device: str = "auto",
    precision: Precision = "auto",
) -> Haze:
    """Estimate how dense the haze is. The maps are as large as the image, and as detailed as one of 192 pixels.

    Examples:
        >>> haze = estimate_haze("foggy.jpg")
        >>> print(f"{haze.transmission.mean():.0%} of the light arrives")

    Args:
        image: A file, or an RGB array as `Dehazer` takes it.
        model: What dehazes it, as `dehaze_image` takes it.
        device: As `libranet.device.pick_device` takes it.
        precision: As `libranet.device.pick_dtype` takes it.

    Raises:
        InputError: The image cannot be read, or is no RGB image.
    """
    _, frame = read_frame(read_upright(image) if isinstance(image, str | Path) else image)
    network = load_network(model, device=device, precision=precision)
    (restored,) = make_backend(network, live=True).push(frame)
    converter = ColorConverter(restored.format.layout, restored.format.color, device=network.device)
    with torch.inference_mode():
        transmission = haze_map(network.device)(*map(converter.to_rgb, (restored.before, restored.after)))
        maps = [x[0, 0].cpu().numpy() for x in (transmission, confidence(transmission))]
    size = (restored.format.width, restored.format.height)
    return Haze(*(cv2.resize(map_, size, interpolation=cv2.INTER_LINEAR) for map_ in maps))
