"""`Dehazer`: frames in, frames out, for programs that decode and show frames themselves."""

import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from libranet.device import Precision
from libranet.errors import InputError
from libranet.frames import FrameFormat, Frames, PixelLayout, check_values
from libranet.frames.format import PLANAR_RGB8, PLANAR_RGB16, PLANAR_RGB_FLOAT, RGB8, RGB16, RGB_FLOAT
from libranet.frames.values import MAX_PIXELS
from libranet.network import GridFilter, Network
from libranet.runtime import Restored, load_network, make_backend
from libranet.runtime.interface import check_process, check_size
from libranet.typed import checked

if TYPE_CHECKING:
    from libranet.engine.transfer import Download, Upload

Frame = TypeVar("Frame", bound=Any)

_PACKED: dict[torch.dtype, PixelLayout] = {torch.uint8: RGB8, torch.uint16: RGB16}
_PLANAR: dict[torch.dtype, PixelLayout] = {torch.uint8: PLANAR_RGB8, torch.uint16: PLANAR_RGB16}


@dataclass(frozen=True)
class _Given:
    """The form in which a frame came, and in which it goes back."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    packed: bool = False
    """Samples of a pixel are neighbours, as in NumPy frames."""
    numpy: np.dtype | None = None
    """Of a NumPy frame, with its byte order."""
    rest: Tensor | None = None
    """What backends, which compute in float32, do not see of a float64 frame. It is added to the result."""
    samples: FrameFormat | None = None
    """Of a frame that came as `Frames`, in samples of its own."""


class Dehazer:
    """Dehazes a stream of RGB frames. Each comes back in its own type, dtype, shape and device.

    Frames are NumPy arrays [H, W, 3], or [H, W, 1] in gray, torch tensors [3, H, W] or [1, 3, H, W], or any other array
    [H, W, 3] that speaks DLPack (CuPy, JAX), which comes back as a torch tensor that speaks it, too. Samples are uint8,
    uint16, or floating point in [0, 1]. `libranet.frames.Frames` of one frame hold YUV of 8 to 16 bits, too, and come
    back in it. A frame is copied: its memory may be overwritten as soon as `push` returns.

    A `Dehazer` belongs to one thread at a time; several of them may share a network. CUDA tensors are read and written
    in the order of the thread's current stream, without waiting for the GPU; values outside [0, 1] are then clamped and
    not refused. NumPy frames come back complete.

    Examples:
        >>> with Dehazer() as dehazer:
        ...     for clear in dehazer.restore(frames):
        ...         show(clear)
    """

    def __init__(
        self,
        model: Network | str | Path | None = None,
        *,
        strength: float = 1.0,
        steady: float = 1.0,
        rate: float = 25.0,
        live: bool = False,
        batch: int = 1,
        device: str = "auto",
        precision: Precision = "auto",
        backend: str = "auto",
    ) -> None:
        """Load the network.

        Args:
            model: A network, `libranet-small`, a checkpoint's path, or None for the weights of the package.
            strength: 0 changes nothing, 1 is the network's output, up to 1.5.
            steady: Seconds over which colours are kept steady, so that video does not pump; 0 is off, up to 2.
            rate: Frames per second of the video, for `steady`.
            live: Return every frame at once. Without it, a frame waits for the next two.
            batch: Frames that a GPU may collect before it restores them: faster, and later by as many.
            device: As `libranet.device.pick_device` takes it.
            precision: As `libranet.device.pick_dtype` takes it.
            backend: One of `libranet.runtime.choose.BACKENDS`. `auto` takes our kernels where they cover the network
                and the machine, `plain` is the reference.
        """
        strength, steady = checked("strength", float, strength), checked("steady", float, steady)
        rate, live, batch = checked("rate", float, rate), checked("live", bool, live), checked("batch", int, batch)
        device = str(checked("device", str | torch.device, device))
        self.network = load_network(model, device=device, precision=precision)
        self._backend = make_backend(
            self.network,
            strength=strength,
            live=live,
            grid_filter=GridFilter(steady, rate),
            batch=batch,
            backend=backend,
        )
        self._lock = threading.RLock()
        """Held by each call: frames of several threads would change places, or get lost."""
        self._waiting: deque[_Given] = deque()
        self._size: tuple[int, int] | None = None
        self._upload: Upload | None = None
        self._download: Download | None = None

    @property
    def backend_name(self) -> str:
        """What restores the frames, such as `plain`, `cpu-fp32` or `fused`."""
        return self._backend.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the video. Frames that still wait are dropped: `flush` returns them before that."""
        self._backend.flush()
        self._waiting.clear()
        self._size = self._upload = self._download = None

    def restore(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Dehaze a whole video: every frame, in order, as soon as it is ready."""
        for frame in frames:
            yield from self.push(frame)
        yield from self.flush()

    def push(self, frame: Frame, *, cut: bool = False) -> list[Frame]:
        """Take one frame and return those that are ready. `cut` marks the first frame of a new shot.

        Raises:
            InputError: The frame's shape, dtype or range is wrong. It is left out; the stream goes on.
        """
        check_process()
        given, frames = read_frame(frame)
        size = (frames.format.width, frames.format.height)
        with self._lock:
            if self._size not in (None, size) and not cut:
                old, new = (f"{width}x{height}" for width, height in (self._size or size, size))
                raise InputError(
                    f"expected every frame of a stream to have one size, got {new} after {old}: "
                    "mark the first frame of another size with cut=True"
                )
            ready = self._push(frames, cut=cut)
            self._waiting.append(given)  # only now: a frame that is refused leaves nothing behind
            self._size = size
            return self._return(ready)

    def push_many(self, frames: Iterable[Frame], *, cuts: Sequence[bool] = ()) -> list[Frame]:
        """Take several frames in order and return those that are ready. `cuts`: which of them begin a new shot."""
        if not isinstance(frames, Iterable):
            raise InputError(f"expected several frames, got {type(frames).__name__}: give one to push")
        ready: list[Frame] = []
        for index, frame in enumerate(frames):
            if cuts and index >= len(cuts):
                raise InputError(f"expected a cut for each frame or none, got {len(cuts)} for more frames")
            ready += self.push(frame, cut=bool(cuts) and cuts[index])
        return ready

    def flush(self) -> list[Any]:
        """Return the frames still waiting. The next frame begins a new video."""
        check_process()
        with self._lock:
            self._size = None
            return self._return(self._backend.flush())

    def image(self, image: Frame) -> Frame:
        """Dehaze a single image that belongs to no video.

        Raises:
            InputError: Frames of a video are waiting.
        """
        check_process()
        with self._lock:
            if self._waiting:
                raise InputError("a video is under way in this Dehazer: flush it first, or use another one for images")
            self.flush()
            return (self.push(image) + self.flush())[0]  # a live one returns it at once, and must forget it, too

    def _push(self, frames: Frames, *, cut: bool) -> list[Restored]:
        """Give a frame to the backend, through pinned memory where it has to go to a GPU."""
        device = self._backend.device
        if device.type != "cuda" or frames.planes[0].device.type == "cuda":
            return self._backend.push(frames, cuts=(cut,))
        if self._upload is None or self._upload.format != frames.format:
            from libranet.engine.transfer import Upload

            self._upload = Upload(frames.format, device, slots=2)
        planes = self._upload.send(self._upload.fill(frames.plane_list(0)))
        ready = self._backend.push(Frames(planes, frames.format), cuts=(cut,))
        self._upload.release()
        return ready

    def _return(self, ready: list[Restored]) -> list[Any]:
        """The frames as they came. All downloads begin before the first is waited for."""
        fetched = [self._fetch(self._waiting.popleft(), restored) for restored in ready]
        frames = []
        for given, planes, arrived in fetched:
            if arrived is not None:
                arrived.synchronize()
            frames.append(_give_back(given, planes))
            if arrived is not None:
                assert self._download is not None
                self._download.free(list(planes))
        return frames

    def _fetch(self, given: _Given, restored: Restored) -> tuple[_Given, tuple[Tensor, ...], torch.cuda.Event | None]:
        """Begin to fetch a restored frame that goes back to main memory."""
        if given.device.type != "cpu" or self._backend.device.type != "cuda":
            return given, restored.after, None
        if self._download is None or self._download.format != restored.format:
            from libranet.engine.transfer import Download

            self._download = Download(self._backend.device, restored.format)
        planes, arrived = self._download.begin(restored.after)
        return given, tuple(planes), arrived


def read_frame(frame: Any) -> tuple[_Given, Frames]:
    if isinstance(frame, Frames):
        return _read_samples(frame)
    if isinstance(frame, Tensor):
        return _read_torch(frame)
    if isinstance(frame, np.ndarray):
        return _read_numpy(frame)
    if hasattr(frame, "__dlpack__"):
        try:
            tensor = torch.from_dlpack(frame)
        except Exception as error:  # any library may be behind it
            raise InputError(
                f"expected an array that DLPack can pass on, got {type(frame).__name__} ({error}): copy it to NumPy"
            ) from None
        return _read_packed(tensor)
    raise InputError(f"expected a NumPy array, a torch tensor or an array with DLPack, got {type(frame).__name__}")


def _read_samples(frame: Frames) -> tuple[_Given, Frames]:
    if len(frame) != 1:
        raise InputError(f"expected Frames of one frame, got {len(frame)}: push them one by one")
    shape = (frame.format.height, frame.format.width)
    _check_shape(shape, shape, colour=True)
    if frame.format.layout.floating:
        for plane in frame.planes:
            check_values(plane)
    plane = frame.planes[0]
    return _Given(shape, plane.dtype, plane.device, samples=frame.format), frame


def _read_numpy(frame: np.ndarray) -> tuple[_Given, Frames]:
    if "numpy.ma" in sys.modules and isinstance(frame, np.ma.MaskedArray):  # who has none need not wait for its import
        raise InputError("expected a plain NumPy array, got a masked one: fill its holes first")
    known = (frame.dtype.kind == "u" and frame.dtype.itemsize <= 2) or (frame.dtype.kind == "f" and frame.itemsize <= 8)
    if not known:
        raise InputError(f"expected uint8, uint16 or floating-point frames, got {frame.dtype}: convert them first")
    _check_shape(frame.shape, frame.shape[:2], gray=frame.shape[2:] == (1,), colour=frame.shape[2:] == (3,))
    native = frame.astype(frame.dtype.newbyteorder("="), order="C", copy=False)
    given, frames = _read_packed(torch.from_numpy(np.array(native, copy=not native.flags.writeable or None)))
    return replace(given, numpy=frame.dtype), frames


def _read_packed(tensor: Tensor) -> tuple[_Given, Frames]:
    shape = tuple(tensor.shape)
    _check_shape(shape, shape[:2], gray=shape[2:] == (1,), colour=shape[2:] == (3,))
    samples, given = _samples(tensor)
    layout = _PACKED.get(samples.dtype, RGB_FLOAT)
    if shape[2] == 1:
        samples, layout = samples[..., 0], PixelLayout(f"gray{layout.bits}", "gray", layout.bits, 1, 1, alpha=False)
    return replace(given, packed=True), Frames((samples[None],), FrameFormat(shape[1], shape[0], layout))


def _read_torch(tensor: Tensor) -> tuple[_Given, Frames]:
    if tensor.is_nested or tensor.layout is not torch.strided or tensor.device.type == "meta":
        raise InputError("expected a dense torch tensor with data, got a nested, sparse or meta one: make it dense")
    shape = tuple(tensor.shape)
    _check_shape(shape, shape[-2:], torch_form=True, colour=shape[:-2] in ((3,), (1, 3)))
    samples, given = _samples(tensor.detach().reshape(shape[-3:]))
    red, green, blue = samples[:, None].unbind(0)
    layout = _PLANAR.get(samples.dtype, PLANAR_RGB_FLOAT)
    return replace(given, shape=shape), Frames((green, blue, red), FrameFormat(shape[-1], shape[-2], layout))


def _check_shape(
    shape: tuple[int, ...], size: tuple[int, ...], *, colour: bool, gray: bool = False, torch_form: bool = False
) -> None:
    """Refuse what is no frame before anything is copied."""
    if not (colour or gray):
        if torch_form:
            raise InputError(f"expected a torch frame as [3, H, W] or [1, 3, H, W], got shape {shape}")
        raise InputError(f"expected a NumPy frame as [H, W, 3], or [H, W, 1] in gray, got shape {shape}")
    check_size(FrameFormat(size[1], size[0], RGB8))
    if size[0] * size[1] > MAX_PIXELS:
        raise InputError(f"expected frames of at most {MAX_PIXELS >> 20} million pixels, got {size[1]}x{size[0]}")


def _samples(tensor: Tensor) -> tuple[Tensor, _Given]:
    """Samples in a dtype that backends take; floating-point values on the CPU are checked."""
    given = _Given(tuple(tensor.shape), tensor.dtype, tensor.device)
    if tensor.dtype in _PACKED:
        return tensor, given
    if not tensor.is_floating_point():
        raise InputError(f"expected uint8, uint16 or floating-point frames, got {tensor.dtype}: convert them first")
    samples = tensor.to(torch.float32)
    check_values(samples)
    if tensor.dtype == torch.float64:
        given = replace(given, rest=tensor - samples)
    return samples, given


def _give_back(given: _Given, planes: tuple[Tensor, ...]) -> np.ndarray | Tensor | Frames:
    """A copy in the form in which the frame came."""
    if given.samples is not None:
        return Frames(tuple(plane.to(given.device, copy=True)[None] for plane in planes), given.samples)
    if given.packed:
        result = planes[0].to(given.device, given.dtype, copy=True).view(given.shape)
    else:
        green, blue, red = planes
        result = torch.empty(given.shape, dtype=given.dtype, device=given.device)
        for place, plane in zip(result.view(3, *red.shape), (red, green, blue), strict=True):
            place.copy_(plane, non_blocking=True)
    if given.rest is not None:
        result.add_(given.rest.view(given.shape)).clamp_(0.0, 1.0)
    return result if given.numpy is None else result.numpy().astype(given.numpy, copy=False)
