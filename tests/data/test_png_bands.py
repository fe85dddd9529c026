"""PNG in bands: readable by others, exact, readable in part, and honest about damage."""

import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from libranet.data.frames import Box, FrameFiles, read_samples, write_png
from libranet.data.png_bands import BAND_ROWS, encode_png, read_png_rows
from libranet.errors import InputError


def frame(height: int = 150, width: int = 70) -> np.ndarray:
    rng = np.random.default_rng(5)
    smooth = cv2.resize(rng.integers(0, 256, (9, 7, 3), np.uint8), (width, height), interpolation=cv2.INTER_CUBIC)
    return np.where(rng.random((height, width, 1)) < 0.1, rng.integers(0, 256, (height, width, 3)), smooth).astype(
        np.uint8
    )


@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (BAND_ROWS, 33), (BAND_ROWS + 1, 64), (150, 70)])
def test_every_size_comes_back_exactly_from_us_and_from_opencv(tmp_path: Path, shape: tuple[int, int]) -> None:
    image = frame(*shape)
    path = tmp_path / "a.png"
    write_png(path, image)
    np.testing.assert_array_equal(read_samples(path), image)
    np.testing.assert_array_equal(cv2.imread(str(path))[..., ::-1], image)
    assert FrameFiles((path,)).size == shape[::-1]


@pytest.mark.parametrize("box", [Box(0, 0, 1, 1), Box(63, 5, 2, 60), Box(70, 3, 75, 8), Box(149, 69, 1, 1)])
def test_a_crop_is_the_part_of_the_whole(tmp_path: Path, box: Box) -> None:
    image = frame()
    write_png(tmp_path / "a.png", image)
    expected = image[box.top : box.top + box.height, box.left : box.left + box.width]
    np.testing.assert_array_equal(read_samples(tmp_path / "a.png", box), expected)


def test_a_crop_inflates_only_its_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    write_png(path, frame(height=10 * BAND_ROWS))
    inflated: list[int] = []
    real = zlib.decompressobj

    class Counting:
        def __init__(self, *arguments: int) -> None:
            self.inner = real(*arguments)

        def decompress(self, data: bytes, size: int) -> bytes:
            inflated.append(len(data))
            return self.inner.decompress(data, size)

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    read_samples(path, Box(5 * BAND_ROWS + 3, 0, BAND_ROWS, 70))
    assert len(inflated) == 2


def test_other_peoples_files_are_read_whole_and_cropped(tmp_path: Path) -> None:
    image = frame()
    cv2.imwrite(str(tmp_path / "other.png"), image[..., ::-1])
    with (tmp_path / "other.png").open("rb") as file:
        assert read_png_rows(file, "other.png") is None
    np.testing.assert_array_equal(read_samples(tmp_path / "other.png", Box(3, 4, 50, 60)), image[3:53, 4:64])
    sequence = FrameFiles((tmp_path / "other.png",))
    assert (len(sequence), sequence.size) == (1, (70, 150))


def test_damage_is_named(tmp_path: Path) -> None:
    whole = encode_png(frame())
    path = tmp_path / "cut.png"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"truncated file: .*cut\.png"):
        read_samples(path)
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 255
    path.write_bytes(bytes(changed))
    with pytest.raises(InputError, match=r"wrong CRC in .*cut\.png"):
        read_samples(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"damaged or unknown file: .*cut\.png"):
        read_samples(path)
    with pytest.raises(InputError, match=r"could not read the frame .*none\.png"):
        read_samples(tmp_path / "none.png")


def test_wrong_input_and_wrong_crop_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="8-bit frame"):
        encode_png(np.zeros((4, 4, 3), np.float32))
    write_png(tmp_path / "a.png", frame())
    with pytest.raises(InputError, match=r"rows inside 0\.\.150"):
        read_samples(tmp_path / "a.png", Box(140, 0, 20, 5))
    with pytest.raises(InputError, match="crop inside"):
        read_samples(tmp_path / "a.png", Box(0, 60, 10, 20))
