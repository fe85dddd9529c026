"""Results of other methods, as files: found by name or number, measured as our models are, and never mixed up."""

import json
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from libranet.cli.main import main
from libranet.errors import InputError
from libranet.evaluation.clips import open_dataset
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restored_files import parse_restored
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import prepare_scores
from libranet.images import Image, read_image, write_image
from libranet.metrics import psnr
from tiny_set import make_frames, make_hazy, write_frames, write_pairs


def results(root: Path, strength: float = 0.1) -> Path:
    """What a method made of `write_pairs`: less haze."""
    for index, name in enumerate(("one", "two")):
        write_frames(root / name, make_hazy(make_frames(5, seed=index), strength))
    return root


def measure(tmp_path: Path, text: str, metrics: str = "psnr") -> dict[str, list[float]]:
    clips = open_dataset(write_pairs(tmp_path / "set"))
    restored = parse_restored(text, clips=len(clips))
    assert restored.check(clips).problems == ()
    scores = prepare_scores(choose_metrics(metrics), paired=True)
    found = evaluate(clips, [restored], scores, ResultStore(tmp_path / "report"), subject=restored.name)
    return {result.clip: [frame["psnr"] for frame in result.frames] for result in found}


def expected(seed: int) -> list[float]:
    clear = make_frames(5, seed=seed)
    pairs = zip(make_hazy(clear, 0.1), clear, strict=True)
    return [psnr(*(torch.from_numpy(image).permute(2, 0, 1) / 255 for image in pair)) for pair in pairs]


def test_frames_in_folders_by_clip(tmp_path):
    found = measure(tmp_path, f"theirs={results(tmp_path / 'theirs')}")
    assert found["one"] == pytest.approx(expected(0))
    assert found["two"] == pytest.approx(expected(1))


@pytest.mark.parametrize("form", ["{:05d}_dehazed.png", "out-{}.png", "{:03d}.png"])
def test_other_names_with_the_numbers_of_the_hazy_frames(tmp_path, form):
    folder = results(tmp_path / "theirs")
    for path in sorted(folder.rglob("*.png")):
        path.rename(path.with_name(form.format(int(path.stem))))
    assert measure(tmp_path, f"theirs={folder}")["two"] == pytest.approx(expected(1))


def test_a_lossless_video_for_a_clip(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    for index, name in enumerate(("one", "two")):
        with av.open(str(folder / f"{name}.mkv"), "w") as container:
            stream = container.add_stream("libx264rgb", rate=25, options={"crf": "0", "preset": "ultrafast"})
            stream.width, stream.height, stream.pix_fmt = 64, 48, "rgb24"
            for frame in make_hazy(make_frames(5, seed=index), 0.1):
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            container.mux(stream.encode(None))
    assert measure(tmp_path, f"theirs={folder}")["one"] == pytest.approx(expected(0))


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def _crop(folder: Path) -> None:
    for path in folder.iterdir():
        write_image(path, Image(read_image(path).samples[:40]))


def _flatten(folder: Path) -> None:
    for path in (folder / "one").iterdir():
        path.rename(folder / path.name)


WRONG = {
    "a clip is missing": (lambda f: _remove(f / "two"), r"theirs: no result of clip two in .*two/ with frames"),
    "a frame is missing": (lambda f: (f / "one" / "00002.png").unlink(), r"no result of frame 00002\.png of clip one"),
    "another size": (lambda f: _crop(f / "one"), r"one size in clip one, got 64x48 and 64x40"),
    "one folder for two clips": (_flatten, r"no result of clip one in"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_before_the_first_frame(tmp_path, name):
    change, sentence = WRONG[name]
    folder = results(tmp_path / "theirs")
    change(folder)
    clips = open_dataset(write_pairs(tmp_path / "set"))
    with pytest.raises(InputError, match=sentence):
        parse_restored(f"theirs={folder}", clips=len(clips)).check(clips)


def test_results_of_another_set_are_named(tmp_path):
    for index, name in enumerate(("one", "two")):
        write_frames(tmp_path / "theirs" / name, make_frames(5, seed=index + 7))
    clips = open_dataset(write_pairs(tmp_path / "set"))
    problems = parse_restored(f"theirs={tmp_path / 'theirs'}", clips=2).check(clips).problems
    assert [problem.split(":")[0] for problem in problems] == ["clip one", "clip two"]
    for text in ("theirs", "=x", f"theirs={tmp_path / 'none'}"):
        with pytest.raises(InputError, match=r"NAME=DIR|no folder of results"):
            parse_restored(text)


def test_a_changed_file_is_measured_again_and_part_of_a_clip_is_enough(tmp_path):
    folder = results(tmp_path / "theirs")
    restored = parse_restored(f"theirs={folder}", clips=2)
    before = restored.fingerprint
    write_image(folder / "one" / "00000.png", Image(np.zeros((48, 64, 3), np.uint8)))
    assert restored.fingerprint != before
    (folder / "one" / "00004.png").unlink()
    clips = open_dataset(write_pairs(tmp_path / "set"))
    replace(restored, frames=3).check(clips)


def test_the_command_prints_one_table_for_all(tmp_path, monkeypatch, capsys):
    write_pairs(tmp_path / "set")
    for name, strength in (("weak", 0.2), ("strong", 0.05)):
        results(tmp_path / name, strength)
    words = ["--hazy", tmp_path / "set/hazy", "--clear", tmp_path / "set/clear", "--metrics", "psnr,ssim"]
    words += ["--restored", f"weak={tmp_path / 'weak'}", "--restored", f"strong={tmp_path / 'strong'}"]
    monkeypatch.setattr("sys.argv", ["libranet", "eval", *map(str, words), "-o", str(tmp_path / "report")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    out = capsys.readouterr().out
    assert "set: mean over clips" in out
    models = json.loads((tmp_path / "report" / "summary.json").read_text())["models"]
    assert list(models) == ["weak", "strong", "identity"]
    values = [models[name]["psnr"]["mean"] for name in ("identity", "weak", "strong")]
    assert values == sorted(values)
    clips = (tmp_path / "report" / "clips.csv").read_text()
    assert "weak,one,,5,0.000,," in clips, "reading files is nobody's speed"


def test_a_table_of_nothing_is_an_error(tmp_path, monkeypatch, capsys):
    write_frames(tmp_path / "clip", make_hazy(make_frames(4)))
    monkeypatch.setattr("sys.argv", ["libranet", "eval", str(tmp_path / "clip"), "--metrics", "psnr,ssim"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "nothing can be measured: the set has no ground truth" in capsys.readouterr().err


def test_deep_frames_and_gaps_are_named(tmp_path, monkeypatch, capsys):
    for side, frames in (("clear", make_frames(4)), ("hazy", make_hazy(make_frames(4)))):
        (tmp_path / "set" / side).mkdir(parents=True)
        for number, frame in zip((1, 2, 3, 7), frames, strict=True):
            write_image(tmp_path / "set" / side / f"{number}.png", Image(frame.astype(np.uint16) * 257))
    words = ["libranet", "eval", str(tmp_path / "set"), "--model", "identity", "--metrics", "psnr"]
    monkeypatch.setattr("sys.argv", [*words, "-o", str(tmp_path / "report")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    said = capsys.readouterr().out
    assert "clip set: 3 of the numbers 1 to 7 are missing: 4 to 6" in said
    assert "the frames have 16 bits and are restored so; metrics are computed on 8 bits" in said
