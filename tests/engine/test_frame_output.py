"""A video into numbered images, and folders of numbered images as clips with their temporal context."""

import shutil
from fractions import Fraction

import numpy as np
import pytest

from clips import Clip, read_all, write_clip
from libranet.cli.dehaze_jobs import plan_jobs
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.frame_output import dehaze_to_images
from libranet.engine.image_files import dehaze_sequence
from libranet.engine.jobs import run_job
from libranet.errors import InputError
from libranet.images import Image, read_image, write_image
from libranet.video.source import parse_source
from tiny_set import make_frames


def frames_of(folder, suffix: str = ".png") -> list[np.ndarray]:
    return [read_image(path).samples for path in sorted(folder.glob(f"*{suffix}"))]


def bt709(planes: list[np.ndarray], bits: int, peak: int) -> np.ndarray:
    """RGB of limited-range YUV, by the standard's formula."""
    step = 1 << (bits - 8)
    y, u, v = (plane.astype(np.float64) / step for plane in planes)
    luma, blue, red = (y - 16) / 219, (u - 128) / 224, (v - 128) / 224
    rgb = [luma + 1.5748 * red, luma - 0.187324 * blue - 0.468124 * red, luma + 1.8556 * blue]
    return np.rint(np.clip(np.stack(rgb, axis=-1), 0, 1) * peak)


@pytest.mark.parametrize(("pixel_format", "bits"), [("yuv444p", 8), ("yuv444p10le", 10)])
def test_the_images_are_the_frames_of_a_lossless_video(tmp_path, tiny_model, pixel_format, bits):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=9, pixel_format=pixel_format, audio=("flac",)))
    (tmp_path / "out").mkdir()
    report = dehaze_to_images(parse_source(source), f"{tmp_path}/out/%05d.png", tiny_model)
    assert (report.frames, report.partial) == (9, "")
    assert any("no place for it: audio" in note for note in report.warnings)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"{n:05d}.png" for n in range(1, 10)]
    dehaze_video(source, tmp_path / "out.mkv", model=tiny_model, options=DehazeOptions(codec="ffv1"))
    images = frames_of(tmp_path / "out")
    assert images[0].dtype == (np.uint8 if bits == 8 else np.uint16)
    for image, planes in zip(images, read_all(tmp_path / "out.mkv")[1], strict=True):
        assert np.abs(image.astype(int) - bt709(planes, bits, int(np.iinfo(image.dtype).max)).astype(int)).max() <= 1


def test_a_stopped_run_goes_on_with_the_same_bits(tmp_path, tiny_model):
    source = parse_source(write_clip(tmp_path / "in.mp4", Clip(frames=12)))
    options = DehazeOptions(steady=0.1)
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
        dehaze_to_images(source, f"{tmp_path}/{name}/%03d.png", tiny_model, options=options)
    for number in range(8, 13):
        (tmp_path / "stopped" / f"{number:03d}.png").unlink()
    pattern = f"{tmp_path}/stopped/%03d.png"
    with pytest.raises(InputError, match=r"001\.png exists: add overwrite=True"):
        dehaze_to_images(source, pattern, tiny_model, options=options)
    report = dehaze_to_images(source, pattern, tiny_model, options=options, resume=True)
    assert (report.frames, report.resumed_frames) == (12, 7)
    whole, stopped = frames_of(tmp_path / "whole"), frames_of(tmp_path / "stopped")
    assert all(np.array_equal(a, b) for a, b in zip(whole, stopped, strict=True))


def test_options_hold_for_images(tmp_path, tiny_model):
    source = parse_source(write_clip(tmp_path / "in.mp4", Clip(frames=6, rotation=90)))
    (tmp_path / "out").mkdir()
    options = DehazeOptions(strength=0.0, scale="1/2", start=0.08, end=0.16)
    report = dehaze_to_images(source, f"{tmp_path}/out/f%d.png", tiny_model, options=options)
    assert report.frames == 2
    assert frames_of(tmp_path / "out")[0].shape == (32, 24, 3), "upright, as a player shows it"
    with pytest.raises(InputError, match="no frame between"):
        dehaze_to_images(source, f"{tmp_path}/out/g%d.png", tiny_model, options=DehazeOptions(start=9.0))
    deep = parse_source(write_clip(tmp_path / "deep.mkv", Clip(frames=2, pixel_format="yuv420p10le")))
    with pytest.raises(InputError, match="8 bit only"):
        dehaze_to_images(deep, f"{tmp_path}/out/%d.jpg", tiny_model)


