"""What the whole-map statistics of the refiner's GroupNorms are worth, and what they cost.

    PYTHONPATH=src:benchmarks python3 benchmarks/group_norm.py [--clips FOLDER] [--hazy FOLDER] [--pairs FOLDER]
        [--frames 12] [--width 640] [--network base] [--speed 1920x1080]

Three ways: each frame's own statistics (the network), those of the frame before, and one fixed affine, the mean of the
statistics over the pairs that are shown while training.
--clips     clear clips, hazed by a drawn depth in three regimes: PSNR of the ways, and the worst frame
--hazy      real hazy clips: distance of "the frame before" from the network, rms and largest, in steps of 1/255
--pairs     still pairs that choose nothing: PSNR with the fixed affine
--speed     the refiner in OpenVINO, with GroupNorm and with a fixed affine: the most that any way can save, because
            statistics of the frame before still have to be computed, only later
"""

import argparse
import copy
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from libranet.haze.scattering import REGIMES, add_haze, transmission
from libranet.metrics import psnr
from libranet.network import GridFilter, LiBrANet, start_stream, stream_step
from libranet.runtime import load_network
from libranet.runtime.cpu.parts import CHOICES, Layers, why_not
from machine import describe_machine
from stills import pairs, prior_depth


class HeldNorm(nn.Module):
    """GroupNorm with statistics from elsewhere."""

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__()
        self.norm = norm
        self.way = "own"
        self.held: tuple[Tensor, Tensor] | None = None
        self.seen: list[tuple[Tensor, Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:  # [1, C, h, w]
        groups = x.unflatten(1, (self.norm.num_groups, -1)).flatten(2)
        own = groups.mean(2, keepdim=True), groups.var(2, unbiased=False, keepdim=True)
        mean, variance = own if self.way == "own" or self.held is None else self.held
        if self.way == "before":
            self.held = own
        elif self.way == "own":
            self.seen.append(own)
        y = ((groups - mean) / (variance + self.norm.eps).sqrt()).reshape(x.shape)
        return y * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]


class Affine(nn.Module):
    """A factor and a summand per channel, other numbers than the norm's: files are kept under the weights' hash."""

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(norm.weight / 2), nn.Parameter(norm.bias / 2)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight[:, None, None] + self.bias[:, None, None]


def replace_norms(module: nn.Module, kind: type[HeldNorm] | type[Affine]) -> list[nn.Module]:
    """Put another module into the place of every GroupNorm."""
    made = []
    for name, part in list(module.named_children()):
        if isinstance(part, nn.GroupNorm):
            setattr(module, name, kind(part))
            made.append(getattr(module, name))
        else:
            made += replace_norms(part, kind)
    return made


def read_clip(path: Path, frames: int, width: int) -> list[np.ndarray]:  # each [h, w, 3] float32 in [0, 1], RGB
    video, clip = cv2.VideoCapture(str(path)), []
    while len(clip) < frames and (read := video.read())[0]:
        height = round(read[1].shape[0] * width / read[1].shape[1])
        clip.append(cv2.resize(read[1], (width, height), interpolation=cv2.INTER_AREA)[..., ::-1] / np.float32(255))
    return clip


def as_tensor(image: np.ndarray) -> Tensor:  # [1, 3, h, w]
    return torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]


@torch.no_grad()
def restore(network: LiBrANet, norms: list[HeldNorm], clip: list[Tensor], way: str) -> list[Tensor]:
    for norm in norms:
        norm.way = way
        norm.held = None if way == "before" else norm.held
    state, ready = start_stream(network, lookahead=0, grid_filter=GridFilter()), []
    for frame in clip:
        image, state = stream_step(network, frame, state)
        assert image is not None
        ready.append((image * 255).round() / 255)
    return ready


def hazed(clip: list[np.ndarray], number: int) -> Iterator[tuple[str, list[Tensor]]]:
    depth = torch.from_numpy(prior_depth(clip[0], number))[None, None]
    for regime in REGIMES[number % 3 :: 3]:
        through, airlight = transmission(depth, regime.beta), torch.tensor(regime.airlight)
        yield regime.name, [(add_haze(as_tensor(frame), through, airlight) * 255).round() / 255 for frame in clip]


