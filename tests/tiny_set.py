"""Small sets and checkpoints for the tests of the evaluation."""

from pathlib import Path

import cv2
import numpy as np
import torch

from libranet.network import LiBrANet, save_checkpoint
from tiny_network import TINY


def make_frames(count: int, *, height: int = 48, width: int = 64, seed: int = 0) -> list[np.ndarray]:
    """A texture that moves two pixels to the left per frame, [H, W, 3] RGB 8 bit."""
    random = np.random.default_rng(seed)
    world = cv2.resize(random.random((12, 24, 3)), (width + 2 * count, height), interpolation=cv2.INTER_CUBIC)
    world = (np.clip(world, 0, 1) * 255).round().astype(np.uint8)
    return [np.ascontiguousarray(world[:, 2 * i : 2 * i + width]) for i in range(count)]


def make_hazy(frames: list[np.ndarray], strength: float = 0.4) -> list[np.ndarray]:
    """Even, bright haze."""
    return [np.clip(f * (1 - strength) + 230 * strength, 0, 255).round().astype(np.uint8) for f in frames]


def write_frames(folder: Path, frames: list[np.ndarray]) -> None:
    """One PNG per frame."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, frame in enumerate(frames):
        assert cv2.imwrite(str(folder / f"{index:05d}.png"), frame[..., ::-1])


def write_pairs(folder: Path, names: tuple[str, ...] = ("one", "two"), *, count: int = 5) -> Path:
    """hazy/NAME beside clear/NAME; later clips have more haze."""
    for index, name in enumerate(names):
        clear = make_frames(count, seed=index)
        write_frames(folder / "clear" / name, clear)
        write_frames(folder / "hazy" / name, make_hazy(clear, 0.3 + 0.2 * index))
    return folder


def write_checkpoint(path: Path) -> Path:
    """A tiny network that changes its input."""
    torch.manual_seed(0)
    net = LiBrANet(TINY)
    with torch.no_grad():
        for parameter in net.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.02)
    save_checkpoint(net, path)
    return path
