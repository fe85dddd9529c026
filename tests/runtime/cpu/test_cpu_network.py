"""The network in CPU runtimes: every choice restores a stream as the plain network does, within its rounding."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from libranet.errors import InputError, MissingDependencyError
from libranet.export.check import moving_clip
from libranet.frames import ColorConverter, ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.network import GridFilter, LiBrANet
from libranet.runtime import Restored, make_backend, rgb_frames, rgb_of
from libranet.runtime.cpu import choice as cpu_choice
from libranet.runtime.cpu import parts as cpu_parts
from libranet.runtime.cpu.choice import Trial, ensure_measured, fastest, measure, on_cpu, recall
from libranet.runtime.cpu.network import CpuNetwork
from libranet.runtime.cpu.parts import CHOICES, CpuChoice, why_not
from tiny_network import TINY, perturb

LIMITS = {"fp32": 0.02, "bf16": 4.0, "int8": 8.0}
"""The largest mean difference in steps of 1/255; random weights make more of rounding than trained ones do."""


@pytest.fixture
def frames(monkeypatch) -> list[torch.Tensor]:
    """A clip of an odd size, which also stands in for the rendered calibration frames."""
    clip = moving_clip(5, 47, 33)
    monkeypatch.setattr(cpu_parts, "rendered_frames", lambda: clip[:2])
    monkeypatch.setattr(cpu_choice, "rendered_frames", lambda: clip[:2])
    return clip


@pytest.fixture
def calm_model() -> LiBrANet:
    """A tiny network with a residual as small as a trained one's."""
    torch.manual_seed(0)
    return perturb(LiBrANet(TINY), scale=0.02)


def restore(network: LiBrANet, clip: list[torch.Tensor], backend: str, **options: float) -> torch.Tensor:
    stream = make_backend(network, backend=backend, grid_filter=GridFilter(0.2), **options)
    ready = [rgb_of(r).clone() for frame in clip for r in stream.push(rgb_frames(frame))]
    return torch.stack(ready + [rgb_of(r).clone() for r in stream.flush()])


@pytest.mark.parametrize(
    "choice",
    # Our kernels take ten seconds to compile for floats; the test below has 8-bit video.
    [pytest.param(choice, marks=[pytest.mark.slow] * (choice.runtime == "numba")) for choice in CHOICES],
    ids=str,
)
def test_a_stream_is_restored_as_by_the_plain_network(calm_model, frames, choice):
    if reason := why_not(choice):
        pytest.skip(reason)
    expected = restore(calm_model, frames, "plain")
    found = restore(calm_model, frames, str(choice))
    assert found.shape == expected.shape
    assert float((found - expected).abs().mean() * 255) < LIMITS[choice.precision]
    assert float((expected - torch.cat(frames)).abs().mean() * 255) > 4 * LIMITS["fp32"]


def test_a_runtime_that_reads_files_leaves_the_network_as_it_was(frames):
    pytest.importorskip("onnxruntime")
    network = perturb(LiBrANet(TINY), seed=21).eval()  # weights of its own: no other test has written its files
    before = restore(network, frames, "plain")
    restore(network, frames, "onnxruntime-int8")
    assert not any(part.training for part in network.modules())
    assert torch.equal(restore(network, frames, "plain"), before)


def video_frames(count: int, width: int, height: int) -> Frames:
    """8-bit YUV 4:2:0."""
    layout = PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False)
    format_ = FrameFormat(width, height, layout, ColorSpec(full_range=False))
    converter = ColorConverter(layout, format_.color)
    planes = zip(*(converter.encode(frame) for frame in moving_clip(count, width, height)), strict=True)
    return Frames(tuple(torch.stack(list(plane)) for plane in planes), format_)


@pytest.mark.parametrize(("backend", "largest", "changed"), [("numba-fp32", 1, 0.01), ("numba-bf16", 8, 0.7)])
def test_our_kernels_restore_video_in_its_own_samples(calm_model, backend, largest, changed):
    if reason := why_not(next(choice for choice in CHOICES if str(choice) == backend)):
        pytest.skip(reason)
    clip, cuts = video_frames(6, 47, 33), [False, False, False, True, False, False]

    def run(backend: str, strength: float = 1.0) -> list[Restored]:
        stream = make_backend(calm_model, backend=backend, grid_filter=GridFilter(0.2), strength=strength)
        ready = []
        for number in range(6):
            one = Frames(tuple(plane[number : number + 1] for plane in clip.planes), clip.format)
            ready += [_copy(restored) for restored in stream.push(one, cuts=cuts[number : number + 1])]
        return ready + [_copy(restored) for restored in stream.flush()]

    expected, found = run("plain"), run(backend)
    assert len(found) == len(expected) == 6
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


@pytest.mark.parametrize("compiled", [True, False])
def test_with_and_without_numba(calm_model, frames, compiled):
    if compiled:
        pytest.importorskip("numba")
    network = CpuNetwork(calm_model, CpuChoice("torch", "fp32"))
    network._compiled = compiled
    with torch.no_grad():
        for strength in (0.6, 1.0):
            expected = calm_model(frames[0][:, None], still=True, strength=strength)
            found = network(frames[0][:, None], still=True, strength=strength)
            assert (found - expected).abs().max() <= 1e-5
        assert torch.equal(network(frames[0][:, None], still=True, strength=0.0), frames[0])


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