def measure_quality(network: LiBrANet, options: argparse.Namespace) -> None:
    assert network.refiner is not None
    norms = [norm for norm in replace_norms(network.refiner, HeldNorm) if isinstance(norm, HeldNorm)]
    changes = []
    for number, path in enumerate(sorted(options.clips.glob("*.mp4")) if options.clips else []):
        clip = read_clip(path, options.frames, options.width)
        for name, hazy in hazed(clip, number):
            scores = [
                [psnr(image[0], as_tensor(clear)[0]) for image, clear in zip(restored, clip, strict=True)]
                for restored in (restore(network, norms, hazy, way) for way in ("own", "before"))
            ]
            own, before = np.array(scores)
            changes += list(before - own)
            print(
                f"{path.stem}, {name}: own {own.mean():.3f} dB, of the frame before {(before - own).mean():+.3f}, "
                f"worst frame {(before - own).min():+.3f}",
                flush=True,
            )
    if changes:
        print(f"all clips: {np.mean(changes):+.4f} dB, worst frame {np.min(changes):+.3f}")
    for path in sorted(options.hazy.glob("*.mp4")) if options.hazy else []:
        clip = [as_tensor(frame) for frame in read_clip(path, options.frames, options.width)]
        own, before = (torch.cat(restore(network, norms, clip, way)) for way in ("own", "before"))
        error = (own - before).abs() * 255
        print(f"{path.stem}: {float(error.square().mean().sqrt()):.2f}/255 rms, largest {float(error.max()):.0f}")
    if options.pairs:
        for norm in norms:
            norm.seen.clear()
        stills = [still for still in pairs(options.pairs) if "pairs" in still.kinds]
        for still in stills:
            if "the other pairs" in still.kinds:
                restore(network, norms, [as_tensor(still.hazy)], "own")
        for norm in norms:
            norm.held = tuple(torch.stack(values).mean(0) for values in zip(*norm.seen, strict=True))  # type: ignore
        scores = [
            [
                psnr(restore(network, norms, [as_tensor(still.hazy)], way)[0][0], as_tensor(still.clear)[0])
                for still in stills
                if "the other pairs" not in still.kinds
            ]
            for way in ("own", "fixed")
        ]
        own, fixed = np.array(scores)
        print(f"{len(own)} pairs: own {own.mean():.3f} dB, fixed affine {(fixed - own).mean():+.3f}", end=", ")
        print(f"worst pair {(fixed - own).min():+.3f}")


def measure_speed(network: LiBrANet, size: str) -> None:
    width, height = (int(side) // network.config.scale for side in size.split("x"))
    other = copy.deepcopy(network)
    assert other.refiner is not None
    replace_norms(other.refiner, Affine)
    inputs = torch.rand(1, 3 * network.config.scale**2, height, width), torch.rand(1, 3, height, width)
    for choice in CHOICES:
        if choice.runtime != "openvino" or why_not(choice):
            continue
        parts = [Layers(candidate, choice).refiner(height, width) for candidate in (network, other)]
        best = [float("inf")] * 2
        for _ in range(6):
            for index, part in enumerate(parts):
                begin = time.process_time()
                part(*inputs)
                best[index] = min(best[index], time.process_time() - begin)
        print(
            f"refiner at {size}, {choice}: {best[0]:.3f} core-seconds with GroupNorm, {best[1]:.3f} with an affine "
            f"({best[1] / best[0]:.2f} of it)",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("clips", "hazy", "pairs"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--network", default="base")
    parser.add_argument("--speed", help="WIDTHxHEIGHT of the frame")
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in describe_machine().items()))
    network = load_network(options.network, device="cpu", precision="fp32")
    assert isinstance(network, LiBrANet)
    if options.speed:
        measure_speed(network, options.speed)
    measure_quality(network, options)


if __name__ == "__main__":
    main()
