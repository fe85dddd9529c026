"""`Dehazer`: frames in, frames out, for programs that have their own pictures."""

from collections import deque
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from libranet.backends import load_network, make_backend
from libranet.device import Precision
from libranet.errors import InputError
from libranet.models import LiBrANet

Picture = TypeVar("Picture", np.ndarray, Tensor)

_PEAKS = {torch.uint8: 255, torch.uint16: 65535}


class Dehazer:
    """Dehazes a stream of RGB frames. Each comes back in its own type, dtype, shape and device.

    NumPy frames are [H, W, 3], torch frames [3, H, W] or [1, 3, H, W]; uint8, uint16, or floating point in [0, 1].

    >>> dehazer = Dehazer()
    >>> for frame in frames:
    ...     for clear in dehazer.push(frame):
    ...         show(clear)
    >>> for clear in dehazer.flush():
    ...     show(clear)
    """

    def __init__(
        self,
        model: LiBrANet | str | Path | None = None,
        *,
        strength: float = 1.0,
        live: bool = False,
        device: str = "auto",
        precision: Precision = "auto",
    ) -> None:
        """`model` is a network, a checkpoint's path, or None for the weights of the package. `live` gives every frame
        back at once; without it, a frame waits for the two after it.
        """
        network = model if isinstance(model, LiBrANet) else None if model is None else str(model)
        self.network = load_network(network, device=device, precision=precision)
        self._backend = make_backend(self.network, strength=strength, live=live)
        self._waiting: deque[tuple[np.ndarray | Tensor, Tensor]] = deque()

    def push(self, frame: Picture, *, cut: bool = False) -> list[Picture]:
        """Take one frame and return those that are ready. `cut` marks the first frame of a new shot."""
        rgb = _to_rgb(frame).to(self._backend.device)
        self._waiting.append((frame, rgb))
        return self._return([restored.image for restored in self._backend.push(rgb, cut=cut)])

    def flush(self) -> list:
        """The frames still waiting; the next frame begins a new video."""
        return self._return([restored.image for restored in self._backend.flush()])

    def image(self, picture: Picture) -> Picture:
        """Dehaze a single picture that belongs to no video."""
        if self._waiting:
            raise InputError("a video is under way in this Dehazer: flush it first, or use another one for pictures")
        ready = self.push(picture)
        return (ready or self.flush())[0]

    def _return(self, images: list[Tensor]) -> list:
        frames: list[np.ndarray | Tensor] = []
        for image in images:
            original, rgb = self._waiting.popleft()
            frames.append(_add_change(original, image - rgb))
        return frames


def _to_rgb(frame: np.ndarray | Tensor) -> Tensor:  # [1, 3, H, W] in [0, 1]
    tensor = _as_chw(frame)
    if tensor.dtype in _PEAKS:
        return tensor.to(torch.float32) / _PEAKS[tensor.dtype]
    if not tensor.is_floating_point():
        raise InputError(f"expected uint8, uint16 or floating-point frames, got {tensor.dtype}")
    return tensor.to(torch.float32)


def _as_chw(frame: np.ndarray | Tensor) -> Tensor:  # [1, 3, H, W]
    if isinstance(frame, np.ndarray):
        if frame.ndim != 3 or frame.shape[2] != 3:
            raise InputError(f"expected a NumPy frame as [H, W, 3], got shape {frame.shape}")
        return torch.from_numpy(np.ascontiguousarray(frame)).permute(2, 0, 1)[None]
    if frame.dim() == 3 and frame.shape[0] == 3:
        return frame[None]
    if frame.dim() == 4 and frame.shape[:2] == (1, 3):
        return frame
    raise InputError(f"expected a torch frame as [3, H, W] or [1, 3, H, W], got shape {tuple(frame.shape)}")


def _add_change(original: np.ndarray | Tensor, change: Tensor) -> np.ndarray | Tensor:
    """The original plus what the network changed, so that no change at all is the original bit for bit."""
    chw = _as_chw(original)
    change = change.to(chw.device)
    if peak := _PEAKS.get(chw.dtype):
        wide = chw.to(torch.float32) + change * peak
        restored = wide.round().clamp(0, peak).to(chw.dtype)
    else:
        restored = (chw.to(torch.float32) + change).clamp(0.0, 1.0).to(chw.dtype)
    if isinstance(original, np.ndarray):
        return np.ascontiguousarray(restored[0].permute(1, 2, 0).numpy())
    return restored.reshape(original.shape)
