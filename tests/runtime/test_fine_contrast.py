"""Behind every backend: foggy frames get fine contrast in their own samples, all others pass bit for bit."""

import pytest
import torch
from tests.tiny_network import TINY, perturb

from libranet.frames import ColorConverter, FrameFormat, Frames
from libranet.frames.format import PLANAR_RGB8, PLANAR_RGB_FLOAT, RGB8, ColorSpec, PixelLayout
from libranet.network import LiBrANet
from libranet.runtime import load_network, make_backend
from libranet.runtime.fine_contrast import FineContrastBackend
from libranet.runtime.interface import Restored

YUV8, YUV10 = (PixelLayout(f"yuv420p{bits}", "yuv", bits, 2, 2, alpha=False) for bits in (8, 10))


class Unchanged:
    """A backend whose frames are restored as they came."""

    name, device, stages = "unchanged", torch.device("cpu"), None

    def push(self, frames, *, cuts=(), given=()):
        planes = tuple(plane[0] for plane in frames.planes)
        return [Restored(planes, planes, frames.format)]

    def flush(self):
        return []


def frame(rgb: torch.Tensor, layout: PixelLayout) -> Frames:  # [3, H, W] in [0, 1]
    format_ = FrameFormat(rgb.shape[2], rgb.shape[1], layout, ColorSpec("bt709", full_range=layout.model == "rgb"))
    planes = ColorConverter(layout, format_.color).encode(rgb[None])
    return Frames(tuple(plane[None] for plane in planes), format_)


def fog(light: float = 0.65) -> torch.Tensor:
    """Grey stripes that hardly show, below an even sky."""
    rows, columns = torch.meshgrid(torch.arange(240.0), torch.arange(320.0), indexing="ij")
    return (light + 0.03 * torch.sin(columns / 3) * (rows > 90)).expand(3, -1, -1)


def raised(frames: Frames, strength: float = 1.0) -> Restored:
    (restored,) = FineContrastBackend(Unchanged(), strength=strength).push(frames)
    return restored


def test_fog_gets_contrast_in_every_layout_and_its_sky_stays():
    gains = []
    for layout in (RGB8, PLANAR_RGB8, YUV8, YUV10):
        restored = raised(frame(fog(), layout))
        before, after = (
            ColorConverter(layout, restored.format.color).to_rgb(planes)[0, 0]
            for planes in (restored.before, restored.after)
        )
        assert restored.after[0].dtype == restored.before[0].dtype
        assert (after[:60] - before[:60]).abs().max() <= 1 / 255
        gains.append(float(after[150:].std() / before[150:].std()))
    assert min(gains) > 1.5
    assert max(gains) - min(gains) < 0.1, "layouts agree"


def test_the_original_stays_as_it_was():
    frames = frame(fog(), PLANAR_RGB_FLOAT)
    frames.planes[0][0, :20] = 1.25
    kept = [plane.clone() for plane in frames.planes]
    restored = raised(frames)
    assert not torch.equal(restored.after[1], restored.before[1])
    assert all(map(torch.equal, kept, frames.planes))


def test_chroma_is_not_touched():
    frames = frame(fog() * torch.tensor([1.0, 0.97, 0.94])[:, None, None], YUV8)
    restored = raised(frames)
    assert not torch.equal(restored.after[0], restored.before[0])
    for old, new in zip(restored.before[1:], restored.after[1:], strict=True):
        assert torch.equal(old, new)


def test_clear_and_dark_frames_pass_bit_for_bit():
    generator = torch.Generator().manual_seed(0)
    clear = torch.nn.functional.interpolate(torch.rand(1, 3, 30, 40, generator=generator), size=(240, 320))[0]
    for rgb in (clear, fog(0.25)):
        restored = raised(frame(rgb, RGB8))
        assert all(map(torch.equal, restored.before, restored.after))


def test_the_network_alone_and_strength_zero_do_without():
    network = load_network(perturb(LiBrANet(TINY)))
    assert not isinstance(make_backend(network), FineContrastBackend)
    packaged = load_network("libranet-small", device="cpu")
    assert isinstance(make_backend(packaged), FineContrastBackend)
    assert not isinstance(make_backend(packaged, strength=0.0), FineContrastBackend)
    assert not isinstance(make_backend(load_network("libranet-small", dense_fog=False)), FineContrastBackend)


def test_strength_scales_it():
    half, full = (raised(frame(fog(), RGB8), strength).after[0].float()[150:].std() for strength in (0.5, 1.0))
    none = frame(fog(), RGB8).planes[0].float()[0, 150:].std()
    assert none < half < full


@pytest.mark.gpu
@pytest.mark.parametrize("layout", [RGB8, PLANAR_RGB8, YUV8, YUV10], ids=lambda layout: layout.name)
def test_a_gpu_agrees(layout):
    frames = frame(fog(), layout)
    expected = raised(frames).after
    unchanged = Unchanged()
    unchanged.device = torch.device("cuda")
    planes = tuple(plane.cuda() for plane in frames.planes)
    (restored,) = FineContrastBackend(unchanged, strength=1.0).push(Frames(planes, frames.format))
    for one, other in zip(expected, restored.after, strict=True):
        assert other.is_cuda
        assert (one.int() - other.cpu().int()).abs().max() <= 1
