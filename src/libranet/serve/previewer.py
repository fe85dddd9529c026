"""The process behind previews and the camera: single frames, restored at once while the workers are busy.

`python -m libranet.serve.previewer DEVICE MODEL MEMORY CAMERAS` answers requests as lines of JSON, images in base64.
"""

import base64
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from libranet.engine import Dehazer, load_network
from libranet.engine.preview import LARGEST_SIDE, PreviewFrames, read_image_frame, read_video_frames
from libranet.errors import InputError
from libranet.image_structure import parse_header
from libranet.network import Network
from libranet.serve.confine import limit_address_space
from libranet.serve.protocol import Channel, sentence_for_visitors
from libranet.serve.worker import make_options

_FILES_IN_MEMORY = 8
_QUALITY = 92
CAMERA_SIDE = 1280
"""Camera frames are at most this long."""
_CAMERA_RATE = 10.0


class Previewer:
    """Restores single frames. The frames of the last few files stay in memory."""

    def __init__(self, network: Network, cameras: int) -> None:
        self._network = network
        self._frames: OrderedDict[tuple[str, float], PreviewFrames] = OrderedDict()
        self._cameras: OrderedDict[str, tuple[float, tuple[int, ...], Dehazer]] = OrderedDict()
        self._most_cameras = cameras

    def warm_up(self) -> None:
        """Restore a black frame: the first one takes several times as long as the next."""
        black = torch.zeros(1, 3, LARGEST_SIDE * 9 // 16, LARGEST_SIDE)
        PreviewFrames((black,), 0.0, 0).restore(self._network, make_options({}))

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request.

        Raises:
            LibraNetError: The frame cannot be decoded or restored.
        """
        if request["op"] == "camera":
            return self._camera(request)
        found = self._read(request)
        if request["op"] == "frame":
            return {"image": encode(found.before)}
        begin = time.perf_counter()
        options = make_options(request["settings"], interlaced=request["interlaced"])
        image = found.restore(self._network, options)
        return {"image": encode(image), "milliseconds": round(1e3 * (time.perf_counter() - begin), 1)}

    def _read(self, request: dict[str, Any]) -> PreviewFrames:
        source, at = request["source"], float(request["at"])
        if (source, at) not in self._frames:
            options = make_options({}, interlaced=request["interlaced"])
            found: PreviewFrames | None
            if request["kind"] == "image":
                found = read_image_frame(Path(source))
            else:
                found = read_video_frames(source, self._network, options, at)
            if found is None:
                raise InputError(f"{source} has no frame at {at:g} s: choose an earlier moment")
            self._frames[source, at] = found
            if len(self._frames) > _FILES_IN_MEMORY:
                self._frames.popitem(last=False)
        self._frames.move_to_end((source, at))
        return self._frames[source, at]

    def _camera(self, request: dict[str, Any]) -> dict[str, Any]:
        """Restore a frame of a camera. Each camera has its own memory, for steady colours."""
        frame = decode(base64.b64decode(request["image"]))
        strength, size = float(request["strength"]), frame.shape
        known = self._cameras.get(request["camera"])
        if known is None or known[:2] != (strength, size):
            dehazer = Dehazer(self._network, strength=strength, rate=_CAMERA_RATE, live=True)
            known = (strength, size, dehazer)
        self._cameras[request["camera"]] = known
        self._cameras.move_to_end(request["camera"])
        if len(self._cameras) > self._most_cameras:
            self._cameras.popitem(last=False)
        begin = time.perf_counter()
        (restored,) = known[2].push(frame)
        milliseconds = round(1e3 * (time.perf_counter() - begin), 1)
        return {"image": encode(restored, quality=80), "milliseconds": milliseconds}


def decode(data: bytes) -> np.ndarray:  # uint8 [H, W, 3], RGB
    """Decode a frame of a camera.

    Raises:
        InputError: It is no JPEG, or a large one.
    """
    header = parse_header(data) if data.startswith(b"\xff\xd8") else None
    if header is None or not 16 <= min(header.width, header.height) <= max(header.width, header.height) <= CAMERA_SIDE:
        raise InputError(f"expected a JPEG of 16 to {CAMERA_SIDE} pixels a side from the camera")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise InputError("the camera sent a damaged JPEG")
    return np.ascontiguousarray(image[..., ::-1])


def encode(image: np.ndarray, *, quality: int = _QUALITY) -> str:  # uint8 [H, W, 3], RGB
    """An image as base64 of a JPEG."""
    ok, data = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert ok
    return base64.b64encode(data.tobytes()).decode("ascii")


def main() -> None:
    """Answer requests until the input ends."""
    device, model, memory, cameras = sys.argv[1:]
    channel = Channel()
    network = load_network(model or None, device=device)
    if network.device.type == "cpu":
        limit_address_space(int(memory))
    previewer = Previewer(network, int(cameras))
    previewer.warm_up()
    channel.send({"event": "ready", "device": str(network.device), **network.weights.as_json()})
    for request in channel.requests():
        try:
            answer = previewer.answer(request)
        except Exception as error:
            answer = {
                "error": sentence_for_visitors(error, request.get("source", ""), request.get("name", "the frame"))
            }
        channel.send(answer)


if __name__ == "__main__":
    main()
