"""The fused step against the plain stream, frame by frame, both ends of the stream included."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from libranet.errors import InputError
from libranet.frames import ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.frames.format import RGB8
from libranet.kernels.resample.reference import pad_to_multiple
from libranet.kernels.tiles import ConvTile
from libranet.network import GridFilter, LiBrANet, start_stream, stream_restore, stream_step
from libranet.network.residual_haze import Clearing, plan
from libranet.network.settle import KnotSpacing, settle
from libranet.network.stream import NO_FILTER
from tiny_network import SMALLEST, make_config, perturb


@pytest.fixture(scope="module")
def net() -> LiBrANet:
    torch.manual_seed(0)
    return perturb(LiBrANet(SMALLEST))


FILTER = GridFilter(0.3, 10.0)
"""Reaches two frames back."""


def plain_stream(
    net: LiBrANet, clip: torch.Tensor, lookahead: int | None = None, grid_filter: GridFilter = NO_FILTER
) -> torch.Tensor:  # [N, H, W, 3] uint8
    state, images = start_stream(net, lookahead=lookahead, grid_filter=grid_filter), []
    for frame in clip:
        image, state = stream_step(net, frame.permute(2, 0, 1)[None] / 255.0, state)
        images += [] if image is None else [image]
    while state.waiting:
        image, state = stream_step(net, None, state)
        images += [] if image is None else [image]
    return (torch.cat(images) * 255.0 + 0.5).to(torch.uint8).permute(0, 2, 3, 1)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="latency", marks=pytest.mark.slow),
        pytest.param({"lookahead": 0}, id="live", marks=pytest.mark.slow),
        pytest.param({"batch": 2, "overlap": True}, id="throughput", marks=pytest.mark.slow),
        pytest.param({"batch": 2, "overlap": True, "grid_filter": FILTER}, id="filter-throughput"),
        pytest.param({"grid_filter": FILTER}, id="filter", marks=pytest.mark.slow),
        pytest.param({"grid_filter": FILTER, "lookahead": 0}, id="filter-live", marks=pytest.mark.slow),
        pytest.param({"batch": 2, "overlap": True, "grid_filter": FILTER, "dense_fog": True}, id="dense-fog"),
    ],
)
def test_matches_the_plain_stream(
    device: str, net: LiBrANet, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from libranet.runtime.gpu.refiner import RefinerTiles
    from libranet.runtime.gpu.step import FusedStep

    dense_fog = settings.get("dense_fog", False)
    # This network's frames are noise, which has contrast: the plan is made as if they were fog.
    as_fog = partial(plan, clearing=Clearing(clear=(5.0, 6.0)))
    monkeypatch.setattr("libranet.network.stream.plan", as_fog)
    monkeypatch.setattr("libranet.runtime.gpu.history.plan", as_fog)
    monkeypatch.setattr(net, "config", replace(net.config, dense_fog=dense_fog))
    settings = {name: value for name, value in settings.items() if name != "dense_fog"}
    generator = torch.Generator().manual_seed(1)
    clip = torch.randint(100, 156, (3, 16, 18, 3), dtype=torch.uint8, generator=generator)
    tile = ConvTile(4, 16, 64)
    tiles = RefinerTiles(tile, tile, tile, tile)
    step = FusedStep(net, FrameFormat(18, 16, RGB8), device=device, tiles=tiles, **settings)
    batch = step.schedule.batch

    got = [step.push((clip[i : i + batch].to(device),))[0].clone() for i in range(0, len(clip), batch)]
    result = torch.cat([*got, *step.drain()]).cpu()

    grid_filter = settings.get("grid_filter", NO_FILTER)
    want = plain_stream(net, clip, settings.get("lookahead"), grid_filter)
    assert result.shape == want.shape
    difference = (result.int() - want.int()).abs()
    assert difference.max() <= 2
    assert difference.float().mean() <= 0.2
    assert (want.int() - clip.int()).abs().float().mean() > 3  # the network does something to compare
    if grid_filter is not NO_FILTER:
        unfiltered = plain_stream(net, clip, settings.get("lookahead"))
        assert (want.int() - unfiltered.int()).abs().max() > 2  # the filter, too
    if dense_fog:
        monkeypatch.setattr(net, "config", replace(net.config, dense_fog=False))
        alone = plain_stream(net, clip, settings.get("lookahead"), grid_filter)
        assert (want.int() - alone.int()).abs().max() > 2
    with pytest.raises(InputError, match="drained"):
        step.advance(1)


def test_given_grids_are_restored_by_as_in_the_plain_stream(device: str, net: LiBrANet) -> None:
    """Nothing is encoded; the residual is filtered; a frame that shows nothing comes back, in one batch with others."""
    from libranet.runtime.gpu.refiner import RefinerTiles
    from libranet.runtime.gpu.step import FusedStep

    generator = torch.Generator().manual_seed(1)
    clip = torch.randint(100, 156, (3, 16, 18, 3), dtype=torch.uint8, generator=generator)
    clip[1] = 70
    images = clip.permute(0, 3, 1, 2) / 255.0
    marked = [(net.encoder_input(image[None]), False) for image in images]
    given = list(settle(marked, net, KnotSpacing(2, 2)))
    state, want = start_stream(net, lookahead=0, grid_filter=FILTER), []
    for image, grids in zip(images, given, strict=True):
        found, state = stream_restore(net, image[None], state, given=grids)
        assert found is not None
        want.append((found.image[0] * 255.0 + 0.5).to(torch.uint8).permute(1, 2, 0))
    tile = ConvTile(4, 16, 64)
    step = FusedStep(
        net,
        FrameFormat(18, 16, RGB8),
        batch=2,
        lookahead=0,
        grid_filter=FILTER,
        grids_given=True,
        device=device,
        tiles=RefinerTiles(tile, tile, tile, tile),
    )
    got = []
    for first in (0, 2):
        for place, grids in enumerate(given[first : first + 2]):
            step.give(grids, place)
        got.append(step.push((clip[first : first + 2].to(device),))[0].clone().cpu())
    result = torch.cat(got)
    difference = (result.int() - torch.stack(want).int()).abs()
    assert difference.max() <= 2
    assert difference.float().mean() <= 0.2
    assert torch.equal(result[1], clip[1])
    assert (torch.stack(want).int() - clip.int())[[0, 2]].abs().float().mean() > 3


def test_yuv_frames_match_the_plain_backend(device: str, net: LiBrANet) -> None:
    """10-bit 4:2:0 from samples to samples, its transmission, and strength 0 bit for bit."""
    from libranet.runtime.gpu.refiner import RefinerTiles
    from libranet.runtime.gpu.step import FusedStep
    from libranet.runtime.plain import PlainBackend

    layout = PixelLayout("yuv420p10le", "yuv", 10, 2, 2, alpha=False)
    format_ = FrameFormat(18, 16, layout, ColorSpec(full_range=False))
    generator = torch.Generator().manual_seed(1)
    planes = tuple(
        (400 + 200 * torch.rand(shape, generator=generator)).to(torch.uint16).to(device)
        for shape in format_.plane_shapes(2)
    )
    tile = ConvTile(4, 16, 64)
    tiles = RefinerTiles(tile, tile, tile, tile)
    step = FusedStep(net, format_, device=device, tiles=tiles, lookahead=0)
    plain = PlainBackend(net.to(device), lookahead=0)
    for index in range(2):
        frame = tuple(plane[index : index + 1] for plane in planes)
        got = step.push(frame)
        (want,) = plain.push(Frames(frame, format_))
        for a, b, before in zip(got, want.after, frame, strict=True):
            difference = (a[0].cpu().int() - b.cpu().int()).abs()
            assert difference.max() <= 8  # of 1023
            assert difference.float().mean() <= 0.8
            assert (b.cpu().int() - before[0].cpu().int()).abs().float().mean() > 2
    step.reset()
    step.strength.fill_(0.0)
    for a, before in zip(step.push(tuple(plane[:1] for plane in planes)), planes, strict=True):
        assert torch.equal(a.cpu(), before[:1].cpu())


@pytest.mark.gpu
@pytest.mark.parametrize("size", [(17, 18), (144, 531)], ids=str)
def test_width_64_matches_the_plain_stream(size: tuple[int, int]) -> None:
    """On Hopper, this network runs on the weight-stationary kernels."""
    from libranet.runtime.gpu.step import FusedStep

    torch.manual_seed(0)
    net = perturb(LiBrANet(make_config(SMALLEST, refiner_width=64))).cuda()
    clip = torch.randint(0, 256, (3, *size, 3), dtype=torch.uint8, device="cuda")
    step = FusedStep(net, FrameFormat(size[1], size[0], RGB8), batch=2, overlap=True)

    result = torch.cat([step.push((clip[:2],))[0].clone(), step.push((clip[2:],))[0].clone(), *step.drain()])

    difference = (result.int() - plain_stream(net, clip).int()).abs()
    assert difference.max() <= 2
    assert difference.float().mean() <= 0.2


@pytest.mark.parametrize("size", [(17, 18), (19, 16), (16, 17)], ids=str)
def test_frames_are_padded_by_reflection(size: tuple[int, int]) -> None:
    from libranet.runtime.gpu.store import pad_frames

    frames = torch.randint(0, 256, (2, *size, 3), dtype=torch.uint8)
    want = pad_to_multiple(frames.permute(0, 3, 1, 2).float(), 4).permute(0, 2, 3, 1)
    padded = torch.zeros(want.shape, dtype=torch.uint8)
    padded[:, : size[0], : size[1]] = frames
    pad_frames(padded, *size)
    assert torch.equal(padded, want.to(torch.uint8))


def test_refuses_what_it_cannot_do(device: str, net: LiBrANet) -> None:
    from libranet.runtime.gpu.step import FusedStep

    with pytest.raises(InputError, match="at least 16x16"):
        FusedStep(net, FrameFormat(64, 8, RGB8), device=device)
    with pytest.raises(InputError, match="look-ahead of 0 to 1"):
        FusedStep(net, FrameFormat(16, 16, RGB8), lookahead=2, device=device)
    with pytest.raises(InputError, match="no refiner"):
        FusedStep(LiBrANet(make_config(refiner=False)), FrameFormat(16, 16, RGB8), device=device)
    step = FusedStep(net, FrameFormat(16, 16, RGB8), device=device, graphs=False)
    with pytest.raises(InputError, match="expected rgb24 planes"):
        step.push((torch.zeros(1, 16, 16, 3, device=device),))
