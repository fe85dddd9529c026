"""The figure of a set: every marker at the true haze of its clips, ticks that say the values, the set's own name."""

import numpy as np

from libranet.data.dataset import CLIPS_FOLDER, ClipInfo, DatasetInfo
from libranet.lab.analysis.dataset_figure import composition_figure
from small_sets import RampSource, SlidingSource, make_set


def test_markers_stand_at_true_values(tmp_path):
    folder = tmp_path / "my-set"
    info = make_set([SlidingSource(label=f"s{i}", seed=i) for i in range(4)] + [RampSource(label="r")], folder)
    names = DatasetInfo.load(folder).names("all")
    clips = [ClipInfo.load(folder / CLIPS_FOLDER / name) for name in names]
    true = {(round(float(np.mean(c.beta)), 4), round(float(np.mean(c.airlight)), 4)) for c in clips}
    figure = composition_figure(folder)
    axes = figure.axes[1]
    drawn = {tuple(np.round(c.get_offsets()[0], 4).tolist()) for c in axes.collections}
    assert drawn == true
    assert sum(int(text.get_text()) for text in axes.texts) == len(clips), "every clip is counted once"
    ticks = [float(label.get_text()) for label in axes.get_xticklabels()]
    assert ticks == sorted({beta for beta, _ in true})
    assert figure.get_suptitle() == "my-set"
    assert set(info.split) == {"train", "test"}
