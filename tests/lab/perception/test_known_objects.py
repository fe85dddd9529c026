"""Average precision by hand, and `eval --table real` with and without boxes."""

import json
import sys

import numpy as np
import pytest
import torch

from libranet.cli.main import main
from libranet.errors import InputError
from libranet.images import Image, write_image
from libranet.lab import real_table
from libranet.lab.perception.objects import average_precision, match_boxes, read_boxes, resample

pytestmark = pytest.mark.more

CAR = ("car", False, 0, 0, 10, 10)
FAR = ("car", False, 50, 50, 60, 60)
HARD = ("car", True, 20, 0, 30, 10)


def test_boxes_are_matched_as_in_pascal_voc() -> None:
    boxes = torch.tensor(
        [[0, 0, 10, 9], [0, 0, 9, 10], [20, 0, 30, 10], [20, 0, 30, 10], [80, 80, 90, 90], [50, 50, 60, 54]]
    )
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    values = match_boxes("car", [CAR, FAR, HARD], boxes, scores)
    assert values == pytest.approx(
        {"boxes.car": 2, "hit.car.0": 0.9, "false.car.1": 0.8, "false.car.4": 0.5, "false.car.5": 0.4}
    )


def test_average_precision_is_the_area_under_the_envelope() -> None:
    """Four boxes; true, false, true, true: precisions 1, 1/2, 2/3, 3/4, so the envelope is 1, then 3/4 twice."""
    first = {"boxes.car": 2.0, "hit.car.0": 0.9, "false.car.1": 0.8}
    second = {"boxes.car": 2.0, "hit.car.0": 0.7, "hit.car.1": 0.6}
    assert average_precision([first, second]) == pytest.approx((1 + 0.75 + 0.75) / 4)
    person = {"boxes.person": 1.0, "false.person.0": 0.9, "hit.person.1": 0.3}
    assert average_precision([first, second, person]) == pytest.approx((0.625 + 0.5) / 2)
    assert np.isnan(average_precision([{"false.car.0": 0.5}]))


def test_an_interval_of_equal_photos_is_a_point() -> None:
    photo = {"boxes.car": 2.0, "hit.car.0": 0.9, "false.car.1": 0.8}
    low, high = resample([[photo] * 5, [photo] * 5], lambda values: values[0] / values[1])
    assert (low, high) == (1.0, 1.0)


@pytest.mark.parametrize(
    "content", ["[]", "no json", '{"a": 3}', '{"a": [["car", 0, 1, 2, 3]]}', '{"a": [["cow", 0, 1, 2, 3, 4]]}']
)
def test_other_files_are_refused(tmp_path, content) -> None:
    (tmp_path / "boxes.json").write_text(content)
    with pytest.raises(InputError, match=r"boxes\.json does not hold boxes .*expected photo -> \[class, difficult"):
        read_boxes(tmp_path / "boxes.json")


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    random = np.random.default_rng(3)
    for name in ("a", "b"):
        pixels = np.kron(random.integers(90, 200, (6, 8, 3)), np.ones((16, 16, 1))).astype(np.uint8)
        write_image(tmp_path / "photos" / f"{name}.png", Image(pixels))
    return tmp_path / "photos"


@pytest.fixture
def run(photos, monkeypatch, capsys):
    """Run the command: its code, and what it printed."""

    def command(*more):
        arguments = ["--table", "real", "--model", "clahe", "-o", str(photos.parent / "out"), *more]
        monkeypatch.setattr(sys, "argv", ["libranet", "eval", str(photos), *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code, "".join(capsys.readouterr())

    return command


def test_photos_without_boxes_have_every_column_but_detection(run) -> None:
    code, shown = run("--format", "md")
    assert not code, shown
    for part in ("hazy", "clahe", "grey cast", "has no boxes.json"):
        assert part in " ".join(shown.split())
    assert "AP50" not in shown


class OnlyBright:
    """A detector that finds the one car where the photo is bright in the mean."""

    name = "only bright"

    def detect(self, image, *, least):
        assert least < 0.25
        sure = torch.tensor([0.9]) if image.mean() > 0.2 else torch.tensor([])
        return torch.tensor([[0, 0, 10, 10]])[: len(sure)], sure, torch.tensor([2])[: len(sure)]


def test_photos_with_boxes_have_a_detection_column(photos, run, monkeypatch) -> None:
    (photos / "boxes.json").write_text(json.dumps({"a.png": [CAR], "b.png": [CAR, FAR]}))
    monkeypatch.setattr(real_table, "open_detector", lambda *_, **__: OnlyBright())
    monkeypatch.setattr(real_table, "find_weights", lambda *_: photos)
    code, shown = run("--format", "md")
    assert not code, shown
    hazy = next(line for line in shown.splitlines() if line.startswith("| hazy"))
    assert "0.667 (" in hazy  # two of three cars
    (photos / "boxes.json").write_text(json.dumps({"a.png": [CAR]}))
    code, shown = run("--fresh")
    assert code == 2
    assert "has no boxes for b" in " ".join(shown.split())
