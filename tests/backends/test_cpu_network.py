"""The network in CPU runtimes: every choice restores a stream as the plain network does, within its rounding."""

import pytest
import torch

from libranet.backends import cpu_choice, cpu_parts, make_backend, rgb_frames, rgb_of
from libranet.backends.cpu_choice import Trial, ensure_measured, fastest, measure, on_cpu, recall
from libranet.backends.cpu_network import CpuNetwork
from libranet.backends.cpu_parts import CHOICES, CpuChoice, why_not
from libranet.errors import InputError, MissingDependencyError
from libranet.export.check import moving_clip
from libranet.models import GridFilter, LiBrANet
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


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_a_stream_is_restored_as_by_the_plain_network(calm_model, frames, choice):
    if reason := why_not(choice):
        pytest.skip(reason)
    expected = restore(calm_model, frames, "plain")
    found = restore(calm_model, frames, str(choice))
    assert found.shape == expected.shape
    assert float((found - expected).abs().mean() * 255) < LIMITS[choice.precision]
    assert float((expected - torch.cat(frames)).abs().mean() * 255) > 4 * LIMITS["fp32"]


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
    monkeypatch.setattr(cpu_choice, "_COMPARED", CHOICES[:1])
    monkeypatch.setattr(cpu_choice, "CHOICES", CHOICES[:1])
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


def test_small_networks_are_not_measured(calm_model):
    assert ensure_measured(calm_model) == []
    assert measure is not None


def test_the_transmission_comes_from_the_plain_network(calm_model, frames):
    stream = make_backend(calm_model, backend="torch-fp32", want_transmission=True, live=True)
    (restored,) = stream.push(rgb_frames(frames[0]))
    assert restored.transmission is not None


def test_what_cannot_work_is_one_sentence(calm_model, monkeypatch):
    with pytest.raises(InputError, match="unknown backend 'tflite': use auto, plain, torch-fp32"):
        make_backend(calm_model, backend="tflite")
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
