"""Train the haze map: `python research/train_haze_map.py PACK -o src/libranet/weights/haze-map.safetensors`.

PACK holds photos/train_*, photos/val_4k and density_maps (../shared/data). Samples are photos under densities that know
nothing of depth, photos above a tilted ground, and rendered scenes with their exact depth; each is restored by the
product. Takes about a quarter of an hour on two cores. Scenes and photos of the report were not trained on.
"""

import argparse
import time
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from libranet import Dehazer
from libranet.haze.scattering import add_haze
from libranet.lab.scenes import render_clip
from libranet.network.haze_map import HazeMap
from libranet.training.image_bank import read_density

SIZE = (324, 576)


def read(path: Path) -> np.ndarray:
    image = cv2.imread(str(path))[..., ::-1]
    scale = max(SIZE[0] / image.shape[0], SIZE[1] / image.shape[1])
    image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(image[: SIZE[0], : SIZE[1]])


def scenes(first: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    found = []
    for seed in range(first, first + count):
        for frame in render_clip(seed, frames=2, width=SIZE[1], height=SIZE[0], fps=0.5, device=torch.device("cpu")):
            image = (frame.image.clamp(0, 1) * 255).byte().permute(1, 2, 0).numpy()
            depth = frame.depth.squeeze().numpy()
            ground = depth[depth < 9_900]
            far = np.percentile(ground, 90) if ground.size else 1.0
            found.append((image, np.minimum(depth / max(far, 1e-3), 4.0)))
    return found


def optical_depth(
    image: np.ndarray, depth: np.ndarray | None, maps: torch.Tensor, rng: np.random.Generator
) -> np.ndarray:
    """Draw how much haze lies before every pixel."""
    field = maps[int(rng.integers(len(maps)))].numpy()
    field = cv2.resize(np.rot90(field, int(rng.integers(4))), SIZE[::-1], interpolation=cv2.INTER_CUBIC).clip(0, 1)
    if depth is None and rng.random() < 0.5:  # a ground that goes to a horizon, and far things above it
        rows = np.linspace(0, 1, SIZE[0])[:, None]
        horizon = rng.uniform(0.1, 0.6)
        depth = np.minimum(0.12 / np.maximum(rows - horizon, 1e-3), rng.uniform(1.0, 4.0)) * np.ones(SIZE)
        depth = depth * cv2.resize(rng.uniform(0.6, 1.4, (5, 8)), SIZE[::-1], interpolation=cv2.INTER_CUBIC)
    density = np.exp(rng.uniform(np.log(0.08), np.log(4.0)))
    if depth is None:
        return density * (rng.uniform(0, 0.5) + rng.uniform(0.3, 1.5) * field)
    return density * depth * (1 + rng.uniform(0, 0.6) * (field - 0.5))


def sample(
    image: np.ndarray, depth: np.ndarray | None, maps: torch.Tensor, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return a hazy image as a camera stores it, and its transmission."""
    t = np.exp(-optical_depth(image, depth, maps, rng)).clip(0.01, 1) if rng.random() > 0.1 else np.ones(SIZE)
    clear = (image / 255.0) ** rng.uniform(0.8, 1.4) * rng.uniform(0.6, 1.0)
    tint = np.exp(rng.normal(0, 0.05, 3) + (np.array([0.06, 0.0, -0.25]) * rng.random() if rng.random() < 0.2 else 0))
    if rng.random() < 0.2:
        clear = clear.mean(axis=2, keepdims=True) * 0.5 + clear * 0.5
    light = (rng.uniform(0.5, 1.0) * tint).clip(0, 1)
    as_tensor = lambda x: torch.from_numpy(np.ascontiguousarray(x)).float()  # noqa: E731
    hazy = (
        add_haze(
            as_tensor((clear * tint.clip(0, 1.1)).clip(0, 1)).permute(2, 0, 1)[None],
            as_tensor(t)[None, None],
            as_tensor(light)[None],
        )[0]
        .permute(1, 2, 0)
        .numpy()
    )
    hazy = hazy + rng.normal(0, rng.uniform(0, 0.012), hazy.shape)
    stored = (hazy.clip(0, 1) * 255).round().astype(np.uint8)
    quality = int(rng.integers(40, 100))
    stored = cv2.imdecode(cv2.imencode(".jpg", stored, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)
    return np.ascontiguousarray(stored), t.astype(np.float32)


def small(x: np.ndarray) -> torch.Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(x)).float()
    tensor = tensor[None, None] if tensor.ndim == 2 else tensor.permute(2, 0, 1)[None] / 255
    return F.interpolate(tensor, (108, 192), mode="area")


def make(items: list, count: int, maps: torch.Tensor, seed: int) -> tuple[torch.Tensor, ...]:
    rng = np.random.default_rng(seed)
    parts: list[list[torch.Tensor]] = [[], [], []]
    begin = time.monotonic()
    with Dehazer() as dehazer:
        for n in range(count):
            image, depth = items[int(rng.integers(len(items)))]
            if rng.random() < 0.5:
                image, depth = image[:, ::-1], depth if depth is None else depth[:, ::-1]
            hazy, t = sample(np.ascontiguousarray(image), depth, maps, rng)
            for part, value in zip(parts, (hazy, dehazer.image(hazy), t), strict=True):
                part.append(small(value))
            if n % 200 == 199:
                print(f"{n + 1} of {count} samples, {time.monotonic() - begin:.0f} s", flush=True)
    return tuple(torch.cat(part) for part in parts)


def correlation(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:  # [B]
    a, b = (x.flatten(1) - x.flatten(1).mean(dim=1, keepdim=True) for x in (a, b))
    return (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1) + 1e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    photos = options.pack / "photos"
    if options.cache and options.cache.exists():
        train, held = torch.load(options.cache, weights_only=True)
    else:
        maps = read_density(options.pack / "density_maps")
        items = [
            (read(path), None) for folder in sorted(photos.glob("train_*")) for path in sorted(folder.glob("*.jpg"))
        ]
        items += 6 * scenes(7_000, 16)
        print(len(items), "images", flush=True)
        train = make(items, options.samples, maps[20:], 1)
        held_back = [(read(path), None) for path in sorted((photos / "val_4k").glob("*.jpg"))] + scenes(9_000, 6)
        held = make(held_back, 160, maps[:20], 2)
        if options.cache:
            torch.save((train, held), options.cache)
    network = HazeMap()
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, options.steps)
    for step in range(options.steps):
        rows = torch.randint(len(train[0]), (16,))
        hazy, clear, t = (part[rows] for part in train)
        clear = hazy + torch.rand(16, 1, 1, 1).mul(1.6).clamp_max(1) * (clear - hazy)  # networks that clear less
        found = torch.sigmoid(network.logits(hazy, clear)[0])
        varies = t.flatten(1).std(dim=1) > 0.02
        loss = F.l1_loss(found, t) + 0.1 * (1 - correlation(found, t)[varies]).mean().nan_to_num()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 500 == 499 or step + 1 == options.steps:
            with torch.no_grad():
                guess = torch.cat([network(h, c) for h, c in zip(held[0].split(20), held[1].split(20), strict=True)])
            moves = held[2].flatten(1).std(dim=1) > 0.05
            r = correlation(guess, held[2])[moves]
            print(
                f"step {step + 1}: loss {loss.item():.4f}; held back: error {(guess - held[2]).abs().mean():.4f}, "
                f"r mean {r.mean():.3f}, least {r.min():.3f}, over 0.9 {(r > 0.9).float().mean():.2f}",
                flush=True,
            )
            save_file({name: value.half().contiguous() for name, value in network.state_dict().items()}, options.output)


if __name__ == "__main__":
    main()
