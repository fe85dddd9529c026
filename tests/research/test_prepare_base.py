"""The data of the base recipe: what is taken, at which size, and that a second call does nothing."""

import cv2
import numpy as np
import pytest

TOOL = "prepare_base"
PHOTOS = {"train_a/one.jpg": (900, 1200, 3), "train_b/two.png": (300, 400, 3), "val/three.jpg": (9, 9, 3)}


def write(path, shape) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.random.default_rng(0).integers(0, 255, shape, np.uint8))


@pytest.fixture
def sources(tmp_path):
    for name, shape in PHOTOS.items():
        write(tmp_path / "photos" / name, shape)
    write(tmp_path / "rooms" / "room-0.webp", (72, 128, 3))
    for name in ("train_a__one", "rooms__room-0", "val__three"):
        write(tmp_path / "maps" / f"{name}.png", (360, 480))
    write(tmp_path / "density" / "000.png", (256, 256))
    for number in range(8):
        for kind in ("hazy", "clear"):
            write(tmp_path / "pairs" / kind / f"{number}.jpg", (40, 60, 3))
    return tmp_path


def arguments(root) -> list[str]:
    words = ["--photos", "photos", "--rooms", "rooms", "--depth", "maps", "--density", "density", "--pairs", "pairs"]
    return [word if word.startswith("--") else str(root / word) for word in words] + ["-o", str(root / "out")]


def test_everything_is_brought_to_its_size_once(tool, sources, capsys) -> None:
    assert tool.main(arguments(sources)) == 0
    out = sources / "out"
    found = {str(path.relative_to(out)): cv2.imread(str(path)).shape[:2] for path in out.rglob("*.*")}
    assert found == {
        "train_a/one.webp": (720, 960),
        "train_b/two.webp": (300, 400),
        "rooms/room-0.webp": (72, 128),
        "depth/train_a__one.png": (180, 240),
        "depth/rooms__room-0.png": (180, 240),
        "density/000.png": (64, 64),
        **{f"dev/{kind}/{number}.jpg": (40, 60) for kind in ("hazy", "clear") for number in (0, 4)},
    }
    assert "6 images written" in capsys.readouterr().out
    assert tool.main(arguments(sources)) == 0
    assert "0 images written" in capsys.readouterr().out


def test_a_missing_folder_is_one_sentence(tool, sources, capsys) -> None:
    words = arguments(sources)
    words[words.index("--density") + 1] = str(sources / "nowhere")
    assert tool.main(words) == 2
    assert capsys.readouterr().err.count("no folder at") == 1
