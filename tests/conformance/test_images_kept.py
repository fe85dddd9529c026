"""Images at strength 0: what exiftool lists in the source is in the result, or named in the warnings."""

import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conformance_sources import SOURCES as VIDEOS
from container_sources import SOURCES as CONTAINERS
from image_check import listed, silent_losses
from image_sources import CASES, COMBINED, EXIFTOOL, QUICK, SOURCES, appended, both_targets, samples, saved
from PIL import Image

from libranet.engine import DehazeOptions
from libranet.engine.image_files import dehaze_image
from libranet.errors import InputError

pytestmark = pytest.mark.skipif(
    not EXIFTOOL, reason="exiftool is not installed: `make test` as root, or apt-get install libimage-exiftool-perl"
)
UNFIT = {
    "credentials.jpg", "credentials.png", "private-unsafe.png", "offset.png", "palette-background.png", "rgba.webp",
    "everything.webp",
    "gray-alpha.tif", "animation-behind-a-still.png",
}  # fmt: skip
"""Files with something that must not go with other samples, and WebP with colours where nothing is seen."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("images")


def make(name: str, folder: Path) -> Path:
    path = folder / name
    if not path.exists():
        SOURCES[name](path)
    return path


@pytest.mark.parametrize(
    ("name", "suffix"),
    [pytest.param(*case, marks=() if case in QUICK else (pytest.mark.more,), id="-".join(case)) for case in CASES],
)
def test_nothing_that_exiftool_lists_is_lost_in_silence(name, suffix, folder, tmp_path, tiny_model):
    source, output = make(name, folder), tmp_path / f"out{suffix}"
    report = dehaze_image(source, output, tiny_model, options=DehazeOptions(strength=0.0))
    said = " ".join(report.warnings)
    assert silent_losses(source, output, said) == []
    if source.suffix == output.suffix and name not in UNFIT:
        assert said == "", "nothing needs to be left out in the same format"
    assert lost_samples(source, output, said) == ""


def lost_samples(source: Path, output: Path, said: str) -> str:
    """Say how the samples differ, by readers of others."""
    before, after = stored(source), stored(output)
    if "alpha" in said:
        before = before[..., 0] if before.shape[-1] == 2 else before[..., :3]
    if before.ndim < after.ndim:  # WebP has no gray
        before = np.repeat(before[..., None], 3, axis=2)
    if output.suffix == ".tif" and "turned" in source.name and before.shape != after.shape:
        before = np.rot90(before, -1)  # Pillow applies the orientation of a TIFF file
    if before.shape != after.shape:
        return f"{before.shape} became {after.shape}"
    if "associated" in source.name and output.suffix != ".tif":  # other formats hold colours that are not multiplied
        alpha = before[..., 3:] if before.shape[-1] == 4 else stored(source)[..., 3:]
        after = after.copy()
        after[..., :3] = np.rint(after[..., :3].astype(float) * alpha / 255)
    if output.suffix == ".jpg":
        return "" if abs(before.astype(int) - after.astype(int)).mean() < 12 else "other colours"
    if "under transparent pixels" in said:
        seen = before[..., 3] > 0
        before, after = before[seen], after[seen]
    return "" if np.array_equal(before, after) else "other samples"


def stored(path: Path) -> np.ndarray:
    """The first image's samples as an independent reader gives them."""
    if path.suffix == ".tif":
        with tifffile.TiffFile(path) as file:
            if file.pages[0].compression != 5:  # LZW needs another package
                return file.pages[0].asarray()
    image = Image.open(path)
    if "transparency" in image.info and image.mode.startswith(("L", "I")):  # one clear gray
        gray, most = np.asarray(image), 65535 if image.mode.startswith("I") else 255
        alpha = np.where(gray == image.info["transparency"], 0, most)
        return np.dstack([gray, gray, gray, alpha]).astype(np.uint16 if most > 255 else np.uint8)
    if getattr(image, "default_image", False):
        image.seek(1)
    if path.suffix == ".png" and b"IHDR" in path.read_bytes()[:16] and path.read_bytes()[24] == 16:
        return _deep_png(path)  # which Pillow reads with 8 bits
    return np.asarray(image.convert("RGBA") if image.mode == "P" else image)


def _deep_png(path: Path) -> np.ndarray:
    data, colour = path.read_bytes(), path.read_bytes()[25]
    width, height = struct.unpack_from(">II", data, 16)
    channels = {0: 1, 2: 3, 6: 4}[colour]
    name = {1: "gray16le", 3: "rgb48le", 4: "rgba64le"}[channels]
    done = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", name, "-"],
        capture_output=True,
        check=True,
    )
    array = np.frombuffer(done.stdout, "<u2").reshape(height, width, channels)
    return array[..., 0] if channels == 1 else array


