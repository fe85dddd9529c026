"""The fused backend: bookkeeping with a stand-in for the kernels, real frames on a GPU."""

from collections.abc import Iterator

import pytest
import torch

from libranet.backends import make_backend, rgb_frames, rgb_of, why_not_fused_here
from libranet.backends.plain import PlainBackend
from libranet.frames import Frames
from libranet.models import GridFilter, LiBrANet
from tiny_network import perturb


class DelayedBytes:
    """Stands in for `FusedStep`: adds 10 to every byte, two frames late."""

    def __init__(self, network: LiBrANet, *, height: int, width: int, **settings: object) -> None:
        self.size, self.held, self.resets = (height, width), [], 0

    def push(self, frames: torch.Tensor) -> torch.Tensor:
        assert frames.dtype == torch.uint8
        assert frames.shape == (1, *self.size, 3)
        self.held.append(frames)
        return self.held.pop(0) + 10 if len(self.held) > 2 else frames[:0]

    def drain(self) -> torch.Tensor:
        rest, self.held = self.held, []
        return torch.cat(rest) + 10 if rest else torch.zeros(0, *self.size, 3, dtype=torch.uint8)

    def reset(self) -> None:
        self.resets += 1


@pytest.fixture
def step(tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    module = pytest.importorskip("libranet.backends.fused", reason="Triton is not installed", exc_type=ImportError)
    monkeypatch.setattr(module, "FusedStep", DelayedBytes)
    monkeypatch.setattr(module, "agrees", lambda *paths: True)
    return module.FusedBackend(tiny_model, lookahead=None, strength=1.0)


def image(value: float, size: tuple[int, int] = (16, 20)) -> torch.Tensor:
    return torch.full((3, *size), value)


def frame(value: float, size: tuple[int, int] = (16, 20)) -> Frames:
    return rgb_frames(image(value, size)[None])


def test_frames_come_back_in_order_with_the_change_added(step) -> None:
    values = [0.1, 0.2003, 0.3, 0.4]  # 0.2003 is no whole byte: only the change is rounded
    images = [rgb_of(r) for value in values for r in step.push(frame(value))]
    assert len(images) == 2
    images += [rgb_of(r) for r in step.flush()]
    for value, restored in zip(values, images, strict=True):
        torch.testing.assert_close(restored, image(value + 10 / 255))
    assert step.flush() == []


def test_a_cut_and_a_new_size_end_the_stream(step) -> None:
    step.push(frame(0.1))
    step.push(frame(0.2))
    assert len(step.push(frame(0.3), cuts=(True,))) == 2
    assert len(step.push(frame(0.4, (18, 16)))) == 1
    assert [rgb_of(r).shape[-2:] for r in step.flush()] == [(18, 16)]


def test_kernels_that_disagree_are_not_used(
    tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = pytest.importorskip("libranet.backends.fused", reason="Triton is not installed", exc_type=ImportError)
    monkeypatch.setattr(module, "FusedStep", DelayedBytes)
    doubtful = module.FusedBackend(tiny_model, lookahead=None, strength=0.0)  # the truth is the input; not input + 10
    clip = [torch.rand(1, 3, 16, 20) for _ in range(4)]
    images = [rgb_of(r) for original in clip for r in doubtful.push(rgb_frames(original))]
    images += [rgb_of(r) for r in doubtful.flush()]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "disagree with the plain network at 20x16" in caplog.text
    assert len(images) == 4
    for original, restored in zip(clip, images, strict=True):
        torch.testing.assert_close(restored, original[0])


def test_the_plain_step_stays_where_kernels_cannot_run(tiny_model: LiBrANet) -> None:
    assert isinstance(make_backend(tiny_model), PlainBackend)
    assert "float32" in (why_not_fused_here(tiny_model) or "")
    assert "the device is cpu" in (why_not_fused_here(tiny_model.half()) or "")


@pytest.mark.gpu
@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("strength", [1.0, 0.6])
def test_both_paths_agree_on_a_gpu(live: bool, strength: float) -> None:
    network = perturb(LiBrANet(), scale=0.01).cuda()
    assert why_not_fused_here(network.half()) is None
    generator = torch.Generator().manual_seed(0)
    clip = [torch.randint(0, 256, (1, 3, 118, 202), generator=generator).cuda() / 255.0 for _ in range(7)]
    images = []
    for half in (True, False):
        network = network.half() if half else network.float()
        step = make_backend(network, strength=strength, live=live, grid_filter=GridFilter(0.3, 10.0))
        assert isinstance(step, PlainBackend) != half
        cuts = [index == 4 for index in range(7)]
        restored = step.push(rgb_frames(torch.cat(clip)), cuts=cuts) + step.flush()
        images.append(torch.stack([rgb_of(r) for r in restored]) * 255.0)
    difference = (images[0] - images[1]).abs()
    assert difference.max() <= 2.5  # two bytes, and the rounding of the change
    assert difference.mean() <= 0.45  # rounding to bytes alone is 0.25
