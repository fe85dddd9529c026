import io
import json
import sys

import numpy as np
import pytest

import libranet
from clips import Clip, other_packets, read_all, same_frames, write_clip
from libranet.cli.main import main
from libranet.images import Image, read_image, write_image
from libranet.network import save_checkpoint


@pytest.fixture
def run(capsys, monkeypatch, tiny_model, tmp_path):
    (tmp_path / "model").mkdir()
    model = tmp_path / "model" / "tiny.safetensors"
    save_checkpoint(tiny_model, model)

    def call(*arguments: object) -> tuple[int, str, str]:
        words = ["libranet", "dehaze", "--device", "cpu", "--model", str(model), *map(str, arguments)]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return call


def noise(height: int = 40, width: int = 56, channels: int = 3, dtype=np.uint8, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.integers(0, np.iinfo(dtype).max + 1, (height, width, channels), dtype=dtype)


def test_one_video(run, tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip(audio=("aac",), frames=8))
    code, out, err = run(source, "-o", tmp_path / "out.mp4")
    assert (code, out) == (0, "")
    assert "8 frames, 64x48 h264 yuv420p" in err
    assert "1 other streams kept" in err
    assert read_all(tmp_path / "out.mp4")[0] == read_all(source)[0]


def test_json_for_machines(run, tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=30, cut_at=12))
    code, out, err = run(source, "-o", tmp_path / "out.mp4", "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert report["exit_code"] == 0
    (result,) = report["results"]
    assert (result["frames"], result["cuts"], result["partial"]) == (30, 1, "")
    assert (result["libranet"], result["weights_name"]) == (libranet.__version__, "tiny")
    assert result["weights_version"] == "unversioned"
    assert set(result["stage_seconds"]) == {"decode", "network", "encode"}


def test_start_and_end_keep_sound_in_step(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=50, audio=("flac",)))
    code, _, _ = run(source, "-o", tmp_path / "out.mkv", "--start", "0.5", "--end", "1.0", "--strength", "0")
    assert code == 0
    times, frames = read_all(tmp_path / "out.mkv")
    before = [(t, p) for t, p in zip(*read_all(source), strict=True) if 0.5 <= t < 1.0]
    origin = before[0][0]
    assert times == [t - origin for t, _ in before]
    assert same_frames(frames, [p for _, p in before])
    (sound,) = other_packets(tmp_path / "out.mkv").values()
    (all_sound,) = other_packets(source).values()
    expected = [(t - origin, data) for t, data in all_sound if origin <= t < 1.0]
    assert sound == expected


@pytest.mark.parametrize("size", [(64, 48), (320, 192), (79, 45)])
def test_compare_split_leaves_the_left_half_as_it_is(run, tmp_path, size):
    clip = Clip(codec="ffv1", width=size[0], height=size[1], frames=3, pixel_format="yuv444p")
    source = write_clip(tmp_path / "in.mkv", clip)
    assert run(source, "-o", tmp_path / "out.mkv", "--compare", "split")[0] == 0
    middle = size[0] // 2 - 1
    for before, after in zip(read_all(source)[1], read_all(tmp_path / "out.mkv")[1], strict=True):
        label_free = slice(size[1] // 2, None)
        assert np.array_equal(before[0][label_free, :middle], after[0][label_free, :middle])
        assert not np.array_equal(before[0][label_free, middle + 2 :], after[0][label_free, middle + 2 :])


def test_compare_side_shows_both_whole(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=3))
    assert run(source, "-o", tmp_path / "side.mkv", "--compare", "side")[0] == 0
    assert run(source, "-o", tmp_path / "alone.mkv")[0] == 0
    inputs, alone, side = (read_all(tmp_path / f"{name}.mkv")[1] for name in ("in", "alone", "side"))
    for a, b, both in zip(inputs, alone, side, strict=True):
        for plane_a, plane_b, plane in zip(a, b, both, strict=True):
            assert np.array_equal(plane, np.concatenate([plane_a, plane_b], axis=1))


TURNS = {0: 0, 90: 1, 180: 2, -90: 3}


def upright(plane: np.ndarray, rotation: int) -> np.ndarray:
    return np.rot90(plane, TURNS[rotation])


@pytest.mark.parametrize("rotation", TURNS)
def test_comparisons_of_turned_video_stand_upright(run, tmp_path, rotation):
    clip = Clip(codec="ffv1", frames=2, rotation=rotation, pixel_format="yuv420p", width=64, height=48)
    source = write_clip(tmp_path / "in.mkv", clip)
    for name, options in {"alone": [], "side": ["--compare", "side"], "split": ["--compare", "split"]}.items():
        assert run(source, "-o", tmp_path / f"{name}.mkv", *options)[0] == 0
    inputs, alone, side, split = (read_all(tmp_path / f"{n}.mkv")[1] for n in ("in", "alone", "side", "split"))
    for a, b, both, halves in zip(inputs, alone, side, split, strict=True):
        for planes in zip(a, b, both, strict=True):
            hazy, clear, pair = (upright(plane, rotation) for plane in planes)
            assert np.array_equal(pair, np.concatenate([hazy, clear], axis=1))
        hazy, clear, half = (upright(planes[0], rotation) for planes in (a, b, halves))
        middle = hazy.shape[1] // 2
        assert np.array_equal(half[:, : middle - 2], hazy[:, : middle - 2])
        assert np.array_equal(half[:, middle + 2 :], clear[:, middle + 2 :])


@pytest.mark.parametrize("view", ["haze", "removed"])
def test_a_heat_map_is_another_image(run, tmp_path, view):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=3, width=320, height=192))
    assert run(source, "-o", tmp_path / "haze.mkv", "--view", view)[0] == 0
    assert run(source, "-o", tmp_path / "out.mkv")[0] == 0
    assert not same_frames(read_all(tmp_path / "haze.mkv")[1], read_all(tmp_path / "out.mkv")[1])


