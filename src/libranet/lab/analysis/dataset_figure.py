"""What a set of ours consists of: scenes and regions, and the haze of every clip in its part."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from libranet.data.dataset import CLIPS_FOLDER, ClipInfo, DatasetInfo
from libranet.errors import InputError
from libranet.lab.analysis.plotting import BLUE, GREY, ORANGE, new_figure

TIER_COLOURS = {"thin": BLUE, "medium": ORANGE, "dense": "#9c4a8b"}
MARKERS = {"train": "o", "test": "^"}
SPREAD = (0.12, 0.014)
"""How far clips of one regime are drawn apart, at most: they have the same haze and would hide each other."""
NOT_STATED = "not stated"


def composition_figure(folder: Path) -> Figure:
    """Draw the composition of a set that `libranet synth` made.

    Left: how many clips show which scene in which region, as a manifest states them; sources by kind where it does not.
    Right: scattering and airlight of every clip, coloured by tier, the test clips as triangles.

    Raises:
        InputError: There is no such set, or it has no clips.
    """
    info = DatasetInfo.load(folder)
    clips = [ClipInfo.load(folder / CLIPS_FOLDER / name) for name in info.names("all")]
    if not clips:
        raise InputError(f"expected clips in {folder}, found none")
    figure = new_figure(9.0, 3.8)
    scenes, haze = figure.subplots(1, 2)
    _draw_scenes(scenes, clips)
    _draw_haze(haze, clips, set(info.split["test"]))
    return figure


def _draw_scenes(axes: Axes, clips: Sequence[ClipInfo]) -> None:
    labels = [
        (
            str(clip.source.get("scene") or clip.source.get("kind", NOT_STATED)),
            str(clip.source.get("region") or NOT_STATED),
        )
        for clip in clips
    ]
    counts = Counter(labels)
    rows, columns = (sorted({label[axis] for label in labels}) for axis in (0, 1))
    table = np.array([[counts[row, column] for column in columns] for row in rows])
    axes.imshow(table, cmap="Blues", vmin=0, vmax=max(int(table.max()) * 1.3, 1), aspect="auto")
    for (row, column), count in np.ndenumerate(table):
        if count:
            dark = count > 0.8 * table.max() > 1
            axes.text(column, row, str(count), ha="center", va="center", color="white" if dark else "black")
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("region")
    axes.set_ylabel("scene")
    axes.set_title(f"(a) {len(clips)} clips")


def _draw_haze(axes: Axes, clips: Sequence[ClipInfo], test: set[str]) -> None:
    spread = np.random.default_rng(0).uniform(-1, 1, (len(clips), 2))
    for clip, (across, up) in zip(clips, spread, strict=True):
        part = "test" if clip.name in test else "train"
        beta, light = float(np.mean(clip.beta)), float(np.mean(clip.airlight))
        axes.scatter(
            beta + SPREAD[0] * across,
            light + SPREAD[1] * up,
            color=TIER_COLOURS.get(clip.regime.split("-")[0], GREY),
            marker=MARKERS[part],
            s=26,
            edgecolors="black" if part == "test" else "none",
            linewidths=0.8,
            zorder=3 if part == "test" else 2,
        )
    handles = [Line2D([], [], color=c, marker="s", linestyle="", label=tier) for tier, c in TIER_COLOURS.items()]
    handles += [Line2D([], [], color=GREY, marker=m, linestyle="", label=part) for part, m in MARKERS.items()]
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_xlabel("scattering β per unit of depth")
    axes.set_ylabel("airlight, mean of the channels")
    axes.set_title("(b) haze of every clip (drawn apart)")
    axes.grid(color="#0001")
