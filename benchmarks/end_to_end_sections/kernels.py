"""The kernels' own times, those for compute capability 8, and how far both are from the network in single precision."""

import torch

from end_to_end_sections.table import FILTER, YUV8, YUV10, Setting, Table, moving_planes, time_calls
from libranet.frames import ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.frames.format import PLANAR_RGB8, RGB8
from libranet.network import LiBrANet
from libranet.runtime import load_network


def _format(layout: PixelLayout, setting: Setting) -> FrameFormat:
    return FrameFormat(*setting.size, layout, ColorSpec(full_range=layout.model != "yuv"))


def step_ms(
    network: LiBrANet, layout: PixelLayout, setting: Setting, *, batch: int, stationary: bool = True, steps: int = 30
) -> float:
    """A fused step with frames already in place, ms a frame."""
    from libranet.runtime.gpu.refiner import RefinerTiles
    from libranet.runtime.gpu.step import FusedStep

    step = FusedStep(
        network, _format(layout, setting), batch=batch, overlap=batch > 1, grid_filter=FILTER,
        tiles=RefinerTiles(weight_stationary=stationary), device=setting.device,
    )  # fmt: skip
    planes = moving_planes(layout, batch, setting.size, setting.device)
    for _ in range(8):
        step.push(planes)
    return time_calls(lambda _: step.advance(batch), steps) / batch


def kernels(table: Table, network: LiBrANet, setting: Setting) -> None:
    """The column that the product is compared with, and the path for compute capability 8."""
    facts = table.facts
    for name, layout in (("RGB 8 bit", RGB8), ("YUV 4:2:0 8 bit", YUV8), ("YUV 4:2:0 10 bit", YUV10)):
        facts[f"{layout.name} batch"] = step_ms(network, layout, setting, batch=4)
        table.add(f"kernels, {name}, batches of 4", None, facts[f"{layout.name} batch"])
    facts["rgb24 latency"] = step_ms(network, RGB8, setting, batch=1)
    table.add("kernels, RGB 8 bit, latency", None, facts["rgb24 latency"])
    planar = step_ms(network, PLANAR_RGB8, setting, batch=1)
    table.add("kernels, planar RGB 8 bit, latency", planar, facts["rgb24 latency"])
    for name, layout in (("RGB 8 bit", RGB8), ("YUV 8 bit", YUV8)):
        forced = step_ms(network, layout, setting, batch=4, stationary=False)
        beside = facts[f"{layout.name} batch"]
        table.add(f"capability-8 kernels, forced, {name}, batches of 4", forced, beside, limit="<= 2 ms")


def accuracy(table: Table, network: LiBrANet, setting: Setting) -> None:
    """Both kernel families against the plain network in single precision, at full size."""
    from libranet.runtime.gpu.backend import FusedBackend
    from libranet.runtime.gpu.refiner import RefinerTiles
    from libranet.runtime.plain import PlainBackend

    torch.backends.cudnn.allow_tf32 = False  # which rounds the input of convolutions to ten bits
    single = load_network(device=setting.device, precision="fp32")
    for layout in (RGB8, YUV10):
        frames = Frames(moving_planes(layout, 4, setting.size, setting.device), _format(layout, setting))
        plain = PlainBackend(single, grid_filter=FILTER)
        want = [r.after for r in plain.push(frames) + plain.flush()]
        for stationary in (True, False):
            fused = FusedBackend(
                network, lookahead=None, strength=1.0, batch=4, grid_filter=FILTER, trial=False,
                tiles=RefinerTiles(weight_stationary=stationary),
            )  # fmt: skip
            got = [tuple(plane.clone() for plane in r.after) for r in fused.push(frames)]
            got += [r.after for r in fused.flush()]
            apart = [(a.float() - b.float()).abs() * (255 / layout.peak) for x, y in zip(got, want, strict=True)
                     for a, b in zip(x, y, strict=True)]  # fmt: skip
            name = "Hopper" if stationary else "capability 8"
            table.add(f"error, {layout.name}, {name}: mean", max(float(d.mean()) for d in apart), unit="/255")
            table.add(f"error, {layout.name}, {name}: largest", max(float(d.max()) for d in apart), unit="/255")
    torch.backends.cudnn.allow_tf32 = True
