"""There is one forward pass: a changed constant in `network/forward.py` changes what every runtime computes."""

import inspect
import textwrap
import types

import pytest
import torch

from libranet.export.graphs import make_graph
from libranet.frames import ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.frames.format import RGB8
from libranet.network import LiBrANet, LiBrANetConfig, forward
from libranet.runtime import choose, make_backend
from tiny_network import SMALLEST, TINY, perturb

HALVED = ("ops.apply_field(low, grids, strength)", "ops.apply_field(low, grids, 0.5 * strength)")


def clip(count: int, width: int, height: int) -> torch.Tensor:  # [N, H, W, 3] uint8
    return torch.randint(60, 200, (count, height, width, 3), generator=torch.Generator().manual_seed(3)).byte()


def make_network(config: LiBrANetConfig, scale: float = 0.05) -> LiBrANet:
    torch.manual_seed(0)
    return perturb(LiBrANet(config), scale=scale)


def through(backend: str) -> torch.Tensor:
    if reason := backend != "plain" and choose.why_not_kernels(backend):
        pytest.skip(str(reason))
    network = make_network(TINY, 0.02)
    layout = PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False)
    format_ = FrameFormat(48, 40, layout, ColorSpec(full_range=False))
    planes = clip(2, 48, 40)[..., 0], clip(2, 24, 20)[..., 1], clip(2, 24, 20)[..., 2]
    stream = make_backend(network, backend=backend)
    ready = [r.after[0].clone() for r in stream.push(Frames(tuple(plane.contiguous() for plane in planes), format_))]
    return torch.stack(ready + [r.after[0].clone() for r in stream.flush()])


def through_fused_step() -> torch.Tensor:
    pytest.importorskip("triton")
    from libranet.kernels.tiles import ConvTile
    from libranet.runtime.gpu.refiner import RefinerTiles
    from libranet.runtime.gpu.step import FusedStep

    tile, frames = ConvTile(4, 16, 64), clip(1, 18, 16)
    step = FusedStep(
        make_network(SMALLEST),
        FrameFormat(18, 16, RGB8),
        lookahead=0,
        device="cpu",
        tiles=RefinerTiles(tile, tile, tile, tile),
    )
    return torch.cat([step.push((frame[None],))[0].clone() for frame in frames])


def through_trainer() -> torch.Tensor:
    pytest.importorskip("triton")
    from libranet.runtime.gpu.training import predict

    frames = clip(3, 32, 32).permute(0, 3, 1, 2)[None] / 255.0
    return predict(make_network(SMALLEST), frames).image


def through_export() -> torch.Tensor:
    graph = make_graph(make_network(TINY), "still", (48, 40))
    with torch.no_grad():
        return graph(clip(1, 48, 40).permute(0, 3, 1, 2) / 255.0)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda: through("plain"), id="plain"),
        pytest.param(lambda: through("cpu-fp32"), id="cpu"),
        pytest.param(through_fused_step, id="fused"),
        pytest.param(through_trainer, id="training"),
        pytest.param(through_export, id="export"),
    ],
)
def test_a_constant_changes_everywhere(run, monkeypatch):
    before = run()
    source = textwrap.dedent(inspect.getsource(forward.restore))
    assert source.count(HALVED[0]) == 1
    scope = dict(vars(forward))
    exec(source.replace(*HALVED), scope)
    changed = scope["restore"]
    assert isinstance(changed, types.FunctionType)
    monkeypatch.setattr(forward.restore, "__code__", changed.__code__)  # also where the function was imported by name
    after = run()
    assert before.shape == after.shape
    assert not torch.equal(before, after)
    monkeypatch.undo()
    assert torch.equal(run(), before)
