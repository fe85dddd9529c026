import cv2
import numpy as np
import pytest

from libranet.errors import InputError
from libranet.image_metadata import ImageMetadata
from libranet.images import Image, read_image, write_image, write_images


def noise(channels: int, dtype) -> np.ndarray:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max + 1, (20, 30, channels), dtype=dtype)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize(
    ("channels", "dtype"), [(1, np.uint8), (3, np.uint8), (4, np.uint8), (3, np.uint16), (4, np.uint16)]
)
def test_lossless_files_hold_the_samples(tmp_path, suffix, channels, dtype):
    samples = noise(channels, dtype)
    write_image(tmp_path / f"a{suffix}", Image(samples))
    assert np.array_equal(read_image(tmp_path / f"a{suffix}").samples, samples)


def test_red_is_red(tmp_path):
    red = np.zeros((20, 20, 3), np.uint8)
    red[..., 0] = 255
    write_image(tmp_path / "a.png", Image(red))
    assert cv2.imread(str(tmp_path / "a.png"))[0, 0].tolist() == [0, 0, 255]


def test_metadata_survives(tmp_path):
    exif = b"MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
    for suffix in (".jpg", ".png", ".webp"):
        assert write_image(tmp_path / f"a{suffix}", Image(noise(3, np.uint8), ImageMetadata(exif=exif))) == ()
        back = read_image(tmp_path / f"a{suffix}")
        assert back.metadata.exif == exif
        assert back.orientation == (3, False)
        assert back.samples.shape == (20, 30, 3)  # the orientation is kept as a note, not applied


def test_mistakes(tmp_path):
    with pytest.raises(InputError, match="16"):
        write_image(tmp_path / "a.jpg", Image(noise(3, np.uint16)))
    with pytest.raises(InputError, match="cannot write an image"):
        write_image(tmp_path / "a.mp4", Image(noise(3, np.uint8)))
    (tmp_path / "b.png").write_text("no image")
    with pytest.raises(InputError, match="not an 8 or 16 bit image"):
        read_image(tmp_path / "b.png")
    (tmp_path / "c.png").touch()
    with pytest.raises(InputError, match="0 bytes"):
        read_image(tmp_path / "c.png")
    with pytest.raises(InputError, match="there is no file"):
        read_image(tmp_path / "d.png")


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("float32", "32-bit floating-point"), ("uint32", "32-bit integer"), ("int16", "16-bit signed integer"),
    ],
)  # fmt: skip
def test_samples_that_are_not_of_8_or_16_bits_are_named(tmp_path, dtype, kind):
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "a.tif", np.ones((20, 24, 3), dtype), photometric="rgb")
    with pytest.raises(InputError, match=f"is a TIFF file of {kind} samples: convert it to .* 8 or 16 bits"):
        read_image(tmp_path / "a.tif")


def test_channels_apart_are_refused_where_opencv_mixes_them_up(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    for dtype in (np.uint8, np.uint16):
        planes = np.moveaxis(noise(3, dtype), 2, 0)
        tifffile.imwrite(tmp_path / f"{np.dtype(dtype)}.tif", planes, photometric="rgb", planarconfig="separate")
    assert np.array_equal(read_image(tmp_path / "uint8.tif").samples, noise(3, np.uint8))
    with pytest.raises(InputError, match="channels apart"):
        read_image(tmp_path / "uint16.tif")


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tif"])
def test_frames_that_came_out_otherwise_are_told(tmp_path, monkeypatch, suffix):
    frames = [Image(np.random.default_rng(seed).integers(0, 255, (16, 24, 3)).astype(np.uint8)) for seed in range(2)]
    assert write_images(tmp_path / f"good{suffix}", frames, [0.1, 0.1])[1:] == ()
    name = "imwritemulti" if suffix == ".tif" else "imwriteanimation"
    write = getattr(cv2, name)

    def spoil(path, content, *more):
        arrays = content if suffix == ".tif" else content.frames
        arrays = [255 - array for array in arrays]
        if suffix == ".tif":
            return write(path, arrays, *more)
        content.frames = arrays
        return write(path, content, *more)

    monkeypatch.setattr(cv2, name, spoil)
    said = write_images(tmp_path / f"bad{suffix}", frames, [0.1, 0.1])
    assert any(f"colours changed in the {suffix} file" in sentence for sentence in said)
