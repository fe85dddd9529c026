"""How GPUs without our kernels run the network: measured, compared, remembered. On the CPU, by a clock of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from libranet.cli.doctor import _plain_on_gpu
from libranet.frames import FrameFormat, Frames
from libranet.frames.format import RGB8
from libranet.network import GridFilter, LiBrANet, start_stream, stream_restore
from libranet.runtime.gpu import choice as gpu_choice
from libranet.runtime.gpu.choice import Measured, choose_way, measure, recall, remember
from libranet.runtime.gpu.compiled_network import CompiledNetwork
from libranet.runtime.plain import PlainBackend


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_choice, "cache_folder", lambda: tmp_path / "gpu")


@pytest.fixture
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.compile` leaves functions as they are: it takes seconds."""
    monkeypatch.setattr(torch, "compile", lambda work, **_: work)


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let one way take one second, every other two."""
    clock = {"now": 0.0}
    real = gpu_choice.stream_restore

    def set_faster(faster: str) -> None:
        def timed(network: Any, *arguments: Any) -> Any:
            layers = network.source if isinstance(network, CompiledNetwork) else network
            last = layers.refiner.join.weight.is_contiguous(memory_format=torch.channels_last)
            way = "channels last" if last else "planes"
            way = "compiled" if isinstance(network, CompiledNetwork) else way
            clock["now"] += 1.0 if way == faster else 2.0
            return real(network, *arguments)

        monkeypatch.setattr(gpu_choice, "stream_restore", timed)
        monkeypatch.setattr(gpu_choice.time, "perf_counter", lambda: clock["now"])

    return set_faster


def clip(count: int = 3) -> Frames:
    generator = torch.Generator().manual_seed(0)
    planes = (torch.randint(0, 256, (count, 22, 34, 3), dtype=torch.uint8, generator=generator),)
    return Frames(planes, FrameFormat(34, 22, RGB8))


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("faster", ["planes", "channels last", "compiled"])
def test_the_fastest_way_is_taken_and_changes_nothing(
    tiny_model: LiBrANet, paced: Callable[[str], None], faster: str
) -> None:
    paced(faster)
    frames, steady = clip(), GridFilter(1.0, 25.0)
    plain = PlainBackend(tiny_model, grid_filter=steady)
    want = [r.after[0] for r in plain.push(frames) + plain.flush()]
    tuned = PlainBackend(tiny_model, grid_filter=steady, tune=True, patient=True)
    got = [r.after[0] for r in tuned.push(frames) + tuned.flush()]
    assert isinstance(tuned.network, CompiledNetwork) == (faster == "compiled")
    if faster != "compiled":
        weight = tiny_model.refiner.join.weight
        assert weight.is_contiguous(memory_format=torch.channels_last) == (faster == "channels last")
    assert all((a.int() - b.int()).abs().max() <= 1 for a, b in zip(got, want, strict=True))
    found = recall(tiny_model)
    assert found is not None
    assert found.best == faster


@pytest.mark.usefixtures("without_compiler")
def test_what_is_remembered_is_not_measured_again(tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(tiny_model, Measured({"planes": 3.0, "channels last": 2.0, "compiled": 1.0}))
    monkeypatch.setattr(gpu_choice, "measure", None)
    assert isinstance(choose_way(tiny_model, torch.rand(1, 3, 16, 16), patient=False), CompiledNetwork)
    weight = tiny_model.refiner.join.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    (file,) = gpu_choice.cache_folder().iterdir()
    file.write_text("{}")
    assert recall(tiny_model) is None


def test_doctor_says_which_way_was_measured(tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libranet.network.load_model", lambda *_, **__: tiny_model)
    (text,) = _plain_on_gpu(Path("x"), torch.device("cpu")).values()
    assert "torch.compile" in text
    remember(tiny_model, Measured({"planes": 3.0, "channels last": 2.0, "compiled": 1.0}))
    (text,) = _plain_on_gpu(Path("x"), torch.device("cpu")).values()
    assert text == "compiled, by measurement (compiled 1.0 ms, channels last 2.0 ms, planes 3.0 ms)"


def test_those_in_a_hurry_do_not_compile(tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_choice, "CompiledNetwork", None)
    assert choose_way(tiny_model, torch.rand(1, 3, 16, 16), patient=False) is tiny_model
    assert recall(tiny_model) is None


@pytest.mark.parametrize("trouble", ["fails", "differs"])
def test_a_compiler_that_fails_or_differs_is_not_used(
    tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    def compiled(work: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if trouble == "fails":
                raise RuntimeError("no compiler")
            found = work(*arguments, **options)
            return found * 1.5 if isinstance(found, torch.Tensor) else found

        return call

    monkeypatch.setattr(torch, "compile", compiled)
    found = measure(tiny_model, torch.rand(1, 3, 32, 32), with_compile=True)
    assert set(found.milliseconds) == {"planes", "channels last"}


@pytest.mark.slow
def test_dynamo_takes_every_part_and_compiles_once(tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real tracer, without code generation: frames of one size must not compile again."""
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda work, **options: real(work, backend="eager", **options))
    torch._dynamo.reset()
    compiled = CompiledNetwork(tiny_model)
    states = [start_stream(tiny_model, grid_filter=GridFilter(1.0, 25.0)) for _ in range(2)]
    counts = []
    for _ in range(8):
        frame = torch.rand(1, 3, 36, 52)
        images = []
        for index, network in enumerate((compiled, tiny_model)):
            restored, states[index] = stream_restore(network, frame, states[index])
            images.append(restored)
        counts.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
        if images[0] is not None:
            assert (images[0].image - images[1].image).abs().max() < 1e-4
    assert counts[-1] == counts[3] > 0
