"""Models by name and by path."""

import subprocess
import sys
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from libranet.data.frames import FrameFiles
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.image_files import dehaze_sequence
from libranet.errors import CheckpointError, InputError
from libranet.evaluation.clips import EvalClip, open_dataset
from libranet.evaluation.restorers import NetworkRestorer, Restorer, open_restorer, open_restorers
from libranet.runtime import load_network
from libranet.sequences import list_images
from libranet.video.pixels import plane_views
from libranet.video.reader import open_video
from tiny_set import make_frames, make_hazy, write_checkpoint, write_frames


def test_names(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "tiny.safetensors")
    models = open_restorers(["identity", "dcp", str(checkpoint), f"again={checkpoint}"])
    assert [model.name for model in models] == ["identity", "dcp", "tiny", "again"]
    assert models[2].fingerprint == models[3].fingerprint
    assert len({model.fingerprint for model in models}) == 3


def _restored(model: Restorer, clip: EvalClip) -> list[Tensor]:
    source = clip.open()
    return list(model.restore(source, clip.read(source)))


def _clip(folder: Path, count: int = 6) -> EvalClip:
    write_frames(folder, make_hazy(make_frames(count)))
    return EvalClip("clip", FrameFiles(list_images(folder)))


def test_every_frame_comes_back_once(tmp_path: Path) -> None:
    clip = _clip(tmp_path / "clip", 4)
    for model in open_restorers(["identity", "dcp", str(write_checkpoint(tmp_path / "tiny.safetensors"))]):
        for _ in range(2):  # a second clip begins afresh
            found = _restored(model, clip)
            assert len(found) == 4, model.name
            assert all(frame.shape == (3, 48, 64) for frame in found)
            assert model.backend == "plain"


