"""Our CPU kernels restore a stream as the plain network does, within their rounding; and which backend `auto` takes."""

import os
import subprocess
import sys

import pytest
import torch

from libranet.errors import InputError, MissingDependencyError
from libranet.export.check import moving_clip
from libranet.frames import ColorConverter, ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.network import GridFilter, LiBrANet
from libranet.network.settle import KnotSpacing, settle
from libranet.runtime import Restored, choose, make_backend, rgb_frames, rgb_of
from libranet.runtime.choose import BACKENDS, choose_on_cpu, why_not_kernels
from tiny_network import TINY, make_config, perturb

KERNELS = [name for name in BACKENDS if name.startswith("numba")]


@pytest.fixture
def frames() -> list[torch.Tensor]:
    """A clip of an odd size."""
    return moving_clip(5, 47, 33)


@pytest.fixture
def calm_model() -> LiBrANet:
    """A tiny network with a residual as small as a trained one's."""
    torch.manual_seed(0)
    return perturb(LiBrANet(TINY), scale=0.02)


def restore(network: LiBrANet, clip: list[torch.Tensor], backend: str, **options: float) -> torch.Tensor:
    stream = make_backend(network, backend=backend, grid_filter=GridFilter(0.2), **options)
    assert stream.name == backend
    ready = [rgb_of(r).clone() for frame in clip for r in stream.push(rgb_frames(frame))]
    return torch.stack(ready + [rgb_of(r).clone() for r in stream.flush()])


@pytest.mark.slow  # kernels take ten seconds to compile for floats; the test below has 8-bit video
@pytest.mark.parametrize(("backend", "limit"), [("numba-fp32", 0.02), ("numba-bf16", 4.0)])
def test_a_stream_is_restored_as_by_the_plain_network(calm_model, frames, backend, limit):
    if reason := why_not_kernels(backend):
        pytest.skip(reason)
    expected = restore(calm_model, frames, "plain")
    found = restore(calm_model, frames, backend)
    assert found.shape == expected.shape
    assert float((found - expected).abs().mean() * 255) < limit
    assert float((expected - torch.cat(frames)).abs().mean() * 255) > 0.08


def video_frames(count: int, width: int, height: int) -> Frames:
    """8-bit YUV 4:2:0."""
    layout = PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False)
    format_ = FrameFormat(width, height, layout, ColorSpec(full_range=False))
    converter = ColorConverter(layout, format_.color)
    planes = zip(*(converter.encode(frame) for frame in moving_clip(count, width, height)), strict=True)
    return Frames(tuple(torch.stack(list(plane)) for plane in planes), format_)


@pytest.mark.parametrize(
    ("backend", "largest", "changed"),
    [("numba-fp32", 1, 0.01), pytest.param("numba-bf16", 8, 0.7, marks=pytest.mark.more)],
)
def test_our_kernels_restore_video_in_its_own_samples(calm_model, backend, largest, changed):
    if reason := why_not_kernels(backend):
        pytest.skip(reason)
    clip, cuts = video_frames(6, 47, 33), [False, False, False, True, False, False]

    marked = zip((calm_model.encoder_input(frame) for frame in moving_clip(6, 47, 33)), cuts, strict=True)
    settled = list(settle(marked, calm_model, KnotSpacing(2, 2)))

    def run(backend: str, strength: float = 1.0, *, given: bool = False) -> list[Restored]:
        filter_ = GridFilter(0.2)
        stream = make_backend(calm_model, backend=backend, grid_filter=filter_, grids_given=given, strength=strength)
        ready = []
        for number in range(6):
            one = Frames(tuple(plane[number : number + 1] for plane in clip.planes), clip.format)
            grids = settled[number : number + 1] if given else ()
            ready += [_copy(restored) for restored in stream.push(one, cuts=cuts[number : number + 1], given=grids)]
        return ready + [_copy(restored) for restored in stream.flush()]

    expected = [*run("plain"), *run("plain", given=True)]
    found = [*run(backend), *run(backend, given=True)]
    assert len(found) == len(expected) == 12
    own, given = expected[:6], expected[6:]
    assert not all(torch.equal(a.after[0], b.after[0]) for a, b in zip(own, given, strict=True))
    for mine, theirs in zip(found, expected, strict=True):
        for a, b in zip(mine.after, theirs.after, strict=True):
            assert (a.float() - b.float()).abs().max() <= largest
            assert (a != b).float().mean() < changed
    for number, restored in enumerate(run(backend, strength=0.0)):
        assert all(torch.equal(a, plane[number]) for a, plane in zip(restored.after, clip.planes, strict=True))
        assert all(torch.equal(a, plane[number]) for a, plane in zip(restored.before, clip.planes, strict=True))


