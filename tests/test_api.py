"""The public names, used as a program would: paths and arrays in, files and arrays out, typed."""

import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import libranet
from clips import Clip, write_clip
from libranet.errors import InputError

HAZY = np.random.default_rng(0).integers(60, 200, (48, 64, 3), np.uint8)


@pytest.fixture
def photo(tmp_path) -> Path:
    path = tmp_path / "foggy.png"
    cv2.imwrite(str(path), HAZY[..., ::-1])
    return path


def test_an_image_may_be_a_path_or_an_array_of_any_kind(photo, tiny_model):
    from_path = libranet.dehaze_image(photo, model=tiny_model)
    from_text = libranet.dehaze_image(str(photo), model=tiny_model)
    from_array = libranet.dehaze_image(HAZY, model=tiny_model)
    assert from_path.dtype == np.uint8
    assert np.array_equal(from_path, from_array)
    assert np.array_equal(from_path, from_text)
    assert not np.array_equal(from_path, HAZY)
    tensor = torch.from_numpy(HAZY.copy()).permute(2, 0, 1).float() / 255
    clear = libranet.dehaze_image(tensor, model=tiny_model)
    assert (clear.shape, clear.dtype) == (tensor.shape, torch.float32)
    assert np.array_equal(libranet.dehaze_image(HAZY, model=tiny_model, strength=0.0), HAZY)


def test_a_file_in_is_a_file_out_with_its_report(photo, tiny_model, tmp_path):
    report = libranet.dehaze_image(photo, tmp_path / "clear.png", model=tiny_model)
    assert isinstance(report, libranet.DehazeReport)
    written = cv2.imread(str(tmp_path / "clear.png"))[..., ::-1]
    assert np.array_equal(written, libranet.dehaze_image(photo, model=tiny_model))
    with pytest.raises(InputError, match="exists: add overwrite=True to replace it"):
        libranet.dehaze_image(photo, tmp_path / "clear.png", model=tiny_model)
    libranet.dehaze_image(photo, tmp_path / "clear.png", model=tiny_model, overwrite=True, strength=0.0)
    assert np.array_equal(cv2.imread(str(tmp_path / "clear.png"))[..., ::-1], HAZY)


@pytest.mark.skipif(not hasattr(cv2, "imencodeWithMetadata"), reason="OpenCV before 4.12 writes no EXIF")
def test_a_photo_that_lies_on_its_side_comes_upright(tmp_path, tiny_model):
    quarter_turn = bytes.fromhex("4d4d002a0000000800010112000300000001000600000000000000")  # EXIF orientation 6
    exif = np.frombuffer(quarter_turn, np.uint8)
    _, data = cv2.imencodeWithMetadata(".jpg", HAZY, [cv2.IMAGE_METADATA_EXIF], [exif])
    (tmp_path / "side.jpg").write_bytes(data.tobytes())
    upright = cv2.imread(str(tmp_path / "side.jpg"))[..., ::-1]  # OpenCV turns it
    found = libranet.dehaze_image(tmp_path / "side.jpg", model=tiny_model, strength=0.0)
    assert upright.shape == (64, 48, 3)
    assert np.array_equal(found, upright)


def test_options_that_an_array_cannot_have_are_refused(tiny_model):
    with pytest.raises(InputError, match="no other options"):
        libranet.dehaze_image(HAZY, model=tiny_model, options=libranet.DehazeOptions(compare="split"))


def test_dehaze_video_takes_a_photo_and_a_strength(photo, tiny_model, tmp_path):
    libranet.dehaze_video(photo, tmp_path / "clear.png", model=tiny_model, strength=0.5)
    written = cv2.imread(str(tmp_path / "clear.png"))[..., ::-1]
    assert np.array_equal(written, libranet.dehaze_image(photo, model=tiny_model, strength=0.5))
    source = write_clip(tmp_path / "in.mp4", Clip(frames=3))
    report = libranet.dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, strength=0.5)
    assert report.frames == 3
    with pytest.raises(InputError) as refused:
        libranet.dehaze_video(source, tmp_path / "out.mp4", model=tiny_model)
    assert "--" not in str(refused.value)


def test_a_dehazer_is_a_context_and_a_generator(tiny_model):
    frames = [np.roll(HAZY, step, axis=1) for step in range(6)]
    with libranet.Dehazer(tiny_model) as dehazer:
        whole = list(dehazer.restore(iter(frames)))
        dehazer.push(frames[0])  # which is left waiting
    assert len(whole) == len(frames)
    assert np.array_equal(dehazer.image(HAZY), libranet.dehaze_image(HAZY, model=tiny_model))  # nothing waits any more


TYPED = """
import numpy as np
import torch
import libranet

reveal_type(libranet.dehaze_image("a.png"))
reveal_type(libranet.dehaze_image("a.png", "b.png"))
reveal_type(libranet.dehaze_image(torch.zeros(3, 32, 32)))
reveal_type(libranet.dehaze_video("a.mp4", "b.mp4", strength=0.5))
with libranet.Dehazer("libranet-small") as dehazer:
    reveal_type(dehazer)
    reveal_type(next(dehazer.restore([np.zeros((32, 32, 3), np.uint8)])))
libranet.dehaze_image("a.png", "b.png", sterngth=1)
"""


@pytest.mark.slow
def test_a_type_checker_knows_what_comes_back(tmp_path):
    (tmp_path / "program.py").write_text(TYPED)
    options = ["--no-incremental", "--ignore-missing-imports", "--follow-imports=silent"]
    environment = os.environ | {"MYPYPATH": str(Path(libranet.__file__).parents[1])}
    words = [sys.executable, "-m", "mypy", *options, "program.py"]
    found = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
    types = [line.partition('"')[2].rstrip('"') for line in found.splitlines() if "Revealed" in line]
    kinds = [text.partition("[")[0].rpartition(".")[2] for text in types]
    assert kinds == ["ndarray", "DehazeReport", "Tensor", "DehazeReport", "Dehazer", "ndarray"], found
    misspelt = len(TYPED.splitlines())
    assert {line.partition(" error:")[0] for line in found.splitlines() if " error:" in line} == {
        f"program.py:{misspelt}:"
    }


def test_the_first_frame_waits_for_no_masked_arrays():
    """Their package takes a tenth of the time until the first frame; masked arrays are still refused by name."""
    code = """
import sys, numpy
from libranet import Dehazer
dehazer = Dehazer("small", device="cpu", live=True)
assert len(dehazer.push(numpy.zeros((48, 64, 3), numpy.uint8))) == 1
print("numpy.ma" in sys.modules)
try:
    dehazer.push(numpy.ma.masked_array(numpy.zeros((48, 64, 3), numpy.uint8)))
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    first, second = done.stdout.splitlines()
    assert first == "False", done.stderr
    assert "masked" in second