def _write_video(path: Path, frames: list[np.ndarray], pixel_format: str) -> None:
    """Lossless, in that pixel format, 10 frames per second."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pixel_format
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))


@pytest.mark.parametrize(
    ("spec", "backend"),
    [
        ("tiny", "auto"),
        ("dcp", "auto"),
        ("small", "auto"),
        pytest.param("small", "cpu-fp32", marks=pytest.mark.kernels),
    ],
)
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le"])
def test_a_video_is_restored_to_the_bits_of_dehaze(tmp_path: Path, pixel_format: str, spec: str, backend: str) -> None:
    """Two shots, so that a cut resets the filter over time in both."""
    spec = str(write_checkpoint(tmp_path / "tiny.safetensors")) if spec == "tiny" else spec
    frames = make_hazy(make_frames(5)) + make_hazy(make_frames(5, seed=7), 0.1)
    _write_video(tmp_path / "hazy.mkv", frames, pixel_format)
    report = dehaze_video(
        tmp_path / "hazy.mkv",
        tmp_path / "clear.mkv",
        model=load_network(spec, device="cpu"),
        options=DehazeOptions(codec="ffv1", backend=backend),
        device="cpu",
    )
    with open_video(tmp_path / "clear.mkv") as reader:
        assert reader.pixel_format == pixel_format
        expected = [[torch.from_numpy(v.copy()) for v in plane_views(f.image)] for f in reader.frames()]
    (clip,) = open_dataset(tmp_path / "hazy.mkv")
    model, source = open_restorer(spec, backend=backend), clip.open()
    assert isinstance(model, NetworkRestorer)
    found = [list(samples.plane_list(0)) for samples in model.restore_samples(source, clip.read(source))]
    assert len(found) == len(expected) == 10
    assert report.cuts == 1
    assert model.backend == ("plain" if backend == "auto" else backend)
    for mine, theirs in zip(found, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    hazy = [frame.hazy for frame in clip.read(clip.open())]
    restored = _restored(model, clip)
    assert not any(torch.equal(a, b) for a, b in zip(hazy, restored, strict=True)), "and it is restored at all"


@pytest.mark.parametrize(
    ("form", "model"), [("rgb", ""), ("gray", ""), ("rgb16", ""), ("rgba", ""), ("rgb", "base"), ("rgb", "dcp")]
)
def test_images_are_restored_to_the_bits_of_dehaze(tmp_path: Path, form: str, model: str) -> None:
    checkpoint = model or str(write_checkpoint(tmp_path / "tiny.safetensors"))
    frames = make_hazy(make_frames(4)) + make_hazy(make_frames(3, seed=7), 0.1)  # two shots
    for folder in ("hazy", "clear"):
        (tmp_path / folder).mkdir()
    paths = [tmp_path / "hazy" / f"{index}.png" for index in range(len(frames))]
    for path, frame in zip(paths, frames, strict=True):
        content = {"rgb": frame, "gray": frame[..., 0], "rgb16": frame.astype(np.uint16) * 257}
        cv2.imwrite(str(path), cv2.cvtColor(frame, cv2.COLOR_RGB2BGRA) if form == "rgba" else content[form])
    outputs = [tmp_path / "clear" / path.name for path in paths]
    report = dehaze_sequence(paths, outputs, load_network(checkpoint, device="cpu"))
    assert report.cuts == 1
    clear = EvalClip("clear", FrameFiles(tuple(outputs)))
    expected = [frame.hazy for frame in clear.read(clear.open())]
    found = _restored(open_restorer(checkpoint), EvalClip("clip", FrameFiles(tuple(paths))))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_image_clips_need_no_video_packages(tmp_path: Path) -> None:
    """GPU machines that train and measure have neither PyAV nor typer."""
    write_frames(tmp_path / "set", make_frames(2))
    checkpoint = str(write_checkpoint(tmp_path / "tiny.safetensors"))
    program = (
        "import sys; sys.modules['av'] = sys.modules['typer'] = None\n"
        "import libranet.lab.ablation.ablate, libranet.evaluation.runner\n"
        "from libranet.evaluation.clips import open_dataset\n"
        "from libranet.evaluation.restorers import open_restorer\n"
        f"(clip,), model = open_dataset({str(tmp_path / 'set')!r}), open_restorer({checkpoint!r})\n"
        "source = clip.open(); print(len(list(model.restore(source, clip.read(source)))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"


def test_reproducible_results_are_no_others(tmp_path: Path) -> None:
    checkpoint = str(write_checkpoint(tmp_path / "tiny.safetensors"))
    plain = open_restorer(checkpoint, backend="plain")
    assert plain.fingerprint != open_restorer(checkpoint).fingerprint


def test_another_precision_is_another_model(tmp_path: Path) -> None:
    checkpoint = str(write_checkpoint(tmp_path / "tiny.safetensors"))
    full, half = open_restorer(checkpoint), open_restorer(checkpoint, precision="bf16")
    assert full.fingerprint != half.fingerprint, "results of one must not be taken for the other's"


def test_without_the_filter_it_is_another_model(tmp_path: Path) -> None:
    checkpoint = str(write_checkpoint(tmp_path / "tiny.safetensors"))
    on, off = open_restorer(checkpoint), open_restorer(checkpoint, steady=0.0)
    assert on.fingerprint != off.fingerprint
    clip = _clip(tmp_path / "clip")
    filtered, alone = _restored(on, clip), _restored(off, clip)
    assert not all(torch.equal(a, b) for a, b in zip(filtered, alone, strict=True))


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a model: truth, libranet, base, small, identity"):
        open_restorer("dpc")
    (tmp_path / "model.safetensors").write_bytes(b"not a model at all")
    with pytest.raises(CheckpointError, match="damaged or not a safetensors file"):
        open_restorer(str(tmp_path / "model.safetensors"))
    with pytest.raises(InputError, match="two models are called 'identity'"):
        open_restorers(["identity", "identity"])
    checkpoint = write_checkpoint(tmp_path / "tiny.safetensors")
    with pytest.raises(InputError, match=r"letters, digits"):
        open_restorers([f"../up={checkpoint}"])


def test_the_weights_of_the_package_have_names() -> None:
    named, default = open_restorer("base"), open_restorer("libranet")
    assert (named.name, default.name) == ("base", "libranet")
    assert named.fingerprint == default.fingerprint