@pytest.mark.parametrize("scale", [2, 4])
def test_the_compiled_last_step_equals_the_reference(scale):
    pytest.importorskip("numba")
    from libranet.kernels.upsample_add import cpu, reference

    generator = torch.Generator().manual_seed(scale)
    frame = torch.rand(1, 3, 5 * scale, 7 * scale, generator=generator)
    correction = torch.randn(1, 3, 5, 7, generator=generator) * 0.2
    residual = torch.randn(1, 3 * scale**2, 5, 7, generator=generator) * 0.1
    found = cpu.upsample_add(frame, correction, residual * 0.5)
    assert (found - reference.upsample_add(frame, correction, residual * 0.5)).abs().max() <= 1e-6


def test_the_fastest_that_holds_is_taken():
    trials = [
        Trial("torch-fp32", 90.0, 0.0, 0.0),
        Trial("torch-bf16", 40.0, 0.4, 3.0),
        Trial("openvino-int8", 9.0, 5.0, 80.0),
    ]
    assert fastest(trials).choice == "torch-bf16"
    assert fastest([]) is None


def test_trials_are_measured_once_and_remembered(calm_model, frames, monkeypatch):
    monkeypatch.setattr(cpu_choice, "WORTH_IT", 0)
    torch_alone = (CpuChoice("torch", "fp32"),)
    monkeypatch.setattr(cpu_choice, "_COMPARED", torch_alone)
    monkeypatch.setattr(cpu_choice, "CHOICES", torch_alone)
    assert on_cpu(calm_model, "auto") is calm_model
    trials = ensure_measured(calm_model)
    assert [trial.choice for trial in trials] == ["torch-fp32"]
    assert trials[0].rms < 0.1
    assert recall(calm_model) == trials
    monkeypatch.setattr(cpu_choice, "measure", lambda network: pytest.fail("measured twice"))
    assert ensure_measured(calm_model) == trials
    assert isinstance(on_cpu(calm_model, "auto"), CpuNetwork)
    other = perturb(LiBrANet(TINY), seed=9)
    assert recall(other) is None
    monkeypatch.setattr(cpu_choice, "cpu_name", lambda: "another CPU")
    assert recall(calm_model) is None


def test_our_kernels_are_tried_alone_first(calm_model, frames, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(cpu_choice, "WORTH_IT", 0)
    tried = []

    def stand_in(network: LiBrANet, choices: list[CpuChoice]) -> list[Trial]:
        tried.extend(map(str, choices))
        return [Trial(str(choice), 5.0, 9.0 if choice.precision == "bf16" else 0.0, 9.0) for choice in choices]

    monkeypatch.setattr(cpu_choice, "measure", stand_in)
    monkeypatch.setattr(cpu_choice, "why_not", lambda choice: None)
    assert not cpu_choice.is_compiled()
    trials = ensure_measured(calm_model, thorough=False)
    assert tried == ["numba-bf16", "numba-fp32"]  # float32 because the quality of bfloat16 did not hold
    assert cpu_choice.is_compiled()
    assert recall(calm_model) == trials
    assert recall(calm_model, thorough=True) is None
    assert fastest(trials).choice == cpu_choice.chosen_backend(calm_model) == "numba-fp32"
    monkeypatch.setattr(cpu_choice, "cpu_name", lambda: "another CPU")
    assert not cpu_choice.is_compiled()


def test_small_networks_are_not_measured(calm_model):
    assert ensure_measured(calm_model) == []
    assert measure is not None


def test_the_transmission_comes_from_the_plain_network(calm_model, frames):
    stream = make_backend(calm_model, backend="torch-fp32", want_transmission=True, live=True)
    (restored,) = stream.push(rgb_frames(frames[0]))
    assert restored.transmission is not None


def test_what_cannot_work_is_one_sentence(calm_model, monkeypatch):
    with pytest.raises(InputError, match="unknown backend 'tflite': use auto, plain, numba-fp32, numba-bf16, torch"):
        make_backend(calm_model, backend="tflite")
    with pytest.raises(InputError, match="scale 4 and 1x1 mixes"):
        make_backend(LiBrANet(replace(TINY, refiner_mix_kernel=3)), backend="numba-fp32")
    with pytest.raises(InputError, match="full design in fp32"):
        make_backend(LiBrANet(TINY).to(torch.bfloat16), backend="torch-bf16")
    monkeypatch.setattr(cpu_parts, "has_bfloat16", lambda: False)
    with pytest.raises(InputError, match="this CPU has no bfloat16"):
        make_backend(calm_model, backend="torch-bf16")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        MissingDependencyError, match=r"openvino needs the package openvino: pip install 'libranet\[cpu\]'"
    ):
        make_backend(calm_model, backend="openvino-int8")