def test_kernels_run_on_torchs_threads():
    pytest.importorskip("numba")
    code = """if True:
    import numba, torch
    from libranet.kernels.compiled import share_threads
    torch.set_num_threads(1)
    share_threads()
    assert (torch.get_num_threads(), numba.get_num_threads()) == (1, 1)
    """
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"NUMBA_NUM_THREADS": "2"}, check=True, timeout=60)


@pytest.mark.slow
def test_our_kernels_take_formats_in_turn(calm_model):
    pytest.importorskip("numba")
    stream = make_backend(calm_model, backend="numba-fp32", live=True)
    tiny = rgb_frames(moving_clip(1, 20, 24)[0])  # smaller than the encoders' input: through torch
    assert len(stream.push(tiny)) == 1
    assert len(stream.push(video_frames(1, 47, 33))) == 1
    assert len(stream.push(tiny)) == 1
    broken = rgb_frames(torch.full((1, 3, 40, 40), float("nan")))
    with pytest.raises(InputError, match="got NaN"):
        stream.push(broken)
    assert len(stream.push(rgb_frames(moving_clip(1, 40, 40)[0]))) == 1


def _copy(restored: Restored) -> Restored:
    before, after = (tuple(plane.clone() for plane in planes) for planes in (restored.before, restored.after))
    return Restored(before, after, restored.format, restored.transmission)


def test_the_compiled_colour_field_equals_the_reference():
    pytest.importorskip("numba")
    from libranet.kernels.color_field import cpu, reference

    generator = torch.Generator().manual_seed(0)
    low = torch.rand(1, 3, 23, 37, generator=generator)
    low[0, :, 0, :2] = torch.tensor([[0.0, 1.0]] * 3)
    chromatic = torch.randn(1, 2, 12, 8, 16, 16, generator=generator) * 0.3
    plane = torch.randn(1, 12, 16, 16, generator=generator) * 0.1
    for strength in (0.0, 0.7, 1.0):
        small, delta = cpu.apply_field(low, chromatic * strength, plane * strength)
        expected, correction = reference.apply_field(low, chromatic * strength, plane * strength)
        assert (small - expected).abs().max() <= 2e-5
        assert (delta - correction).abs().max() <= 2e-5


def test_auto_depends_on_the_machine_and_the_work_alone(calm_model, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(choose, "WORTH_PACKING", 0)
    best = next(name for name in ("numba-bf16", "numba-fp32") if why_not_kernels(name) is None)
    for _ in range(2):  # no choice changes the next one
        assert choose_on_cpu(calm_model) == choose_on_cpu(calm_model, choose.WORTH_COMPILING) == best
        assert choose_on_cpu(calm_model, choose.WORTH_COMPILING - 1) == "plain"
    assert choose_on_cpu(LiBrANet(make_config(TINY, refiner_mix_kernel=3))) == "plain"
    monkeypatch.setattr("libranet.kernels.vector_code.HAS_BFLOAT16", False)
    assert choose_on_cpu(calm_model) == "numba-fp32"
    monkeypatch.setattr(choose, "find_spec", lambda name: None)
    assert choose_on_cpu(calm_model) == "plain"
    monkeypatch.setattr(choose, "WORTH_PACKING", 10**9)
    assert choose_on_cpu(calm_model) == "plain"


def test_the_transmission_comes_from_the_plain_network(calm_model, frames):
    stream = make_backend(calm_model, backend="numba-fp32", want_transmission=True, live=True)
    (restored,) = stream.push(rgb_frames(frames[0]))
    assert stream.name == "plain"
    assert restored.transmission is not None


def test_what_cannot_work_is_one_sentence(calm_model, monkeypatch):
    with pytest.raises(InputError, match="unknown backend 'tflite': use auto, plain, numba-fp32 or numba-bf16"):
        make_backend(calm_model, backend="tflite")
    with pytest.raises(InputError, match="scale 4 and 1x1 mixes"):
        make_backend(LiBrANet(make_config(TINY, refiner_mix_kernel=3)), backend="numba-fp32")
    with pytest.raises(InputError, match="full design in fp32"):
        make_backend(LiBrANet(TINY).to(torch.bfloat16), backend="numba-bf16")
    monkeypatch.setattr("libranet.kernels.vector_code.HAS_BFLOAT16", False)
    with pytest.raises(InputError, match="this CPU has no AVX512-BF16"):
        make_backend(calm_model, backend="numba-bf16")
    monkeypatch.setattr(choose, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"numba-fp32 needs the package numba: pip install"):
        make_backend(calm_model, backend="numba-fp32")
