"""The sentence that says why the plain path is in use."""

import pytest
import torch

from libranet.network import LiBrANetConfig
from libranet.runtime.gpu.support import supports_weight_stationary, why_not_device, why_not_fused, why_not_network
from tiny_network import make_config


def test_shipped_network_is_covered() -> None:
    assert why_not_network(LiBrANetConfig()) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"refiner": False}, "no refiner"),
        ({"cayley": False}, "Cayley"),
        ({"scale": 2}, "scale is 2"),
        ({"refiner_width": 48}, "width is 48"),
        ({"refiner_mix_kernel": 3}, "mix kernel is 3"),
        ({"bins": 6}, "6 colour bins"),
        ({"attention_heads": 6}, "6 attention heads"),
        ({"head_hidden": 270}, "270 wide"),
        ({"temporal_field": False}, "no temporal field"),
    ],
)
def test_other_networks_are_named(change: dict, words: str) -> None:
    reason = why_not_network(make_config(**change))
    assert reason is not None
    assert words in reason


def test_cpu_is_not_a_gpu() -> None:
    assert "the device is cpu" in (why_not_fused(LiBrANetConfig(), "cpu") or "")


@pytest.mark.parametrize(
    ("width", "capability", "supported"), [(64, (9, 0), True), (32, (9, 0), False), (64, (10, 0), False)]
)
def test_only_hopper_has_weight_stationary_kernels_of_64_channels(
    monkeypatch: pytest.MonkeyPatch, width: int, capability: tuple[int, int], supported: bool
) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: pip install 'libranet[gpu]'")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert supports_weight_stationary(width, torch.device("cuda")) is supported
    assert not supports_weight_stationary(width, torch.device("cpu"))


def test_a_gpu_without_shipped_kernels_needs_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr("libranet.runtime.gpu.support.util.find_spec", lambda name: None)
    monkeypatch.setattr("libranet.runtime.gpu.support.archive_for", lambda capability: None)
    reason = why_not_device(torch.device("cuda")) or ""
    assert "no kernels were shipped for compute capability 9.0, and Triton is not installed" in reason
    monkeypatch.setattr("libranet.runtime.gpu.support.archive_for", lambda capability: "an archive")
    assert why_not_device(torch.device("cuda")) is None
    assert supports_weight_stationary(64, torch.device("cuda"))


def test_a_triton_without_gluon_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr("libranet.runtime.gpu.support.util.find_spec", find_spec)
    monkeypatch.setattr("libranet.runtime.gpu.support.archive_for", lambda capability: None)
    assert not supports_weight_stationary(64, torch.device("cuda"))
