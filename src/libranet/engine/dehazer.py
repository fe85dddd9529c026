"""`Dehazer`: frames in, frames out, for programs that decode and show frames themselves."""

from collections import deque
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from libranet.backends import load_network, make_backend
from libranet.device import Precision
from libranet.errors import InputError
from libranet.models import Network
from libranet.models.libranet import check_frames

Frame = TypeVar("Frame", np.ndarray, Tensor)

_PEAKS = {torch.uint8: 255, torch.uint16: 65535}


class Dehazer:
    """Dehazes a stream of RGB frames. Each comes back in its own type, dtype, shape and device.

    NumPy frames are [H, W, 3], torch frames [3, H, W] or [1, 3, H, W]; uint8, uint16, or floating point in [0, 1].

    Examples:
        >>> dehazer = Dehazer()
        >>> for frame in frames:
        ...     for clear in dehazer.push(frame):
        ...         show(clear)
        >>> for clear in dehazer.flush():
        ...     show(clear)
    """

    def __init__(
        self,
        model: Network | str | Path | None = None,
        *,
        strength: float = 1.0,
        live: bool = False,
        device: str = "auto",
        precision: Precision = "auto",
    ) -> None:
        """Load the network.

        Args:
            model: A network, a checkpoint's path, or None for the weights of the package.
            strength: 0 changes nothing, 1 is the network's output, up to 1.5.
            live: Return every frame at once. Without it, a frame waits for the next two.
            device: As `libranet.device.pick_device` takes it.
            precision: As `libranet.device.pick_dtype` takes it.
        """
        network = model if isinstance(model, Network) else None if model is None else str(model)
        self.network = load_network(network, device=device, precision=precision)
        self._backend = make_backend(self.network, strength=strength, live=live)
        self._waiting: deque[tuple[np.ndarray | Tensor, Tensor]] = deque()
        self._size: tuple[int, int] | None = None

    def push(self, frame: Frame, *, cut: bool = False) -> list[Frame]:
        """Take one frame and return those that are ready. `cut` marks the first frame of a new shot.

        Raises:
            InputError: The frame's shape, dtype or range is wrong.
        """
        own = frame.copy() if isinstance(frame, np.ndarray) else frame.clone()  # the caller may reuse its buffer
        rgb = self._checked(own, cut=cut).to(self._backend.device)
        self._waiting.append((own, rgb))
        return self._return([restored.image for restored in self._backend.push(rgb, cut=cut)])

    def flush(self) -> list:
        """Return the frames still waiting. The next frame begins a new video."""
        self._size = None
        return self._return([restored.image for restored in self._backend.flush()])

    def image(self, image: Frame) -> Frame:
        """Dehaze a single image that belongs to no video.

        Raises:
            InputError: Frames of a video are waiting.
        """
        if self._waiting:
            raise InputError("a video is under way in this Dehazer: flush it first, or use another one for images")
        ready = self.push(image)
        return (ready or self.flush())[0]

    def _checked(self, frame: np.ndarray | Tensor, *, cut: bool) -> Tensor:  # [1, 3, H, W] in [0, 1]
        """Refuse a bad frame before the backend sees it: the stream goes on with the next good one."""
        rgb = _to_rgb(frame)
        check_frames(rgb)
        size = (rgb.shape[-1], rgb.shape[-2])
        if self._size is not None and self._size != size and not cut:
            old = f"{self._size[0]}x{self._size[1]}"
            raise InputError(
                f"expected every frame of a stream to have one size, got {size[0]}x{size[1]} after {old}: "
                "mark the first frame of another size with cut=True"
            )
        self._size = size
        return rgb

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
    """Add the network's change to the original, so that no change returns the original bit for bit."""
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
