"""Our CPU kernels restore a stream as the plain network does, within their rounding; and which backend `auto` takes."""

import pytest
import torch

from libranet.errors import InputError, MissingDependencyError
from libranet.export.check import moving_clip
from libranet.frames import ColorConverter, ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.kernels.native import library
from libranet.network import GridFilter, LiBrANet
from libranet.network.checkpoint import PACKAGED
from libranet.network.settle import KnotSpacing, settle
from libranet.runtime import Restored, choose, load_network, make_backend, rgb_frames, rgb_of
from libranet.runtime.choose import BACKENDS, choose_on_cpu, why_not_kernels
from tiny_network import TINY, make_config, perturb

KERNELS = [name for name in BACKENDS if name.startswith("cpu")]


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


@pytest.mark.parametrize(("backend", "limit"), [("cpu-fp32", 0.02), ("cpu-bf16", 4.0)])
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
    [("cpu-fp32", 1, 0.01), ("cpu-bf16", 8, 0.7)],
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


@pytest.mark.kernels
def test_our_kernels_take_formats_in_turn(calm_model):
    stream = make_backend(calm_model, backend="cpu-fp32", live=True)
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
    return Restored(before, after, restored.format)


@pytest.mark.parametrize("level", library.LEVELS)
def test_the_colour_field_equals_the_reference(level, use_level):
    use_level(level)
    from libranet.kernels.color_field import field, reference

    generator = torch.Generator().manual_seed(0)
    low = torch.rand(1, 3, 23, 37, generator=generator)
    low[0, :, 0, :2] = torch.tensor([[0.0, 1.0]] * 3)
    chromatic = torch.randn(1, 2, 12, 8, 16, 16, generator=generator) * 0.3
    plane = torch.randn(1, 12, 16, 16, generator=generator) * 0.1
    for strength in (0.0, 0.7, 1.0):
        small, delta = field.apply_field(low, chromatic * strength, plane * strength)
        expected, correction = reference.apply_field(low, chromatic * strength, plane * strength)
        assert (small - expected).abs().max() <= 2e-5
        assert (delta - correction).abs().max() <= 2e-5


@pytest.mark.kernels
def test_auto_depends_on_the_network_and_the_machine_alone(calm_model, use_level, monkeypatch):
    assert choose_on_cpu(calm_model) == "plain"
    monkeypatch.setattr(choose, "WORTH_PACKING", 0)
    best = next((name for name in ("cpu-bf16", "cpu-fp32") if why_not_kernels(name) is None), "plain")
    for _ in range(2):  # no choice changes the next one
        assert choose_on_cpu(calm_model) == best
    assert choose_on_cpu(LiBrANet(make_config(TINY, refiner_mix_kernel=3))) == "plain"
    with monkeypatch.context() as without_compiler:
        without_compiler.setattr(library, "why_no_library", lambda: "built without a compiler")
        assert choose_on_cpu(calm_model) == "plain"
    use_level("portable")
    assert choose_on_cpu(calm_model) == "cpu-fp32"


@pytest.mark.kernels
def test_packaged_networks_take_the_kernels(monkeypatch):
    monkeypatch.undo()
    for name in PACKAGED:
        assert choose_on_cpu(load_network(name, device="cpu")).startswith("cpu-")
        assert make_backend(load_network(name, device="cpu")).name.startswith("cpu-")


@pytest.mark.kernels
def test_the_number_of_threads_does_not_change_a_bit(calm_model, frames):
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found.append(restore(calm_model, frames, "cpu-fp32"))
    torch.set_num_threads(before)
    assert torch.equal(*found)


@pytest.mark.kernels
def test_what_cannot_work_is_one_sentence(calm_model, monkeypatch):
    with pytest.raises(InputError, match="unknown backend 'tflite': use auto, plain, cpu-fp32 or cpu-bf16"):
        make_backend(calm_model, backend="tflite")
    with pytest.raises(InputError, match="scale 4 and 1x1 mixes"):
        make_backend(LiBrANet(make_config(TINY, refiner_mix_kernel=3)), backend="cpu-fp32")
    with pytest.raises(InputError, match="full design in fp32"):
        make_backend(LiBrANet(TINY).to(torch.bfloat16), backend="cpu-bf16")
    monkeypatch.setattr(library, "has_bfloat16", lambda: False)
    with pytest.raises(InputError, match="this CPU has no AVX512-BF16"):
        make_backend(calm_model, backend="cpu-bf16")
    monkeypatch.setattr(library, "why_no_library", lambda: "this installation has no CPU kernels")
    with pytest.raises(MissingDependencyError, match="has no CPU kernels"):
        make_backend(calm_model, backend="cpu-fp32")
