"""The paper's comparison of dehazing sets, with a row for the set at hand, counted from its files."""

from pathlib import Path

from libranet.data.dataset import DATASET_FILE, DatasetInfo, open_clips
from libranet.evaluation.clips import open_dataset
from libranet.lab.paper.printed import PrintedTable, TableRow

HEADINGS = ("type", "real/syn.", "annotation", "resolution", "videos", "frames", "further modalities")
PAPER_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("I-HAZE", ("image", "real", "paired", "2K to 4K", "-", "35", "-")),
    ("O-HAZE", ("image", "real", "paired", "up to 5436x3612", "-", "45", "-")),
    ("4KID", ("image", "syn.", "paired", "3840x2160", "-", "10,000", "-")),
    ("8KDehaze", ("image", "syn.", "paired", "8192x8192", "-", "10,000", "-")),
    ("NYU-Haze", ("video", "syn.", "paired", "640x480", "-", "-", "depth")),
    ("REVIDE", ("video", "real", "paired", "2708x1800", "48", "1,982", "-")),
    ("HazeWorld", ("video", "syn.", "paired", "up to 720p", "5,084", "about 326,000", "transmission")),
    ("GoProHazy", ("video", "real", "unaligned", "1920x1080", "27", "4,256", "-")),
    ("DrivingHazy", ("video", "real", "no reference", "1920x1080", "20", "1,807", "-")),
    ("UHV-4K", ("video", "syn.", "paired", "3840x2160", "100", "2,500", "depth, transmission, flow")),
)
"""As reported."""


def compare_datasets(folder: Path) -> PrintedTable:
    """Count a set and put it above the paper's rows."""
    if (folder / DATASET_FILE).is_file():
        cells = _count_own(folder)
    else:
        clips = open_dataset(folder, split="all")
        video = any(len(clip) > 1 for clip in clips)
        paired = "paired" if all(clip.clear is not None for clip in clips) else "no reference"
        sizes = [clip.hazy.size for clip in clips]
        frames = sum(len(clip) for clip in clips)
        videos = f"{len(clips):,}" if video else "-"
        cells = ("video" if video else "image", "not known", paired, _size(sizes), videos, f"{frames:,}", "-")
    rows = [TableRow(folder.resolve().name, "measured", cells)]
    rows += [TableRow(name, "reported", values) for name, values in PAPER_ROWS]
    note = "measured: counted from the files; reported: the paper's table"
    return PrintedTable("Dehazing sets", note, HEADINGS, tuple(rows))


def _count_own(folder: Path) -> tuple[str, ...]:
    clips = [clip.info for clip in open_clips(folder, "all")]
    flagged = len(DatasetInfo.load(folder).flagged)
    sizes = [(clip.width, clip.height) for clip in clips]
    frames = sum(clip.frames for clip in clips)
    kind = f"syn., {flagged} more flagged" if flagged else "syn."
    return ("video", kind, "paired", _size(sizes), f"{len(clips):,}", f"{frames:,}", "depth, transmission, flow")


def _size(sizes: list[tuple[int, int]]) -> str:
    if not sizes:
        return "-"
    width, height = max(sizes)
    return f"{width}x{height}" if len(set(sizes)) == 1 else f"up to {width}x{height}"
