"""A process that sends encoded video and sound: `python -m libranet.video.sender FORMAT ADDRESS key=value`.

FFmpeg connects while it holds Python's lock, and a server that says nothing would stop everything else, Ctrl-C too. So
this is done in a process that can be killed. It reads NUT from standard input, where a packet arrives as it was sent,
and answers with a byte for each packet of the video that is on its way. It loads little, to begin soon.
"""

import os
import sys
from typing import Any

import av

from libranet.errors import InputError
from libranet.video.srt import send

READY = b"!"
"""The first answer: Python and FFmpeg are loaded."""


def main(words: list[str]) -> int:
    """Send until the input ends. Return the exit code; what went wrong is on standard error."""
    os.write(1, READY)
    name, address = words[:2]
    options = dict(word.split("=", 1) for word in words[2:])
    try:
        target: Any = send(address) if address.lower().startswith("srt://") else address
        _pass_on(name, target, options)
        if not isinstance(target, str):
            target.close()
    except (av.FFmpegError, OSError, InputError) as error:
        said = error.sentence if isinstance(error, InputError) else error.strerror or str(error)
        print(said.split("\n")[0], file=sys.stderr)
        return 1
    return 0


def _pass_on(name: str, target: Any, options: dict[str, str]) -> None:
    with (
        open(0, "rb", buffering=0) as pipe,
        av.open(pipe, "r", format="nut", options={"probesize": "32", "analyzeduration": "0"}) as source,
        av.open(target, "w", format=name, container_options=options) as output,
    ):
        streams = [output.add_stream_from_template(stream, opaque=True) for stream in source.streams]
        for packet in source.demux():
            if packet.size == 0:
                continue
            is_video = packet.stream.type == "video"
            packet.stream = streams[packet.stream.index]
            output.mux(packet)
            if is_video:
                os.write(1, b".")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