def test_uneven_times_and_old_frames_are_named(tmp_path, tiny_model):
    source = parse_source(write_clip(tmp_path / "in.mkv", Clip(frames=5, variable=True, time_base=Fraction(1, 1000))))
    (tmp_path / "out").mkdir()
    write_image(tmp_path / "out" / "9.png", Image(np.zeros((48, 64, 3), np.uint8)))
    report = dehaze_to_images(source, f"{tmp_path}/out/%d.png", tiny_model, overwrite=True)
    assert any("not evenly spaced" in note for note in report.warnings)
    assert any("9.png are from an earlier run" in note for note in report.warnings)


@pytest.fixture
def folder(tmp_path):
    """Frames 5 to 12 of a clip, without leading zeros."""
    place = tmp_path / "frames"
    place.mkdir()
    for number, frame in enumerate(make_frames(8), start=5):
        write_image(place / f"{number}.png", Image(frame))
    return place


def test_a_folder_of_numbered_frames_is_a_clip(tmp_path, tiny_model, folder):
    """The same samples as a named pattern gives, and others than image by image."""
    (job,) = plan_jobs([str(folder)], f"{tmp_path}/out", live=False)
    assert job.kind == "sequence"
    report = run_job(job, tiny_model, DehazeOptions())
    assert report.frames == 8
    (named,) = plan_jobs([f"{folder}/%d.png"], f"{tmp_path}/named/%d.png", live=False)
    run_job(named, tiny_model, DehazeOptions())
    names = [f"{n}.png" for n in range(5, 13)]
    same = [
        np.array_equal(read_image(tmp_path / "out" / n).samples, read_image(tmp_path / "named" / n).samples)
        for n in names
    ]
    assert all(same)
    (tmp_path / "alone").mkdir()
    dehaze_sequence([folder / "8.png"], [tmp_path / "alone" / "8.png"], tiny_model)
    alone, together = (read_image(tmp_path / place / "8.png").samples for place in ("alone", "out"))
    assert not np.array_equal(alone, together)


def test_a_folder_becomes_a_video(tmp_path, tiny_model, folder):
    (job,) = plan_jobs([str(folder)], str(tmp_path / "out.mkv"), live=False)
    assert job.kind == "video"
    (folder / "9.png").unlink()
    report = dehaze_video(folder, tmp_path / "out.mkv", model=tiny_model, rate=10.0)
    assert report.frames == 7
    assert any("1 of the numbers 5 to 12 is missing: 9" in note for note in report.warnings)
    times, _ = read_all(tmp_path / "out.mkv")
    assert times[1] - times[0] == Fraction(1, 10)


def test_what_else_is_in_folders(tmp_path, folder):
    """Albums stay photos, clips below a folder are clips, a video beside frames is not lost."""
    album = tmp_path / "all" / "album"
    album.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(4):
        write_image(album / f"IMG_{number}.png", Image(random.integers(0, 255, (48, 64, 3), np.uint8)))
    shutil.copytree(folder, tmp_path / "all" / "shots" / "a")
    write_clip(tmp_path / "all" / "b.mp4", Clip(frames=2))
    jobs = plan_jobs([str(tmp_path / "all")], str(tmp_path / "out"), live=False)
    assert [job.kind for job in jobs] == ["image"] * 4 + ["video", "sequence"]
    assert jobs[-1].outputs[0] == tmp_path / "out" / "shots" / "a" / "5.png"
    write_clip(folder / "c.mp4", Clip(frames=2))
    kinds = {job.kind for job in plan_jobs([str(folder)], str(tmp_path / "out"), live=False)}
    assert kinds == {"image", "video"}
    shutil.copy(tmp_path / "all/shots/a/6.png", tmp_path / "all/shots/a/06.png")
    with pytest.raises(InputError, match="one frame twice"):
        plan_jobs([str(tmp_path / "all" / "shots" / "a")], str(tmp_path / "out"), live=False)


def test_outputs_that_cannot_be_are_refused_with_a_way_forward(tmp_path, tiny_model, folder):
    with pytest.raises(InputError, match=r"holds 8 frames: give output a folder, a pattern such as"):
        plan_jobs([str(folder)], str(tmp_path / "one.png"), live=False)
    for inside in ("out", "out.mp4", "%05d.png"):
        with pytest.raises(InputError, match="lies in the folder of the input frames"):
            plan_jobs([str(folder)], str(folder / inside), live=False)
    (job,) = plan_jobs([str(folder)], str(tmp_path / "o.xyz"), live=False)  # no ending of a file: a folder
    assert {path.parent.name for path in job.outputs} == {"o.xyz"}
    source = write_clip(tmp_path / "v.mp4", Clip(frames=2))
    with pytest.raises(InputError, match=r"v\.mp4 is a video: give output a pattern such as frames/%05d\.png"):
        plan_jobs([str(source)], str(tmp_path / "one.png"), live=False)
    (job,) = plan_jobs([str(folder)], str(folder), live=False)
    with pytest.raises(InputError, match=r"5\.png is the input itself"):
        run_job(job, tiny_model, DehazeOptions(), overwrite=True)
