"""Running models over clips: right frames, right numbers, resumable."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from libranet.engine.frame_sources import FrameSource
from libranet.errors import InputError
from libranet.evaluation.clips import EvalFrame, open_dataset
from libranet.evaluation.figures import read_panel
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import Restorer, open_restorer, open_restorers
from libranet.evaluation.results import ClipResult, ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import Scores, prepare_scores
from libranet.metrics import psnr
from libranet.network import load_model
from tiny_set import make_frames, write_checkpoint, write_frames, write_pairs


def _scores(metrics: str = "psnr,tof", *, paired: bool = True) -> Scores:
    return prepare_scores(choose_metrics(metrics), paired=paired, flow="dis")


def _tensor(image: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(image).permute(2, 0, 1).float() / 255


class Delayed:
    """The identity, three frames late: whoever mixes up frames is found out."""

    name = "delayed"
    fingerprint = "delayed"
    backend = ""

    def restore(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[torch.Tensor]:
        inside: list[torch.Tensor] = []
        for frame in frames:
            inside.append(frame.hazy)
            if len(inside) > 3:
                yield inside.pop(0)
        yield from inside


def _run(folder: Path, restorers: list[Restorer], store: Path, **options: object) -> list[ClipResult]:
    clips = open_dataset(folder)
    scores = _scores(paired=clips[0].clear is not None)
    return evaluate(clips, restorers, scores, ResultStore(store), subject=restorers[-1].name, **options)  # type: ignore[arg-type]


def test_the_numbers_are_those_of_the_frames(tmp_path: Path) -> None:
    write_pairs(tmp_path / "set", ("one",))
    (result,) = _run(tmp_path / "set", [open_restorer("identity")], tmp_path / "report")
    (clip,) = open_dataset(tmp_path / "set")
    expected = [psnr(_tensor(hazy), _tensor(clear)) for hazy, clear in clip.frames() if clear is not None]
    assert [frame["psnr"] for frame in result.frames] == pytest.approx(expected)
    assert "tof" not in result.frames[0], "the first frame has none before it"
    assert all("tof" in frame for frame in result.frames[1:])


def test_models_with_different_delays_are_measured_on_the_same_frames(tmp_path: Path) -> None:
    write_pairs(tmp_path / "set", ("one",))
    prompt, late = _run(tmp_path / "set", [open_restorer("identity"), Delayed()], tmp_path / "report")
    assert prompt.frames == late.frames


def test_the_network_is_measured_as_the_window_gives_it(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "tiny.safetensors")
    write_pairs(tmp_path / "set", ("one",))
    model = open_restorer(str(checkpoint), steady=0.0, dense_fog=False)
    (result,) = _run(tmp_path / "set", [model], tmp_path / "report")
    net, (clip,) = load_model(checkpoint), open_dataset(tmp_path / "set")
    frames = [(_tensor(hazy), _tensor(clear)) for hazy, clear in clip.frames() if clear is not None]
    for index in range(5):
        window = torch.stack([frames[min(max(index + k, 0), 4)][0] for k in range(-2, 3)])
        with torch.no_grad():
            expected = psnr((net(window[None])[0] * 255).round() / 255, frames[index][1])
        assert result.frames[index]["psnr"] == pytest.approx(expected, abs=1e-3)


def test_the_oracle_sees_the_truth(tmp_path: Path) -> None:
    write_pairs(tmp_path / "set", ("one",))
    (result,) = _run(tmp_path / "set", open_restorers(["truth"]), tmp_path / "report")
    assert all(frame["psnr"] == 100.0 for frame in result.frames)
    write_frames(tmp_path / "unpaired", make_frames(2))
    with pytest.raises(InputError, match="truth needs ground truth"):
        _run(tmp_path / "unpaired", open_restorers(["truth"]), tmp_path / "other")


def test_a_static_clip_is_steady(tmp_path: Path) -> None:
    write_frames(tmp_path / "still", make_frames(1) * 4)
    (result,) = _run(tmp_path / "still", [open_restorer("identity")], tmp_path / "report")
    assert [frame.get("tof") for frame in result.frames] == [None, 0.0, 0.0, 0.0]


class Counting:
    """The identity. Counts what it is given."""

    name = "identity"
    fingerprint = "identity"
    backend = ""

    def __init__(self, fail_after: int | None = None) -> None:
        self.frames, self.fail_after = 0, fail_after

    def restore(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[torch.Tensor]:
        for frame in frames:
            self.frames += 1
            if self.fail_after is not None and self.frames > self.fail_after:
                raise KeyboardInterrupt
            yield frame.hazy


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    write_pairs(tmp_path / "set")
    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path / "set", [Counting(fail_after=7)], tmp_path / "report")  # in the middle of the second clip
    again = Counting()
    results = _run(tmp_path / "set", [again], tmp_path / "report")
    assert again.frames == 5, "only the second clip is run again"
    idle = Counting()
    assert [r.frames for r in _run(tmp_path / "set", [idle], tmp_path / "report")] == [r.frames for r in results]
    assert idle.frames == 0
    fresh = _run(tmp_path / "set", [Counting()], tmp_path / "other")
    assert [r.frames for r in results] == [r.frames for r in fresh]


def test_a_model_can_be_added_later(tmp_path: Path) -> None:
    write_pairs(tmp_path / "set")
    _run(tmp_path / "set", [Delayed()], tmp_path / "report")
    panel = read_panel(ResultStore(tmp_path / "report").clip_folder("two"))
    counting = Counting()
    results = _run(tmp_path / "set", [Delayed(), counting], tmp_path / "report")
    assert counting.frames == 10
    assert [(r.model, r.clip) for r in results] == [
        ("delayed", "one"),
        ("identity", "one"),
        ("delayed", "two"),
        ("identity", "two"),
    ]
    folder = ResultStore(tmp_path / "report").clip_folder("two")
    assert read_panel(folder) == panel, "the frame that the images show stays the same"
    assert (folder / "identity-crop.jpg").is_file()


def test_images_show_the_worst_frame(tmp_path: Path) -> None:
    write_pairs(tmp_path / "set", ("one",))
    spoiled = make_frames(5)[3] // 3
    write_frames(tmp_path / "bad", [spoiled])
    (tmp_path / "bad" / "00000.png").replace(tmp_path / "set" / "hazy" / "one" / "00003.png")
    _run(tmp_path / "set", [open_restorer("identity")], tmp_path / "report")
    folder = ResultStore(tmp_path / "report").clip_folder("one")
    panel = read_panel(folder)
    assert panel is not None
    assert panel.frame == 3
    assert panel.chosen_by == "lowest PSNR of identity"
    names = {p.name for p in folder.glob("*.jpg")}
    assert names == {f"{view}{kind}.jpg" for view in ("hazy", "clear", "identity") for kind in ("", "-crop", "-change")}


def test_a_limit_on_frames_and_the_progress(tmp_path: Path) -> None:
    write_pairs(tmp_path / "set", ("one",))
    seen: list[tuple[str, int]] = []
    results = _run(
        tmp_path / "set",
        [open_restorer("identity")],
        tmp_path / "report",
        limit_frames=3,
        report=lambda clip, done: seen.append((clip, done)),
    )
    assert len(results[0].frames) == 3
    assert seen == [("one", 1), ("one", 2), ("one", 3)]