@pytest.mark.more
@pytest.mark.parametrize("name", ["444.jpg", "422.jpg", "420.jpg", "gray.jpg", "progressive.jpg"])
def test_jpeg_files_keep_their_coding(name, folder, tmp_path, tiny_model):
    dehaze_image(make(name, folder), tmp_path / "out.jpg", tiny_model, options=DehazeOptions(strength=0.0))
    before, after = listed(folder / name), listed(tmp_path / "out.jpg")
    for key in ("File:YCbCrSubSampling", "File:EncodingProcess", "File:ColorComponents"):
        assert before.get(key) == after.get(key), key


def test_a_png_becomes_a_jpeg_with_all_of_its_colours(folder, tmp_path, tiny_model):
    dehaze_image(make("plain.png", folder), tmp_path / "out.jpg", tiny_model, options=DehazeOptions(strength=0.0))
    assert listed(tmp_path / "out.jpg")["File:YCbCrSubSampling"] == "1 1"


def test_the_film_behind_a_motion_photo_is_where_the_photo_says(folder, tmp_path, tiny_model):
    source = make("motion-photo.jpg", folder)
    dehaze_image(source, tmp_path / "out.jpg", tiny_model, options=DehazeOptions(strength=0.0))
    length = int(listed(tmp_path / "out.jpg")["XMP-GCamera:MicroVideoOffset"])
    film = (tmp_path / "out.jpg").read_bytes()[-length:]
    assert film == source.read_bytes()[-length:]
    assert film[4:8] == b"ftyp"


def test_further_images_of_a_jpeg_file_are_found(folder, tmp_path, tiny_model):
    source = make("several-images.jpg", folder)
    dehaze_image(source, tmp_path / "out.jpg", tiny_model, options=DehazeOptions(strength=0.0))
    with Image.open(source) as before, Image.open(tmp_path / "out.jpg") as after:
        assert after.n_frames == before.n_frames == 2
        before.seek(1)
        after.seek(1)
        assert np.array_equal(np.asarray(before), np.asarray(after))


def test_the_still_image_in_front_of_an_animation_is_named(folder, tmp_path, tiny_model):
    report = dehaze_image(make("animation-behind-a-still.png", folder), tmp_path / "out.png", tiny_model)
    assert report.warnings == ("not in the .png file: the still image in front of the animation",)
    with Image.open(tmp_path / "out.png") as after:
        assert after.n_frames == 2


@pytest.mark.parametrize("suffix", [".webp", ".bmp", ".png", ".jpg"])
def test_data_behind_an_image_stays_behind_it_or_is_named(suffix, folder, tmp_path, tiny_model):
    source = folder / f"more{suffix}"
    appended(saved())(source)
    for output in (tmp_path / f"out{suffix}", tmp_path / "out.tif"):
        report = dehaze_image(source, output, tiny_model)
        kept = output.read_bytes().endswith(b"data that a program appended")
        assert kept == (output.suffix == suffix)
        assert kept or report.warnings == ("not in the .tif file: data behind the image",)


@pytest.mark.parametrize("suffix", [".gif", ".jp2", ".ppm"])
def test_metadata_that_is_not_read_is_named(suffix, folder, tmp_path, tiny_model):
    source = folder / f"other{suffix}"
    Image.fromarray(samples()).save(source)
    report = dehaze_image(source, tmp_path / "out.png", tiny_model)
    assert "metadata, which is read from PNG, JPEG, WebP, TIFF and BMP alone" in report.warnings[0]


@pytest.mark.parametrize("suffix", [".tif", ".png"])
def test_a_fourth_channel_that_is_no_alpha_does_not_become_one(suffix, folder, tmp_path, tiny_model):
    source = tmp_path / "infrared.tif"
    tifffile.imwrite(source, samples(4), photometric="rgb", extrasamples=["unspecified"], metadata=None)
    report = dehaze_image(source, tmp_path / f"out{suffix}", tiny_model, options=DehazeOptions(strength=0.0))
    with Image.open(source) as before, Image.open(tmp_path / f"out{suffix}") as after:
        assert after.mode == before.mode == "RGB"
        assert np.array_equal(np.asarray(before), np.asarray(after))
    if suffix == ".tif":
        with tifffile.TiffFile(tmp_path / "out.tif") as file:
            assert file.pages[0].extrasamples == (0,)
            assert np.array_equal(file.pages[0].asarray(), samples(4))
    assert any("the fourth channel, which is no alpha" in said for said in report.warnings) == (suffix == ".png")


