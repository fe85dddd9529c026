"""A virtual camera: frames written to a v4l2 device, as v4l2loopback makes them, for video calls and other programs."""

import fcntl
import os
import struct

import av

from libranet.errors import InputError
from libranet.video.pixels import plane_views

SET_FORMAT = 0xC0D05605
"""VIDIOC_S_FMT: _IOWR('V', 5, struct v4l2_format), which has 208 bytes on 64-bit systems."""
_FORMAT = "=I4x12I152x"
"""The kind of buffer, and v4l2_pix_format in a union of 200 bytes that begins at 8."""
_VIDEO_OUTPUT, _PROGRESSIVE, _SMPTE170M, _REC709 = 2, 1, 1, 3
_YUV420 = int.from_bytes(b"YU12", "little")
PIXEL_FORMAT = "yuv420p"
"""What programs that read cameras take."""


class LoopbackCamera:
    """An open virtual camera of one frame size."""

    def __init__(self, device: str, width: int, height: int) -> None:
        """Open the device and set its format.

        Raises:
            InputError: There is no such device, or it takes no frames.
        """
        if width % 2 or height % 2:
            raise InputError(f"a virtual camera takes even sizes, got {width}x{height}: add --scale")
        try:
            self._file = os.open(device, os.O_WRONLY)
        except OSError as error:
            raise InputError(
                f"the virtual camera {device} cannot be opened ({error.strerror}): load it with "
                "`sudo modprobe v4l2loopback exclusive_caps=1`"
            ) from None
        size = width * height * 3 // 2
        space = _REC709 if height >= 720 else _SMPTE170M
        wanted = (width, height, _YUV420, _PROGRESSIVE, width, size, space, 0, 0, 0, 0, 0)
        try:
            asked = struct.pack(_FORMAT, _VIDEO_OUTPUT, *wanted)
            found = struct.unpack(_FORMAT, fcntl.ioctl(self._file, SET_FORMAT, asked))
        except OSError as error:
            os.close(self._file)
            raise InputError(f"{device} takes no frames ({error.strerror}): give a device of v4l2loopback") from None
        if found[1:4] != wanted[:3]:  # another program has it open in another format
            os.close(self._file)
            raise InputError(f"{device} is in use as {found[1]}x{found[2]}: close what reads it, or add --scale")

    def write(self, frame: av.VideoFrame) -> None:
        """Show a frame of `PIXEL_FORMAT`."""
        os.write(self._file, b"".join(view.tobytes() for view in plane_views(frame)))

    def close(self) -> None:
        """Give the device back."""
        os.close(self._file)
