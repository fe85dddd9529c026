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
AREA = 30  # of a marker, in square points for each clip
MOST_TICKS = 10  # values up to which every one has its tick; beyond, round numbers do
NOT_STATED = "not stated"


def composition_figure(folder: Path) -> Figure:
    """Draw the composition of a set that `libranet synth` made.

    Left: how many clips show which scene in which region, as a manifest states them; sources by kind where it does not.
    Right: scattering and airlight of the clips at their true values, coloured by tier, the test clips as triangles.
    """
    info = DatasetInfo.load(folder)
    clips = [ClipInfo.load(folder / CLIPS_FOLDER / name) for name in info.names("all")]
    if not clips:
        raise InputError(f"expected clips in {folder}, found none")
    figure = new_figure(9.0, 3.8)
    figure.suptitle(folder.resolve().name, fontsize=10)
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
    """One marker for all clips of the same haze, at its true values; its area is their number."""
    counts = Counter(
        (clip.regime.split("-")[0], *_haze(clip), "test" if clip.name in test else "train") for clip in clips
    )
    # Large markers first, or they would cover the small ones.
    for (tier, beta, light, part), count in sorted(counts.items(), key=lambda item: -item[1]):
        axes.scatter(
            beta,
            light,
            color=TIER_COLOURS.get(tier, GREY) if part == "train" else "none",
            marker=MARKERS[part],
            s=AREA * count,
            edgecolors="black" if part == "test" else "none",
            linewidths=1.0,
            zorder=3 if part == "test" else 2,
        )
    totals = Counter(_haze(clip) for clip in clips)
    for place, count in totals.items():
        axes.annotate(str(count), place, xytext=(9, 6), textcoords="offset points", fontsize=7, zorder=4)
    betas, lights = (sorted(set(values)) for values in zip(*totals, strict=True))
    if len(betas) <= MOST_TICKS:
        axes.set_xticks(betas, [f"{beta:g}" for beta in betas])
    if len(lights) <= MOST_TICKS:
        axes.set_yticks(lights, [f"{light:g}" for light in lights])
    tiers = TIER_COLOURS | {tier: GREY for tier, *_ in counts if tier not in TIER_COLOURS}
    handles = [Line2D([], [], color=c, marker="s", linestyle="", label=tier) for tier, c in tiers.items()]
    handles += [
        Line2D([], [], color="black", markerfacecolor=fill, marker=MARKERS[part], linestyle="", label=part)
        for part, fill in (("train", GREY), ("test", "none"))
    ]
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_xlabel("scattering β per unit of depth, mean of the channels")
    axes.set_ylabel("airlight, mean of the channels")
    axes.set_title("(b) haze, with the number of clips")
    axes.margins(0.15)
    axes.grid(color="#0001")


def _haze(clip: ClipInfo) -> tuple[float, float]:
    return round(float(np.mean(clip.beta)), 4), round(float(np.mean(clip.airlight)), 4)
