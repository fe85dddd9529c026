"""The table of what each container keeps: measured, not written by hand.

PYTHONPATH=src:tests:tests/conformance python tests/conformance/kept_table.py > docs/kept.md
"""

import sys
import tempfile
from pathlib import Path

import torch
from conformance_check import main_video, others, probe
from conformance_sources import make_source

from libranet.engine import DehazeOptions, dehaze_video
from libranet.errors import InputError
from libranet.network import LiBrANet
from tiny_network import TINY, perturb

CONTAINERS = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".ts")
STREAMS = {
    "AAC": "h264", "MP3": "mp3-mp4", "AC-3": "two-sounds", "E-AC-3": "eac3", "Opus": "opus", "Vorbis": "vorbis",
    "FLAC": "flac", "ALAC": "alac", "PCM": "pcm-mkv", "G.711": "g711", "SubRip subtitles": "srt",
    "ASS subtitles": "ass-font", "mp4 subtitles (mov_text)": "mov-text", "WebVTT subtitles": "webvtt",
    "cover art": "cover-mp4", "attached fonts": "font",
}  # fmt: skip
"""What a row is about, and the source that has it as its last stream."""
FACTS = (
    "chapters",
    "title and artist",
    "pixel aspect ratio",
    "rotation",
    "HDR colour tags",
    "variable frame rate",
    "alpha",
)
HEAD = """# What each container keeps

Measured by `tests/conformance` with files that Debian's ffmpeg made and ffprobe judged; written by
`tests/conformance/kept_table.py`. *no* means: left out, with a note on the terminal and in the JSON, never in silence.
`--audio` transcodes audio that a container does not take.
"""


def measure() -> str:
    """Run every combination and return the page."""
    torch.manual_seed(0)
    network = perturb(LiBrANet(TINY)).eval()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows += [
            (label, [_stream(folder, network, source, c) for c in CONTAINERS]) for label, source in STREAMS.items()
        ]
        rows += [(label, [_fact(folder, network, label, c) for c in CONTAINERS]) for label in FACTS]
    lines = [HEAD, "| | " + " | ".join(CONTAINERS) + " |", "|---|" + "---|" * len(CONTAINERS)]
    lines += [f"| {label} | " + " | ".join(cells) + " |" for label, cells in rows]
    return "\n".join(lines) + "\n"


def _run(folder: Path, network: LiBrANet, source: str, suffix: str):
    path, output = make_source(source, folder), folder / f"out-{source}{suffix}"
    report = dehaze_video(
        path, output, model=network, options=DehazeOptions(strength=0.0), device="cpu", overwrite=True
    )
    return path, output, report


def _stream(folder: Path, network: LiBrANet, source: str, suffix: str) -> str:
    path, output, report = _run(folder, network, source, suffix)
    stream = [s for s in others(path) if s.kind != "attachment" or source == "font"][-1]
    if any(f"stream {stream.index} (" in note for note in report.warnings):
        return "no"
    found = [s for s in others(output) if s.kind == stream.kind]
    if not found:
        raise AssertionError(f"{source} into {suffix}: {stream.kind} {stream.index} was lost in silence")
    codec = found[-1].codec
    return "yes" if codec == stream.codec or stream.kind in ("cover", "attachment") else f"as {codec}"


def _fact(folder: Path, network: LiBrANet, label: str, suffix: str) -> str:
    sources = {
        "chapters": "chapters", "title and artist": "metadata", "pixel aspect ratio": "aspect", "rotation": "rotated",
        "HDR colour tags": "bt2020", "variable frame rate": "variable-rate", "alpha": "ffv1-yuva",
    }  # fmt: skip
    try:
        path, output, report = _run(folder, network, sources[label], suffix)
    except InputError:
        return "refused"
    before, after = main_video(path).facts, main_video(output).facts
    if label == "chapters":
        kept = len(probe(output)[1].get("chapters", [])) == 2
    elif label == "title and artist":
        tags = {key.lower(): value for key, value in probe(output)[1]["format"].get("tags", {}).items()}
        kept = (tags.get("title"), tags.get("artist")) == ("Fog", "Someone")
    elif label == "pixel aspect ratio":
        kept = before["sample_aspect_ratio"] == after.get("sample_aspect_ratio")
    elif label == "rotation":
        kept = "side_data_list" in after
    elif label == "HDR colour tags":
        kept = all(before[key] == after.get(key) for key in ("color_primaries", "color_transfer", "color_space"))
    elif label == "variable frame rate":
        if suffix == ".avi":
            return "in whole frames"
        kept = main_video(path).packets == main_video(output).packets
    else:
        return f"as {report.codec}"
    if not kept and not report.warnings:
        raise AssertionError(f"{label} into {suffix} was lost in silence")
    return "yes" if kept else "no"


if __name__ == "__main__":
    sys.stdout.write(measure())
