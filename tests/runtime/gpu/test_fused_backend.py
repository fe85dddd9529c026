"""The fused backend: bookkeeping with a stand-in for the kernels, real frames on a GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from delayed_step import DelayedStep
from libranet.frames import ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.frames.format import RGB8, RGB16
from libranet.network import GridFilter, LiBrANet
from libranet.runtime import Backend, make_backend, rgb_frames, rgb_of
from libranet.runtime.choose import why_not_fused_here
from libranet.runtime.plain import PlainBackend
from tiny_network import perturb


@pytest.fixture
def make(tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    module = pytest.importorskip("libranet.runtime.gpu.backend", reason="Triton is not installed", exc_type=ImportError)
    monkeypatch.setattr(module, "FusedStep", DelayedStep)
    monkeypatch.setattr(module.FusedBackend, "_why_distrust", lambda *frames: "")
    return lambda **settings: module.FusedBackend(tiny_model, lookahead=None, strength=1.0, **settings)


def image(value: float, size: tuple[int, int] = (16, 20)) -> torch.Tensor:
    return torch.full((3, *size), value)


def frame(value: float, size: tuple[int, int] = (16, 20)) -> Frames:
    return rgb_frames(image(value, size)[None])


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("together", [1, 3, 10])
def test_frames_come_back_in_order(make: Callable[..., Any], batch: int, together: int) -> None:
    """However many frames come at once, and however many a step takes."""
    values = torch.linspace(0.1, 0.8, 10)
    backend, images = make(batch=batch), []
    for part in values.split(together):
        ready = backend.push(rgb_frames(torch.stack([image(float(v)) for v in part])))
        images += [(rgb_of(r), r.before[0].clone()) for r in ready]
    images += [(rgb_of(r), r.before[0].clone()) for r in backend.flush()]
    for value, (restored, before) in zip(values, images, strict=True):
        torch.testing.assert_close(restored, image(float(value) + 0.1))
        torch.testing.assert_close(before, image(float(value))[0])
    assert backend.flush() == []


@pytest.mark.parametrize("batch", [1, 3])
def test_cuts_and_new_sizes_end_the_stream(make: Callable[..., Any], batch: int) -> None:
    backend = make(batch=batch)
    clip = torch.stack([image(v) for v in (0.1, 0.2, 0.3, 0.4, 0.5)])
    ready = backend.push(rgb_frames(clip), cuts=[False, False, True, False, True])
    assert [round(float(rgb_of(r).mean()), 3) for r in ready][:4] == [0.2, 0.3, 0.4, 0.5]
    ready = ready[4:] + backend.push(frame(0.6, (18, 16)))
    assert [round(float(rgb_of(r).mean()), 3) for r in ready] == [0.6]
    assert [rgb_of(r).shape[-2:] for r in backend.flush()] == [(18, 16)]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_cut_leaves_the_frames_before_it_alone(make: Callable[..., Any], batch: int) -> None:
    """Draining runs as many steps as there are sets of results: it would overwrite what the last step restored."""
    values = [round(0.02 * index, 3) for index in range(1, 31)]
    clip = rgb_frames(torch.stack([image(v) for v in values]))
    backend = make(batch=batch)
    ready = backend.push(clip, cuts=[index in (9, 10, 20) for index in range(len(values))])
    seen = [(round(float(r.before[0].mean()), 3), round(float(rgb_of(r).mean()), 3)) for r in ready]
    seen += [(round(float(r.before[0].mean()), 3), round(float(rgb_of(r).mean()), 3)) for r in backend.flush()]
    assert seen == [(value, round(value + 0.1, 3)) for value in values]


def test_kernels_that_disagree_are_not_used(
    tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    module = pytest.importorskip("libranet.runtime.gpu.backend", reason="Triton is not installed", exc_type=ImportError)
    monkeypatch.setattr(module, "FusedStep", DelayedStep)
    monkeypatch.setattr(module, "agreement_file", lambda *facts: tmp_path / "agreed")
    doubtful = module.FusedBackend(tiny_model, lookahead=None, strength=0.0)  # the truth is the input; not input + 0.1
    clip = [torch.rand(1, 3, 16, 20) for _ in range(4)]
    images = [rgb_of(r) for original in clip for r in doubtful.push(rgb_frames(original))]
    images += [rgb_of(r) for r in doubtful.flush()]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "by 26 of 255 on average and 26 at most on 20x16 gbrpf32le frames" in caplog.text
    assert not (tmp_path / "agreed").exists()
    assert len(images) == 4
    for original, restored in zip(clip, images, strict=True):
        torch.testing.assert_close(restored, original[0])


def test_the_plain_step_stays_where_kernels_cannot_run(tiny_model: LiBrANet) -> None:
    assert isinstance(make_backend(tiny_model), PlainBackend)
    assert "float32" in (why_not_fused_here(tiny_model) or "")
    assert "the device is cpu" in (why_not_fused_here(tiny_model.half()) or "")


def test_agreement_is_remembered(tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = pytest.importorskip("libranet.runtime.gpu.backend", reason="Triton is not installed", exc_type=ImportError)
    monkeypatch.setattr(module, "FusedStep", DelayedStep)
    monkeypatch.setattr(module, "agreement_file", lambda *facts: tmp_path / "kernels" / "agreed")
    compared: list[int] = []
    monkeypatch.setattr(module, "find_difference", lambda *paths: compared.append(1) or "")
    for _ in range(2):
        module.FusedBackend(tiny_model, lookahead=None, strength=1.0).push(frame(0.5))
    assert compared == [1]
    assert (tmp_path / "kernels" / "agreed").exists()


def test_kernels_that_do_not_compile_are_replaced_with_a_sentence(
    tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = pytest.importorskip("libranet.runtime.gpu.backend", reason="Triton is not installed", exc_type=ImportError)

    def fail(*_arguments: object, **_settings: object) -> None:
        raise RuntimeError("PassManager::run failed\nmore lines")

    monkeypatch.setattr(module, "FusedStep", fail)
    backend = module.FusedBackend(tiny_model, lookahead=0, strength=0.0)
    (restored,) = backend.push(frame(0.5))
    torch.testing.assert_close(rgb_of(restored), image(0.5))
    assert "do not run (PassManager::run failed) on 20x16" in caplog.text
    with pytest.raises(RuntimeError):
        module.FusedBackend(tiny_model, lookahead=0, strength=0.0, trial=False).push(frame(0.5))


YUV420 = PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False)
YUV422_10 = PixelLayout("yuv422p10le", "yuv", 10, 2, 1, alpha=False)
YUV444_12 = PixelLayout("yuv444p12le", "yuv", 12, 1, 1, alpha=False)


def restore_all(backend: Backend, frames: Frames, cuts: list[bool]) -> list[tuple[torch.Tensor, ...]]:
    """The planes of every frame; copies, because the flush overwrites what the push returned."""
    planes = [tuple(plane.clone() for plane in r.after) for r in backend.push(frames, cuts=cuts)]
    return planes + [r.after for r in backend.flush()]


def assert_close_frames(
    got: list[tuple[torch.Tensor, ...]], want: list[tuple[torch.Tensor, ...]], *, peak: float, mean: float
) -> None:
    """Every frame differs by 2.5 steps of 8 bit at most (two, and the rounding of the change), and by `mean` at most.

    The message names each frame and plane that does not.
    """
    wrong = []
    for index, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        for plane, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            apart = (a.float() - b.float()).abs() * (255.0 / peak)
            if not (apart.max() <= 2.5 and apart.mean() <= mean):
                share = f"{(apart > 2.5).float().mean():.2%} of the samples"
                wrong.append(
                    f"frame {index}, plane {plane}: up to {apart.max():.1f} ({share}), mean {apart.mean():.3f}"
                )
    assert not wrong, "; ".join(wrong)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("layout", "batch", "stationary"),
    [
        *((layout, 4, True) for layout in (RGB8, RGB16, YUV420, YUV422_10, YUV444_12)),
        *((layout, 1, True) for layout in (RGB8, YUV420)),
        *((layout, 4, False) for layout in (RGB8, YUV422_10)),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_every_format_agrees_with_the_plain_backend_on_a_gpu(layout: PixelLayout, batch: int, stationary: bool) -> None:
    """Accuracy as against the network in single precision; strength 0 bit for bit; cuts inside batches."""
    from libranet.runtime.gpu.backend import FusedBackend
    from libranet.runtime.gpu.refiner import RefinerTiles

    format_ = FrameFormat(203, 118, layout, ColorSpec(full_range=layout.model != "yuv"))
    generator = torch.Generator().manual_seed(0)
    planes = tuple(
        ((0.3 + 0.4 * torch.rand(shape, generator=generator)) * layout.peak).to(layout.dtype).cuda()
        for shape in format_.plane_shapes(27)
    )
    frames, cuts = Frames(planes, format_), [index in (4, 6) for index in range(27)]  # and a shot longer than the ring
    network = perturb(LiBrANet(), scale=0.01).cuda()
    settings = {"lookahead": None, "grid_filter": GridFilter(0.3, 10.0)}
    want = restore_all(PlainBackend(network.float(), strength=1.0, **settings), frames, cuts)
    tiles = RefinerTiles(weight_stationary=stationary)
    network = network.half()
    for strength in (1.0, 0.0):
        fused = FusedBackend(network, strength=strength, batch=batch, tiles=tiles, trial=False, **settings)
        got = restore_all(fused, frames, cuts)
        if strength:
            assert_close_frames(got, want, peak=layout.peak, mean=0.3)
            continue
        changed = [
            i for i in range(27) for a, b in zip(got[i], planes, strict=True) if not torch.equal(a.int(), b[i].int())
        ]
        assert not changed, f"strength 0 changed the frames {changed}"


@pytest.mark.gpu
@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("strength", [1.0, 0.6])
def test_both_paths_agree_on_a_gpu(live: bool, strength: float, caplog: pytest.LogCaptureFixture) -> None:
    network = perturb(LiBrANet(), scale=0.01).cuda()
    assert why_not_fused_here(network.half()) is None
    generator = torch.Generator().manual_seed(0)
    clip = [torch.randint(0, 256, (1, 3, 118, 202), generator=generator).cuda() / 255.0 for _ in range(7)]
    results = []
    for half in (True, False):
        network = network.half() if half else network.float()
        step = make_backend(network, strength=strength, live=live, grid_filter=GridFilter(0.3, 10.0))
        assert isinstance(step, PlainBackend) != half
        results.append(restore_all(step, rgb_frames(torch.cat(clip)), [index == 4 for index in range(7)]))
    assert "the plain backend is used" not in caplog.text
    assert_close_frames(*results, peak=1.0, mean=0.45)  # rounding to bytes alone is 0.25
