"""The change from frame to frame, as the paper's heat maps show it."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from libranet.data.windows import frame_to_tensor
from libranet.evaluation.clips import EvalClip
from libranet.lab.analysis.observation import encoder_square, read_frames, window_frames
from libranet.lab.analysis.plotting import new_figure
from libranet.network import LiBrANet

_SHOWN_WIDTH = 640


def frame_change(now: np.ndarray, before: np.ndarray) -> np.ndarray:  # [H, W, 3] in [0, 1] -> [H, W]
    """|J_t - J_(t-1)|, the mean over colours."""
    return np.abs(now - before).mean(axis=2)


class HeatmapProbe:
    """Restores three consecutive frames of every clip; the first clip is drawn."""

    def __init__(self, model: LiBrANet) -> None:
        self._model = model
        self._clips: dict[str, dict[str, float]] = {}
        self._rows: dict[str, list[np.ndarray]] = {}

    @torch.no_grad()
    def add_clip(self, clip: EvalClip) -> None:
        """Restore the frames in the middle of a clip. A clip of fewer than three frames is left out."""
        length, model = len(clip), self._model
        if length < 3:
            return
        middle = length // 2
        centres = [middle - 1, middle, middle + 1]
        windows = {centre: window_frames(centre, model.config.window, length) for centre in centres}
        wanted = sorted({index for window in windows.values() for index in window})
        squares, frames = {}, {}
        for index, image in read_frames(clip.hazy, wanted):
            frame = frame_to_tensor(image)[None].to(model.device)
            squares[index] = encoder_square(model, frame)
            if index in centres:
                frames[index] = image
        rows: dict[str, list[np.ndarray]] = {"hazy": [frames[centre] / np.float32(255) for centre in centres]}
        rows["restored"] = []
        for centre in centres:
            grids = model.predict_grids(torch.stack([squares[i] for i in windows[centre]], dim=1), centre_only=True)
            restored = model.restore(frame_to_tensor(frames[centre])[None].to(model.device), grids).image
            rows["restored"].append(restored[0].movedim(0, -1).float().cpu().numpy())
        if clip.clear is not None:
            rows["clear"] = [image / np.float32(255) for _, image in read_frames(clip.clear, centres)]
        self._clips[clip.name] = {name: float(frame_change(row[1], row[0]).mean()) for name, row in rows.items()}
        if not self._rows:
            step = max(1, frames[middle].shape[1] // _SHOWN_WIDTH)
            self._rows = {
                name: [image[::step, ::step] for image in row] + [frame_change(row[1], row[0])[::step, ::step]]
                for name, row in rows.items()
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
