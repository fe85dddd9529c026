"""What a run leaves on disk."""

import math
from pathlib import Path

import pytest

from libranet.errors import InputError
from libranet.evaluation.results import ClipResult, ResultStore

RESULT = ClipResult(
    "net", "clip/1", "thin", [{"psnr": 20.123456789, "conf": math.nan}, {"psnr": 21.0, "tof": 0.5}], 1.25
)


def test_a_result_comes_back_exactly(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.save(RESULT, "weights-1")
    found = store.find("net", "weights-1", "clip/1")
    assert found is not None
    assert found.frames[1] == RESULT.frames[1]
    assert found.frames[0]["psnr"] == RESULT.frames[0]["psnr"]
    assert math.isnan(found.frames[0]["conf"])
    assert (found.regime, found.seconds) == ("thin", 1.25)


def test_other_weights_do_not_inherit_results(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.save(RESULT, "weights-1")
    assert store.find("net", "weights-2", "clip/1") is None
    assert store.find("net", "weights-1", "clip_1") is None, "another clip with the same folder name"
    assert store.find("other", "weights-1", "clip/1") is None


def test_a_damaged_result_is_measured_again(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.save(RESULT, "weights-1")
    path = store.clip_folder("clip/1") / "net.csv"
    path.write_text(path.read_text()[:-8])
    assert store.find("net", "weights-1", "clip/1") is None


def test_another_evaluation_is_not_mixed_in(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.begin({"dataset": "a", "metrics": ["psnr"]})
    store.begin({"dataset": "a", "metrics": ["psnr"]})
    with pytest.raises(InputError, match=r"other settings \(metrics\)"):
        store.begin({"dataset": "a", "metrics": ["psnr", "ssim"]})
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run.json is damaged"):
        store.begin({"dataset": "a"})