def test_white_of_12_bits_stays_white(tmp_path, tiny_model):
    source = tmp_path / "deep.tif"
    deep = samples(1, "u2") >> 4
    deep[0, :2] = 0, 4095
    packed = [(first << 12 | second).to_bytes(3, "big") for first, second in deep.reshape(-1, 2).tolist()]
    tifffile.imwrite(source, np.frombuffer(b"".join(packed), np.uint8).reshape(32, 72), metadata=None)
    data = bytearray(source.read_bytes())  # tifffile cannot pack 12 bits
    with tifffile.TiffFile(source) as file:
        places = {name: file.pages[0].tags[name].valueoffset for name in ("ImageWidth", "BitsPerSample")}
    for name, value in (("ImageWidth", 48), ("BitsPerSample", 12)):
        struct.pack_into("<H", data, places[name], value)
    source.write_bytes(data)
    dehaze_image(source, tmp_path / "out.tif", tiny_model, options=DehazeOptions(strength=0.0))
    found = tifffile.imread(tmp_path / "out.tif")
    assert found[0, :2].tolist() == [0, 65535]
    assert np.array_equal(np.rint(found * (4095 / 65535)), deep)


def test_colours_that_are_not_rgb_are_refused(tmp_path, tiny_model):
    tifffile.imwrite(tmp_path / "lab.tif", samples(), photometric="cielab", metadata=None)
    with pytest.raises(InputError, match="is a CIELab image: convert it to RGB or gray"):
        dehaze_image(tmp_path / "lab.tif", tmp_path / "out.tif", tiny_model)


@pytest.mark.parametrize("other", [(16, 20, 3), (32, 48)], ids=["size", "channels"])
def test_pages_that_differ_stay_pages(other, tmp_path, tiny_model):
    source, pages = tmp_path / "mixed.tif", [samples(), np.resize(samples(), other)]
    for page in pages:
        kind = "rgb" if page.ndim == 3 else "minisblack"
        tifffile.imwrite(source, page, photometric=kind, append=page is pages[1], metadata=None)
    with pytest.raises(InputError, match=r"one size and one number of channels, got .*: write to \.tif"):
        dehaze_image(source, tmp_path / "out.png", tiny_model)
    dehaze_image(source, tmp_path / "out.tif", tiny_model, options=DehazeOptions(strength=0.0))
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        assert all(np.array_equal(page.asarray(), wanted) for page, wanted in zip(file.pages, pages, strict=True))


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_all_images_of_a_gif_file_are_dehazed(suffix, tmp_path, tiny_model):
    source, frames = tmp_path / "clear.gif", []
    for seed in range(3):
        array = samples(4, seed=seed)
        array[..., 3] = np.where(array[..., 3] > 100, 255, 0)
        frames.append(Image.fromarray(array))
    frames[0].save(source, save_all=True, append_images=frames[1:], duration=[40, 70, 500], loop=2, disposal=2)
    dehaze_image(source, tmp_path / f"out{suffix}", tiny_model, options=DehazeOptions(strength=0.0))
    with Image.open(source) as before, Image.open(tmp_path / f"out{suffix}") as after:
        assert after.n_frames == before.n_frames == 3
        for number in range(3):
            before.seek(number)
            after.seek(number)
            old, new = (np.asarray(image.convert("RGBA")) for image in (before, after))
            assert np.array_equal(old[..., 3], new[..., 3])
            assert np.array_equal(old[old[..., 3] > 0], new[old[..., 3] > 0])
    with pytest.raises(InputError, match=r"holds 3 images and \.jpg only one"):
        dehaze_image(source, tmp_path / "out.jpg", tiny_model)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMBINED)
def test_combinations(name, folder, tmp_path, tiny_model):
    COMBINED[name](source := folder / f"combined-{name}")
    for suffix in both_targets(name):
        output = tmp_path / f"out{suffix}"
        report = dehaze_image(source, output, tiny_model, options=DehazeOptions(strength=0.0))
        assert silent_losses(source, output, " ".join(report.warnings)) == []


def test_the_suite_is_large_enough():
    assert len(SOURCES) + len(COMBINED) + len(CONTAINERS) + len(VIDEOS) >= 300
    assert len(CASES) >= 300
    assert set(CASES) >= QUICK
