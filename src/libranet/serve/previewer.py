"""The process behind previews and the camera: single frames, restored at once while the workers are busy."""

import base64
import time
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
import torch

from libranet.engine import DehazeOptions, Dehazer
from libranet.engine.preview import LARGEST_SIDE, PreviewFrames, read_image_frame, read_video_frames
from libranet.errors import InputError
from libranet.image_structure import parse_header
from libranet.serve.protocol import Message, Networks, answer_with_network, chosen_network
from libranet.serve.settings import MOST_CAMERAS
from libranet.serve.worker import make_options

_FILES_IN_MEMORY = 8
CAMERA_SIDE = 1280
_CAMERA_RATE = 10.0


class Previewer:
    """Restores single frames. The frames of the last few files and the state of the last cameras stay in memory."""

    def __init__(self, networks: Networks) -> None:
        """Restore a black frame: the first one takes several times as long as the next."""
        self._networks = networks
        self._network = network = networks["best"]
        self._frames = lru_cache(_FILES_IN_MEMORY)(self._read)
        self._large_frames = lru_cache(1)(self._read)
        self._cameras: OrderedDict[str, tuple[float, tuple[int, ...], Dehazer]] = OrderedDict()
        black = torch.zeros(1, 3, LARGEST_SIDE * 9 // 16, LARGEST_SIDE)
        PreviewFrames((black,), 0.0, 0).restore(network, DehazeOptions())

    def answer(self, request: Message) -> Message:
        """Answer one request."""
        if request["op"] == "camera":
            return self._camera(request)
        network = chosen_network(self._networks, request.get("settings", {}))
        window = network.config.window
        side, large = request["side"], request["side"] > LARGEST_SIDE
        where = (request["source"], request["kind"], request["at"], request["interlaced"], window)
        found = self._large_frames(*where, side) if large else self._frames(*where, LARGEST_SIDE)
        if request["op"] == "frame":
            return {"image": encode(_within(found.before, side))}
        begin = time.perf_counter()
        options = make_options(request["settings"], interlaced=request["interlaced"])
        return _timed(found.restore(network, options), begin)

    def _read(self, source: str, kind: str, at: float, interlaced: bool, window: int, side: int) -> PreviewFrames:
        if kind == "image":
            return read_image_frame(Path(source), side=side)
        network = next(each for each in self._networks.values() if each.config.window == window)
        found = read_video_frames(source, network, DehazeOptions(deinterlace=interlaced), at, side=side)
        if found is None:
            raise InputError(f"{source} has no frame at {at:g} s: choose an earlier moment")
        return found

    def _camera(self, request: Message) -> Message:
        """Restore a frame of a camera. Each camera has its own memory, for steady colours."""
        frame = decode(base64.b64decode(request["image"]))
        name, strength = request["camera"], float(request["strength"])
        known = self._cameras.get(name)
        if known is None or known[:2] != (strength, frame.shape):
            dehazer = Dehazer(self._network, strength=strength, rate=_CAMERA_RATE, live=True)
            known = (strength, frame.shape, dehazer)
        self._cameras[name] = known
        self._cameras.move_to_end(name)
        if len(self._cameras) > MOST_CAMERAS:
            self._cameras.popitem(last=False)
        begin = time.perf_counter()
        (restored,) = known[2].push(frame)
        return _timed(restored, begin, quality=80)


def _within(image: np.ndarray, side: int) -> np.ndarray:
    scale = side / max(image.shape[:2])
    return image if scale >= 1 else cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)


def _timed(image: np.ndarray, begin: float, *, quality: int = 92) -> Message:
    milliseconds = round(1e3 * (time.perf_counter() - begin), 1)
    return {"image": encode(image, quality=quality), "milliseconds": milliseconds}


def decode(data: bytes) -> np.ndarray:  # uint8 [H, W, 3], RGB
    """Decode a frame of a camera."""
    header = parse_header(data) if data.startswith(b"\xff\xd8") else None
    if header is None or not 16 <= min(header.width, header.height) <= max(header.width, header.height) <= CAMERA_SIDE:
        raise InputError(f"expected a JPEG of 16 to {CAMERA_SIDE} pixels a side from the camera")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise InputError("the camera sent a damaged JPEG")
    return np.ascontiguousarray(image[..., ::-1])


def encode(image: np.ndarray, *, quality: int = 92) -> str:  # uint8 [H, W, 3], RGB
    """An image as base64 of a JPEG."""
    ok, data = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert ok
    return base64.b64encode(data.tobytes()).decode("ascii")


if __name__ == "__main__":
    answer_with_network(lambda networks, send: Previewer(networks).answer)
