"""Clips and rooms as users see them: shapes, ranges, reproducibility, variety, errors."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from libranet.errors import InputError
from libranet.lab.scenes import SKY_DEPTH, SceneFrame, render_clip

ROOT = Path(__file__).parents[3]


@functools.cache
def first_frame(seed: int, width: int = 96, height: int = 54) -> SceneFrame:
    return next(iter(render_clip(seed, frames=1, width=width, height=height)))


def test_frames_have_the_promised_shapes_and_ranges() -> None:
    frames = list(render_clip(2, frames=3, width=64, height=40))
    assert len(frames) == 3
    for frame in frames:
        assert frame.image.shape == (3, 40, 64)
        assert frame.depth.shape == (40, 64)
        assert frame.flow.shape == (2, 40, 64)
        assert frame.occluded.shape == (40, 64)
        assert frame.image.dtype == frame.depth.dtype == frame.flow.dtype == torch.float32
        assert frame.occluded.dtype == torch.bool
        assert 0.0 <= frame.image.min() <= frame.image.max() <= 1.0
        assert frame.depth.min() > 0.0
        assert frame.depth.max() <= SKY_DEPTH
        assert torch.isfinite(frame.flow).all()


def test_same_seed_same_clip_bit_for_bit_whatever_the_global_random_state() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    once = list(render_clip(2, frames=2, width=64, height=36))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = list(render_clip(2, frames=2, width=64, height=36))
    for a, b in zip(once, again, strict=True):
        assert torch.equal(a.image, b.image)
        assert torch.equal(a.depth, b.depth)
        assert torch.equal(a.flow, b.flow)
        assert torch.equal(a.occluded, b.occluded)


def test_one_seed_is_one_scene_at_every_size() -> None:
    small, large = first_frame(2), first_frame(2, 192, 108)
    # Twice as wide, the finer frame averages to the coarser one.
    shrunk = torch.nn.functional.interpolate(large.image[None], size=(54, 96), mode="area")[0]
    assert (shrunk - small.image).abs().mean() < 0.04


def test_seeds_differ_in_brightness_contrast_and_depth() -> None:
    frames = [first_frame(seed) for seed in (1, 2, 9)]
    means = torch.tensor([f.image.mean() for f in frames])
    contrasts = torch.tensor([f.image.std() for f in frames])
    depths = torch.tensor([f.depth.median() for f in frames]).log()
    assert means.std() > 0.04
    assert contrasts.std() > 0.015
    assert depths.std() > 0.4
    for i, a in enumerate(frames):
        for b in frames[i + 1 :]:
            assert (a.image - b.image).abs().mean() > 0.05


def test_scenes_have_near_and_far_and_texture() -> None:
    for seed in (1, 9):
        frame = first_frame(seed)
        near, far = torch.quantile(frame.depth.flatten()[::3], torch.tensor([0.05, 0.95]))
        assert far / near > 8
        assert frame.image.std() > 0.08
        assert frame.image.diff(dim=2).abs().mean() > 0.008


@pytest.mark.parametrize(("width", "height"), [(16, 90), (17, 16)])
def test_tiny_and_odd_sizes(width: int, height: int) -> None:
    frame = next(iter(render_clip(2, frames=1, width=width, height=height)))
    assert frame.image.shape == (3, height, width)
    assert torch.isfinite(frame.image).all()


def test_the_frame_rate_sets_how_far_the_camera_moves() -> None:
    slow, fast = (
        next(iter(render_clip(2, frames=1, width=48, height=32, fps=fps))).flow.norm(dim=0).median() for fps in (20, 5)
    )
    assert 2.0 < fast / slow < 8.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frames": 0}, "at least 1 frame"),
        ({"width": 15}, "15x40"),
        ({"height": 8}, "64x8"),
        ({"fps": 0.0}, "frame rate"),
        ({"fps": float("nan")}, "frame rate"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_rendered(options: dict[str, float], words: str) -> None:
    arguments = {"seed": 0, "frames": 1, "width": 64, "height": 40, "fps": 5.0} | options
    seed = arguments.pop("seed")
    with pytest.raises(InputError, match=words):
        render_clip(seed, **arguments)


def test_no_gradients_are_kept() -> None:
    assert not first_frame(2).image.requires_grad


def test_importing_needs_neither_pyav_nor_typer() -> None:
    code = (
        "import sys; sys.modules['av'] = None; sys.modules['typer'] = None; sys.modules['cv2'] = None;"
        "import libranet.lab.scenes as s; next(iter(s.render_clip(2, frames=1, width=16, height=16)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.gpu
def test_cuda_renders_the_same_scene() -> None:
    host = list(render_clip(4, frames=2, width=192, height=108))
    device = list(render_clip(4, frames=2, width=192, height=108, device="cuda"))
    for a, b in zip(host, device, strict=True):
        assert b.image.is_cuda
        assert (a.image - b.image.cpu()).abs().mean() < 0.01
        assert ((a.depth - b.depth.cpu()).abs() < 0.01 * a.depth + 0.05).float().mean() > 0.98


def test_other_packages_use_only_the_public_names() -> None:
    inside = ROOT / "src" / "libranet" / "lab" / "scenes"
    folders = ("src", "benchmarks", "examples", "research")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py") if inside not in file.parents]
    assert files
    deep = [str(file) for file in files if re.search(r"(from|import) libranet\.scenes\.", file.read_text())]
    assert deep == []