def test_preview_of_video_and_image(run, tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=30, width=160, height=96))
    code, _, err = run(source, "-o", tmp_path / "sheet.png", "--preview", "3")
    assert code == 0
    assert "sheet.png" in err
    sheet = read_image(tmp_path / "sheet.png").samples
    assert sheet.shape[1] == 2 * 640 + 12 + 24
    assert sheet.shape[0] > 3 * 384
    write_image(tmp_path / "photo.png", Image(noise()))
    assert run(tmp_path / "photo.png", "-o", tmp_path / "photo_sheet.png", "--preview", "1")[0] == 0


@pytest.mark.parametrize(("channels", "dtype"), [(1, np.uint8), (3, np.uint8), (4, np.uint8), (3, np.uint16)])
def test_images_of_every_kind(run, tmp_path, channels, dtype):
    samples = noise(channels=channels, dtype=dtype)
    write_image(tmp_path / "in.png", Image(samples))
    assert run(tmp_path / "in.png", "-o", tmp_path / "same.png", "--strength", "0")[0] == 0
    assert np.array_equal(read_image(tmp_path / "same.png").samples, samples)
    assert run(tmp_path / "in.png", "-o", tmp_path / "out.png")[0] == 0
    out = read_image(tmp_path / "out.png").samples
    assert (out.shape, out.dtype) == (samples.shape, samples.dtype)
    assert not np.array_equal(out, samples)
    if channels == 4:
        assert np.array_equal(out[..., 3], samples[..., 3])


def test_a_folder_keeps_its_structure(run, tmp_path):
    folder = tmp_path / "trip"
    (folder / "day two").mkdir(parents=True)
    write_clip(folder / "a.mp4", Clip(frames=2))
    write_clip(folder / "day two" / "b.mkv", Clip(frames=2))
    write_image(folder / "day two" / "c.png", Image(noise()))
    (folder / "notes.txt").write_text("not a video")
    code, out, _ = run(folder, "-o", tmp_path / "clear", "--json")
    assert code == 0
    assert len(json.loads(out)["results"]) == 3
    found = sorted(str(p.relative_to(tmp_path / "clear")) for p in (tmp_path / "clear").rglob("*") if p.is_file())
    assert found == ["a.mp4", "day two/b.mkv", "day two/c.png"]


def test_one_bad_file_among_many_is_named_and_the_rest_is_done(run, tmp_path):
    folder = tmp_path / "trip"
    folder.mkdir()
    write_clip(folder / "good.mp4", Clip(frames=2))
    (folder / "bad.mp4").write_text("nothing")
    code, _, err = run(folder, "-o", tmp_path / "clear")
    assert code == 3
    assert "bad.mp4" in err
    assert (tmp_path / "clear" / "good.mp4").exists()
    assert not (tmp_path / "clear" / "bad.mp4").exists()


def test_an_image_sequence_to_images_and_to_video(run, tmp_path):
    for index in range(6):
        write_image(tmp_path / f"f_{index:03d}.png", Image(noise(48, 64, seed=0) // 2 + index))
    assert run(tmp_path / "f_%03d.png", "-o", tmp_path / "out" / "g_%02d.png", "--strength", "0")[0] == 0
    for index in range(6):
        same = read_image(tmp_path / "out" / f"g_{index:02d}.png").samples
        assert np.array_equal(same, read_image(tmp_path / f"f_{index:03d}.png").samples)
    assert run(tmp_path / "f_%03d.png", "-o", tmp_path / "out.mkv", "--fps", "10", "--codec", "ffv1")[0] == 0
    times, _ = read_all(tmp_path / "out.mkv")
    assert [float(t) for t in times] == [0, 0.1, 0.2, 0.3, 0.4, 0.5]


class Pipe:
    """Standard input or output of a process, in memory."""

    def __init__(self, data: bytes = b"") -> None:
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le", "yuv444p"])
def test_y4m_between_two_programs(run, tmp_path, monkeypatch, pixel_format):
    from libranet.video.reader import open_video
    from libranet.video.y4m import write_y4m_frame, y4m_header

    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", pixel_format=pixel_format, frames=4))
    raw = io.BytesIO()
    with open_video(source) as reader:
        raw.write(y4m_header(reader.width, reader.height, reader.rate, reader.pixel_format, reader.tags))
        for frame in reader.frames():
            write_y4m_frame(raw, frame.image)
    stdout = Pipe()
    monkeypatch.setattr(sys, "stdin", Pipe(raw.getvalue()))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        code, _, err = run("-", "-o", "-", "--strength", "0")
    assert code == 0
    assert "4 frames" in err
    assert stdout.buffer.getvalue() == raw.getvalue()


def test_live_mode_has_no_look_ahead_and_copies_sound(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=8, audio=("flac",)))
    code, _, _ = run(source, "-o", tmp_path / "out.mkv", "--live", "--strength", "0")
    assert code == 0
    times, frames = read_all(tmp_path / "out.mkv")
    assert times == read_all(source)[0]
    assert same_frames(frames, read_all(source)[1])
    assert other_packets(tmp_path / "out.mkv") == other_packets(source)


@pytest.mark.parametrize(("rotation", "upright"), [(90, True), (-90, True), (180, False), (0, False)])
def test_a_preview_is_shown_as_a_player_shows_it(run, tmp_path, rotation, upright):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=6, width=320, height=96, rotation=rotation))
    assert run(source, "-o", tmp_path / "sheet.png", "--preview", "1")[0] == 0
    height, width = read_image(tmp_path / "sheet.png").samples.shape[:2]
    assert (height > width) == upright
