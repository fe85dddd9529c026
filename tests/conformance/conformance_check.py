"""What Debian's ffprobe and framemd5 say about a file, and whether two files hold the same."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from conformance_sources import FFMPEG, FFPROBE

_ADTS = 7
_EXACT = {"pcm_mulaw", "pcm_alaw"}


@dataclass(frozen=True)
class Stream:
    """A stream as ffprobe sees it."""

    index: int
    kind: str
    codec: str
    packets: int
    bytes: int
    start: float
    facts: dict[str, Any] = field(hash=False)


@cache
def probe(path: Path) -> tuple[tuple[Stream, ...], dict[str, Any]]:
    """Streams and container of a file."""
    out = _output(
        [str(FFPROBE), "-v", "error", "-show_streams", "-show_format", "-show_chapters", "-show_packets",
         "-show_entries", "packet=stream_index,size,pts_time", "-of", "json", str(path)]
    )  # fmt: skip
    found = json.loads(out)
    streams = []
    for stream in found["streams"]:
        mine = [p for p in found.get("packets", []) if p.get("stream_index") == stream["index"] and int(p["size"]) > 0]
        cover = bool(stream.get("disposition", {}).get("attached_pic"))
        times = [float(p["pts_time"]) for p in mine if p.get("pts_time", "N/A") != "N/A"]
        kind = "cover" if cover else stream.get("codec_type", "data")
        size = sum(int(p["size"]) for p in mine)
        streams.append(
            Stream(
                stream["index"], kind, stream.get("codec_name", ""), len(mine), size, min(times, default=0.0), stream
            )
        )
    return tuple(streams), found


@cache
def frame_hashes(path: Path, pixel_format: str, decoder: str = "") -> tuple[list[str], list[float]]:
    """MD5 and time of every frame of the first video."""
    command = [str(FFMPEG), "-v", "error", "-noautorotate"] + (["-c:v", decoder] if decoder else [])
    command += ["-i", str(path), "-map", "0:V:0", "-fps_mode", "passthrough", "-copyts"]
    command += ["-pix_fmt", pixel_format, "-enc_time_base", "1/1000000", "-f", "framemd5", "-"]
    hashes, times = [], []
    for line in _output(command).splitlines():
        if not line.startswith("#"):
            cells = [cell.strip() for cell in line.split(",")]
            hashes.append(cells[5])
            times.append(int(cells[2]) / 1e6)
    return hashes, times


def main_video(path: Path) -> Stream:
    """The first video that is not a cover."""
    return next(stream for stream in probe(path)[0] if stream.kind == "video")


def others(path: Path) -> list[Stream]:
    """All streams but the video, without tracks that the muxer writes for chapters and timecodes."""
    main = main_video(path)
    streams = [s for s in probe(path)[0] if s.index != main.index]
    return [
        s
        for s in streams
        if not (s.kind == "data" and s.codec in ("bin_data", "")) and s.facts.get("codec_tag_string") != "tmcd"
    ]


def stream_verdicts(source: Path, output: Path, said: str) -> Iterator[tuple[str, str, str]]:
    """Yield each stream but the video: its kind, its name, and whether it is kept, named or silent."""
    rest = others(output)
    for stream in others(source):
        match = next((s for s in rest if _same(stream, s, output.suffix)), None)
        if match is not None:
            rest.remove(match)
        named = re.search(rf"\bstream {stream.index}\b", said)
        word = "kept" if match is not None else "named" if named else "silent"
        yield stream.kind, f"{stream.kind} {stream.index} ({stream.codec})", word
    for s in rest:
        if s.codec in ("", "none", "bin_data") and s.kind != "attachment":
            yield s.kind, f"unplayable {s.kind} {s.index}", "silent"


def lost_streams(source: Path, output: Path, said: str) -> list[str]:
    """Streams of the source that are neither in the output nor named in what the tool said."""
    return [what for _, what, word in stream_verdicts(source, output, said) if word == "silent"]


def _same(before: Stream, after: Stream, suffix: str) -> bool:
    if before.kind != after.kind:
        return False
    if before.kind in ("cover", "attachment"):
        return True
    if before.kind == "subtitle":
        pauses = before.packets // 2 if before.codec == "mov_text" else 0
        return after.packets >= before.packets - pauses > 0
    if before.codec.startswith("pcm") and suffix == ".mp4":
        return True  # ISO 23003-5, which this ffmpeg (5.1) does not know
    if before.codec in _EXACT and after.codec == "pcm_s16le":
        return True
    if (before.codec, after.codec) == ("mp2", "mp3") and suffix in (".mp4", ".mov"):  # which no reader tells apart
        return before.packets == after.packets
    if before.codec != after.codec:
        return False
    if before.codec.startswith("pcm"):
        return before.bytes == after.bytes
    if suffix == ".avi" and after.packets < before.packets:  # those before the first frame
        return before.packets - after.packets <= 2
    sizes = {before.bytes - n * before.packets * _ADTS for n in (0, 1)}
    return before.packets == after.packets and bool(sizes & {after.bytes - n * after.packets * _ADTS for n in (0, 1)})


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout
