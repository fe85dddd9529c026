"""Passes over frames in their own samples against their references."""

import pytest
import torch

from kernel_agreement import assert_agree, poison
from libranet.frames import ColorSpec, FrameFormat, PixelLayout
from libranet.frames.format import PLANAR_RGB16, RGB16, RGB_FLOAT
from libranet.kernels.samples import reference
from libranet.kernels.samples.reference import SampleCodes

H, W = 6, 35  # odd on purpose: one and a half cells by eight and three quarters
LIMITED = {"full_range": False}
FORMATS = {
    "420-8-left": (PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False), ColorSpec("bt709", **LIMITED)),
    "420-10-topleft": (
        PixelLayout("yuv420p10le", "yuv", 10, 2, 2, alpha=False),
        ColorSpec("bt2020", siting="topleft", **LIMITED),
    ),
    "420-8-center": (PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False), ColorSpec("bt601", siting="center")),
    "420-8-bottom": (PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False), ColorSpec("bt601", siting="bottom")),
    "422-10": (PixelLayout("yuv422p10le", "yuv", 10, 2, 1, alpha=False), ColorSpec("bt709", **LIMITED)),
    "444-12": (PixelLayout("yuv444p12le", "yuv", 12, 1, 1, alpha=False), ColorSpec("bt709", **LIMITED)),
    "gray-10": (PixelLayout("gray10le", "gray", 10, 1, 1, alpha=False), ColorSpec("bt709", **LIMITED)),
    "rgb-16": (RGB16, ColorSpec()),
    "planar-rgb-16": (PLANAR_RGB16, ColorSpec()),
    "float": (RGB_FLOAT, ColorSpec()),
}


def make(name: str, device: str, height: int = H, width: int = W) -> tuple[FrameFormat, tuple[torch.Tensor, ...]]:
    """A format and a ring of three frames; tests read the last and the first, across the ring's seam."""
    layout, color = FORMATS[name]
    format_ = FrameFormat(width, height, layout, color)
    generator = torch.Generator().manual_seed(0)
    values = (torch.rand(shape, generator=generator) for shape in format_.plane_shapes(3))
    return format_, tuple((v * layout.peak).to(layout.dtype).to(device) for v in values)


QUICK = ["420-8-left", "420-10-topleft", "422-10", "rgb-16"]
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FORMATS]


@pytest.mark.parametrize("name", NAMES)
def test_read_samples(device: str, name: str) -> None:
    from libranet.kernels.samples.gpu import read_samples_out

    format_, planes = make(name, device)
    h, w = -(-H // 4), -(-W // 4)
    written = {
        "low": poison(2, 3, h, w, device=device, dtype=torch.float32),
        "cells": poison(2, h, w, 64, device=device),
    }
    inputs = {"planes": planes, "first": 2, "format_": format_}
    codes = SampleCodes.make(format_, torch.device(device))
    assert_agree(reference.read_samples_out, read_samples_out, inputs, written, atol=6e-4, rtol=1e-3, codes=codes)


@pytest.mark.parametrize("name", ["420-8-left", "422-10", "float"])
def test_reduce_samples(device: str, name: str) -> None:
    from libranet.kernels.samples.gpu import SampleBands, reduce_samples_out

    format_, planes = make(name, device, 38, 70)
    written = {"out": poison(2, 16, 16, 4, device=device)}
    where = torch.device(device)
    extra = {"codes": SampleCodes.make(format_, where), "bands": SampleBands.make(40, 72, 16).to(where)}
    inputs = {"planes": planes, "first": 2, "format_": format_}
    assert_agree(reference.reduce_samples_out, reduce_samples_out, inputs, written, atol=2e-3, rtol=1e-3, **extra)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("strength", [0.0, 0.7])
def test_finish_samples(device: str, name: str, strength: float) -> None:
    from libranet.kernels.samples.gpu import finish_samples_out

    format_, planes = make(name, device)
    h, w = -(-H // 4), -(-W // 4)
    generator = torch.Generator().manual_seed(1)
    scale = 0.1 if strength else 0.0
    inputs = {
        "planes": planes,
        "residual": (torch.randn(2, h, w, 64, generator=generator) * 0.1).half().to(device),
        "delta": (torch.randn(2, 3, h, w, generator=generator) * scale).to(device),
        "strength": torch.tensor([strength, 0.5 * strength], device=device),
        "format_": format_,
        "first": 2,
    }
    out, want = ([torch.zeros_like(plane[:2]) for plane in planes] for _ in range(2))
    codes = SampleCodes.make(format_, torch.device(device))
    finish_samples_out(**inputs, out=tuple(out), codes=codes)
    reference.finish_samples_out(**inputs, out=tuple(want))
    for got, wanted, plane in zip(out, want, planes, strict=True):
        difference = (got.double() - wanted.double()).abs()
        if strength == 0.0:
            assert torch.equal(got.cpu(), torch.stack([plane[2], plane[0]]).cpu())  # bit for bit
        assert difference.max() <= (1e-5 if codes.floating else 1)  # where a sum lies within rounding of a half
        assert difference.mean() < 0.02
