"""The table of what each container keeps: measured, not written by hand.

PYTHONPATH=src:tests:tests/conformance python tests/conformance/kept_table.py > docs/kept.md
"""

import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import container_check
import container_sources
import image_check
import image_sources
import torch
from conformance_cases import CASES
from conformance_check import main_video, others, probe, stream_verdicts
from conformance_sources import SOURCES, make_source

from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.image_files import dehaze_image
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
HEAD = """# What is kept

Measured by `tests/conformance` with files that Debian's ffmpeg made and ffprobe judged; written by
`tests/conformance/kept_table.py`. *no* means: left out, with a note on the terminal and in the JSON, never in silence.
`--audio` transcodes audio that a container does not take.
"""

CONTAINER_HEAD = """## What container tools list

Videos made with mkvmerge, Debian's ffmpeg and boxes put in by hand; listed with mkvmerge, mkvextract, ffprobe and
exiftool before and after. *kept*: the output shows the same. *named*: a warning and the JSON name it. The last two
columns count outputs.
"""
STREAM_HEAD = """## What ffprobe lists of streams

Videos of every codec that Debian's ffmpeg writes, in the containers that people would choose for them; listed with
ffprobe before and after. A copied stream is *kept* where it has as many packets and bytes.
"""
IMAGE_HEAD = """## What exiftool lists of images

Images made with Pillow, tifffile and exiftool, and listed with exiftool before and after. A file of the same format
keeps everything but signatures of the old samples (content credentials) and PNG chunks that forbid a copy.
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
    lines += ["", CONTAINER_HEAD, *_containers(network), "", STREAM_HEAD, *_streams(network)]
    lines += ["", IMAGE_HEAD, *_images(network)]
    return "\n".join(lines) + "\n"


def _containers(network: LiBrANet) -> list[str]:
    def run(source: Path, output: Path) -> list[tuple[str, str, str]]:
        report = dehaze_video(source, output, model=network, options=DehazeOptions(strength=0.0), device="cpu")
        return list(container_check.verdicts(source, output, " ".join(report.warnings)))

    return _verdict_table(container_sources.SOURCES, container_sources.CASES, CONTAINERS, run)


def _streams(network: LiBrANet) -> list[str]:
    def run(source: Path, output: Path) -> list[tuple[str, str, str]]:
        report = dehaze_video(source, output, model=network, options=DehazeOptions(strength=0.0), device="cpu")
        return list(stream_verdicts(source, output, " ".join(report.warnings)))

    def maker(name: str) -> Callable[[Path], None]:
        return lambda path: make_source(name, path.parent)

    files = {name: f"{name}{recipe.suffix}" for name, recipe in SOURCES.items()}
    cases = [(files[name], suffix) for name, suffix in CASES]
    return _verdict_table({files[name]: maker(name) for name in files}, cases, CONTAINERS, run)


def _images(network: LiBrANet) -> list[str]:
    def run(source: Path, output: Path) -> list[tuple[str, str, str]]:
        report = dehaze_image(source, output, network, options=DehazeOptions(strength=0.0))
        return list(image_check.verdicts(source, output, " ".join(report.warnings)))

    sources = image_sources.SOURCES | {f"combined-{name}": make for name, make in image_sources.COMBINED.items()}
    cases = image_sources.CASES + [
        (f"combined-{name}", suffix) for name in image_sources.COMBINED for suffix in image_sources.both_targets(name)
    ]
    return _verdict_table(sources, cases, image_sources.TARGETS, run)


def _verdict_table(
    sources: Mapping[str, Callable[[Path], None]],
    cases: list[tuple[str, str]],
    targets: tuple[str, ...],
    run: Callable[[Path, Path], list[tuple[str, str, str]]],
) -> list[str]:
    """Rows of what a tool lists: what each target does with it, and in how many files it is kept and named."""
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    with tempfile.TemporaryDirectory() as name:
        for number, (source, suffix) in enumerate(cases):
            path = Path(name) / source
            if not path.exists():
                sources[source](path)
            seen: dict[str, set[str]] = defaultdict(set)
            for kind, what, verdict in run(path, Path(name) / f"out{number}{suffix}"):
                if verdict == "silent":
                    raise AssertionError(f"{source} into {suffix}: {what} was lost in silence")
                seen[kind].add(verdict)
            for kind, words in seen.items():
                found[kind][suffix]["named" if "named" in words else "kept"] += 1
    lines = [f"| listed | {' | '.join(targets)} | kept | named |", "|---|" + "---|" * (len(targets) + 2)]
    for kind in sorted(found):
        cells = [_cell(found[kind].get(suffix, Counter())) for suffix in targets]
        total = sum((found[kind][suffix] for suffix in found[kind]), Counter())
        lines.append(f"| {kind} | {' | '.join(cells)} | {total['kept']} | {total['named']} |")
    return [*lines, "", f"{len(sources)} sources, {len(cases)} outputs, nothing lost in silence."]


def _cell(counts: Counter[str]) -> str:
    return " or ".join(word for word in ("kept", "named") if counts[word])


def _run(folder: Path, network: LiBrANet, source: str, suffix: str):
    path, output = make_source(source, folder), folder / f"out-{source}{suffix}"
    report = dehaze_video(
        path, output, model=network, options=DehazeOptions(strength=0.0), device="cpu", overwrite=True
    )
    return path, output, report


def _stream(folder: Path, network: LiBrANet, source: str, suffix: str) -> str:
    path, output, report = _run(folder, network, source, suffix)
    stream = [s for s in others(path) if s.kind != "attachment" or source == "font"][-1]
    if any(f"stream {stream.index} (" in note and "is left out" in note for note in report.warnings):
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
