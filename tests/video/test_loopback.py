"""A virtual camera against a stand-in: this machine cannot load v4l2loopback. Numbers of the kernel's own header."""

import fcntl
import os
import re
import shutil
import struct
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from clips import Clip, textured_frame, write_clip
from libranet.engine import live_output
from libranet.engine.stream import dehaze_stream
from libranet.errors import InputError
from libranet.video import loopback, source
from libranet.video.loopback import LoopbackCamera
from libranet.video.pixels import plane_views

HEADER = """
#include <linux/videodev2.h>
#include <stdio.h>
#include <stddef.h>
int main() {
  struct v4l2_format f = {0};
  f.type = V4L2_BUF_TYPE_VIDEO_OUTPUT;
  f.fmt.pix = (struct v4l2_pix_format){.width = 64, .height = 48, .pixelformat = V4L2_PIX_FMT_YUV420,
    .field = V4L2_FIELD_NONE, .bytesperline = 64, .sizeimage = 4608, .colorspace = V4L2_COLORSPACE_SMPTE170M};
  printf("%lu\\n", (unsigned long)VIDIOC_S_FMT);
  fwrite(&f, sizeof f, 1, stdout);
}
"""


class Device:
    """A FIFO with the one call of v4l2 that a writer makes."""

    def __init__(self, path: Path, monkeypatch, *, answer: tuple[int, int] | None = None) -> None:
        os.mkfifo(path)
        self.path, self.calls, self.data = path, [], b""

        def ioctl(file: int, request: int, argument: bytes) -> bytes:
            self.calls.append((request, argument))
            size = answer or struct.unpack_from("=II", argument, 8)
            return argument[:8] + struct.pack("=II", *size) + argument[16:]

        monkeypatch.setattr(fcntl, "ioctl", ioctl)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        self.data = self.path.read_bytes()

    def frames(self, width: int, height: int) -> np.ndarray:
        self._reader.join(10)
        return np.frombuffer(self.data, np.uint8).reshape(-1, height * 3 // 2, width)


def test_the_call_is_the_one_of_the_kernels_header(tmp_path, monkeypatch):
    if shutil.which("gcc") is None or not Path("/usr/include/linux/videodev2.h").exists():
        pytest.skip("no compiler, or no header of Linux here")
    (tmp_path / "header.c").write_text(HEADER)
    subprocess.run(["gcc", tmp_path / "header.c", "-o", tmp_path / "header"], check=True)
    number, _, wanted = subprocess.run([tmp_path / "header"], capture_output=True, check=True).stdout.partition(b"\n")
    device = Device(tmp_path / "video9", monkeypatch)
    LoopbackCamera(str(device.path), 64, 48).close()
    assert device.calls == [(int(number), wanted)]


def test_frames_arrive_as_they_are(tmp_path, monkeypatch):
    device = Device(tmp_path / "video9", monkeypatch)
    camera = LoopbackCamera(str(device.path), 64, 48)
    images = [textured_frame("yuv420p", 64, 48, index) for index in range(3)]
    for image in images:
        camera.write(image)
    camera.close()
    frames = device.frames(64, 48)
    assert len(frames) == 3
    for frame, image in zip(frames, images, strict=True):
        assert (frame[:48] == plane_views(image)[0]).all()
        assert (frame[48:].reshape(2, 24, 32)[1] == plane_views(image)[2]).all()


def test_refusals(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="modprobe v4l2loopback"):
        LoopbackCamera(str(tmp_path / "video9"), 64, 48)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="takes no frames"):
        LoopbackCamera(str(tmp_path / "file"), 64, 48)
    with pytest.raises(InputError, match="even sizes"):
        LoopbackCamera(str(tmp_path / "file"), 63, 48)
    device = Device(tmp_path / "video9", monkeypatch, answer=(1280, 720))
    with pytest.raises(InputError, match="in use as 1280x720"):
        LoopbackCamera(str(device.path), 64, 48)


def test_a_clip_becomes_a_camera(tmp_path, tiny_model, monkeypatch):
    device = Device(tmp_path / "video9", monkeypatch)
    monkeypatch.setattr(source, "_LIVE", re.compile(str(device.path)))
    monkeypatch.setattr(live_output, "FIRST_PAUSE", 0.1)
    clip = write_clip(tmp_path / "in.mkv", Clip(frames=15, pixel_format="yuv444p", audio=("aac",)))
    report = dehaze_stream(clip, str(device.path), tiny_model)
    assert (report.codec, report.pixel_format) == ("v4l2", "yuv420p")
    assert len(device.frames(64, 48)) == report.frames > 5
    assert report.frames + report.live.late + report.live.unsent == 15
    assert loopback.PIXEL_FORMAT == "yuv420p"
