"""The change from frame to frame, as the paper's heat maps show it."""

from itertools import islice, tee
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from libranet.evaluation.clips import EvalClip, to_array
from libranet.evaluation.restorers import NetworkRestorer
from libranet.lab.analysis.plotting import new_figure
from libranet.network import GridFilter, LiBrANet

_SHOWN_WIDTH = 640


def frame_change(now: np.ndarray, before: np.ndarray) -> np.ndarray:  # [H, W, 3] in [0, 1] -> [H, W]
    """|J_t - J_(t-1)|, the mean over colours."""
    return np.abs(now - before).mean(axis=2)


class HeatmapProbe:
    """Restores three consecutive frames of every clip as `libranet dehaze` does; the first clip is drawn."""

    def __init__(self, model: LiBrANet) -> None:
        self._model = model
        self._clips: dict[str, dict[str, float]] = {}
        self._rows: dict[str, list[np.ndarray]] = {}

    def add_clip(self, clip: EvalClip) -> None:
        """Restore the frames in the middle of a clip. A clip of fewer than three frames is left out."""
        middle, window = len(clip) // 2, self._model.config.window
        if len(clip) < 3:
            return
        # What is restored earlier changes nothing here: the filter over time reaches no further back.
        first = max(0, middle - 1 - window // 2 - GridFilter(1.0, clip.rate or 25.0).reach)
        source = clip.open()
        frames, shown = tee(islice(clip.read(source, device=str(self._model.device)), first, middle + 2 + window // 2))
        restored = NetworkRestorer(self._model, "restored", "").restore(source, frames)
        taken = list(islice(zip(shown, restored, strict=False), middle - 1 - first, middle + 2 - first))
        rows = {"hazy": [frame.hazy for frame, _ in taken], "restored": [image for _, image in taken]}
        if clip.clear is not None:
            rows["clear"] = [frame.clear for frame, _ in taken if frame.clear is not None]
        images = {name: [to_array(image) / np.float32(255) for image in row] for name, row in rows.items()}
        self._clips[clip.name] = {name: float(frame_change(row[1], row[0]).mean()) for name, row in images.items()}
        if not self._rows:
            step = max(1, images["hazy"][0].shape[1] // _SHOWN_WIDTH)
            self._rows = {
                name: [image[::step, ::step] for image in row] + [frame_change(row[1], row[0])[::step, ::step]]
                for name, row in images.items()
            }

    def result(self) -> dict[str, Any]:
        if not self._clips:
            return {"not_measured": "no clip has three frames"}
        names = list(next(iter(self._clips.values())))
        mean = {name: float(np.mean([clip[name] for clip in self._clips.values()])) for name in names}
        return {"mean_change": mean, "clips": self._clips}

    def figure(self) -> Figure | None:
        if not self._rows:
            return None
        top = max(float(np.percentile(row[3], 99.9)) for row in self._rows.values())
        top = max(round(top + 0.005, 2), 0.01)
        height, width = next(iter(self._rows.values()))[0].shape[:2]
        figure = new_figure(8.0, 0.4 + len(self._rows) * 1.85 * height / width)
        titles = ("frame t - 1", "frame t", "frame t + 1", r"$|J_t - J_{t-1}|$")
        grid = np.atleast_2d(figure.subplots(len(self._rows), 4))
        for places, (name, images) in zip(grid, self._rows.items(), strict=True):
            for place, image in zip(places, images, strict=True):
                drawn = place.imshow(image, cmap="magma", vmin=0, vmax=top)
                place.set(xticks=[], yticks=[])
            places[0].set_ylabel(name)
        for place, title in zip(grid[0], titles, strict=True):
            place.set_title(title, fontsize=9)
        figure.colorbar(drawn, ax=grid[:, 3].tolist(), shrink=0.9)
        return figure
