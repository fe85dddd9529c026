"""Frames drawn by kernels against their references."""

from typing import Literal

import pytest
import torch

from kernel_agreement import assert_agree, poison
from libranet.engine import views
from libranet.engine.views import FrameView
from libranet.frames import ColorSpec, FrameFormat, PixelLayout
from libranet.frames.format import RGB8, RGB_FLOAT
from libranet.kernels.drawing import reference
from libranet.kernels.samples.reference import SampleCodes
from libranet.runtime import Restored

YUV10 = PixelLayout("yuv420p10le", "yuv", 10, 2, 2, alpha=False)
FORMATS = {
    "420-8": FrameFormat(37, 26, PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False), ColorSpec(full_range=False)),
    "420-10": FrameFormat(37, 26, YUV10, ColorSpec("bt2020", full_range=False)),
    "422-8": FrameFormat(36, 26, PixelLayout("yuv422p", "yuv", 8, 2, 1, alpha=False), ColorSpec(full_range=False)),
    "gray": FrameFormat(37, 26, PixelLayout("gray", "gray", 8, 1, 1, alpha=False)),
    "rgb": FrameFormat(37, 26, RGB8),
    "float": FrameFormat(37, 26, RGB_FLOAT),
}


def frame(format_: FrameFormat, device: str, seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    layout = format_.layout
    values = (torch.rand(shape[1:], generator=generator) for shape in format_.plane_shapes(1))
    return tuple((v * layout.peak).to(layout.dtype).to(device) for v in values)


@pytest.mark.parametrize("name", list(FORMATS))
def test_small_rgb(device: str, name: str) -> None:
    from libranet.kernels.drawing.gpu import small_rgb_out

    format_ = FORMATS[name]
    written = {"out": poison(3, 7, -(-format_.width // 4), device=device, dtype=torch.float32)}
    inputs = {"planes": frame(format_, device, 0), "format_": format_, "step": 4}
    codes = SampleCodes.make(format_, torch.device(device))
    assert_agree(reference.small_rgb_out, small_rgb_out, inputs, written, atol=1e-5, rtol=1e-5, codes=codes)


def test_removed_haze(device: str) -> None:
    from libranet.kernels.drawing.gpu import removed_haze_out

    generator = torch.Generator().manual_seed(0)
    hazy, clear = (torch.rand(3, 13, 21, generator=generator).to(device) for _ in range(2))
    inputs = {"hazy": hazy, "clear": clear, "airlight": torch.tensor([0.9, 0.8, 0.7], device=device)}
    written = {"out": poison(13, 21, device=device, dtype=torch.float32)}
    assert_agree(reference.removed_haze_out, removed_haze_out, inputs, written, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("turns", [0, *(pytest.param(turn, marks=pytest.mark.slow) for turn in (1, 3))])
@pytest.mark.parametrize(("compare", "view"), [("split", "result"), ("side", "haze"), (None, "removed")])
@pytest.mark.parametrize(
    "name", [n if n in ("420-8", "420-10") else pytest.param(n, marks=pytest.mark.slow) for n in FORMATS]
)
def test_views(
    device: str,
    name: str,
    compare: Literal["split", "side"] | None,
    view: Literal["result", "haze", "removed"],
    turns: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whole views, one of them large enough for labels: kernels and reference draw the same."""
    format_ = FORMATS[name]
    if (name, compare, turns) == ("420-8", "split", 0):
        format_ = FrameFormat(244, 162, format_.layout, format_.color)
    restored = Restored(frame(format_, device, 1), frame(format_, device, 2), format_)
    drawn = []
    for kernels in (False, True):
        monkeypatch.setattr(views, "has_kernels", lambda _, k=kernels: k)
        drawn.append(FrameView(format_, format_, compare=compare, view=view, turns=turns, device=device).draw(restored))
    for want, got in zip(*drawn, strict=True):
        difference = (want.double() - got.double()).abs() / format_.layout.peak
        # A shade of the heat map may round to its neighbour, a half under a label to the other side.
        assert float(difference.max()) <= (0.05 if view != "result" else 1.001 / format_.layout.peak)
        assert float((difference > 1e-6).double().mean()) <= 0.02
