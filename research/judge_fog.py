"""What weights do to real fog and to pairs, in seconds on a GPU: the harness that chooses between training runs.

python research/judge_fog.py HAZY -o FOLDER --fade FADE.safetensors [--pairs PAIRS] NAME=WEIGHTS[:alone] ...

HAZY holds photos of real fog: only the half that chooses (real_dev, every second name from the first). PAIRS holds
hazy/ and clear/. `:alone` leaves out the plan of dense fog. Each line is a mean over the photos; *honest* is FADE of
what local gains and offsets of the input explain, so noise and painted texture lower the first number and not the
second. FOLDER gets the values of each photo and a sheet: the input, then all weights, a row for each photo.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from libranet import Dehazer
from libranet.device import pick_device
from libranet.lab.perception.fade import fade
from libranet.losses.fog_density import FogDensity, by_gain_and_offset
from libranet.metrics.blind import FrameFacts, compare_with_input
from libranet.runtime import load_network

SHOWN = ("fade", "honest", "brightness", "local_gain", "structure", "smooth_structure", "saturated", "cast")
ROWS, TILE = 24, 260  # photos on the sheet, and their width


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("hazy", type=Path)
    parser.add_argument("weights", nargs="+", metavar="NAME=WEIGHTS[:alone]")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--fade", type=Path, required=True)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    device = pick_device("auto")
    density = FogDensity(options.fade).to(device)
    names = sorted(path.name for path in options.hazy.glob("*.jpg"))
    hazy = [read(options.hazy / name) for name in names]
    pairs = sorted(path.name for path in (options.pairs / "hazy").glob("*.jpg")) if options.pairs else []
    sheet = [[frame] for frame in hazy]
    with ProcessPoolExecutor(options.processes) as pool:
        for word in options.weights:
            name, path = word.split("=")
            alone = path.endswith(":alone")
            network = load_network(path.removesuffix(":alone"), device=str(device), dense_fog=not alone)
            dehazer = Dehazer(network, device=str(device), backend="plain" if device.type == "cuda" else "auto")
            restored = [dehazer.image(frame) for frame in hazy]
            jobs = pool.map(measure, hazy, restored, [options.fade] * len(hazy))
            values = dict(zip(names, jobs, strict=True))
            for photo, before, after in zip(names, hazy, restored, strict=True):
                values[photo]["honest"] = honest_density(density, before, after, device)
            means = {key: np.nanmean([found[key] for found in values.values()]) for key in SHOWN}
            line = "  ".join(f"{key} {value:.2f}" for key, value in means.items())
            for side in ("hazy", "clear") if pairs else ():
                line += f"  {side} pairs {mean_psnr(dehazer, options.pairs, pairs, side):.2f} dB"
            print(f"{name}: {line}", flush=True)
            (options.out / f"{name}.json").write_text(json.dumps(values))
            for row, frame in zip(sheet, restored, strict=True):
                row.append(frame)
    every = max(len(sheet) // ROWS, 1)
    rows = [np.hstack([to_tile(frame) for frame in row]) for row in sheet[::every][:ROWS]]
    cv2.imwrite(str(options.out / "sheet.jpg"), np.vstack(rows)[..., ::-1])


def read(path: Path) -> np.ndarray:  # [H, W, 3] uint8 RGB
    return cv2.imread(str(path))[..., ::-1].copy()


def to_tensor(frame: np.ndarray) -> Tensor:  # [3, H, W] in [0, 1]
    return torch.from_numpy(frame).permute(2, 0, 1).float() / 255


def measure(before: np.ndarray, after: np.ndarray, parameters: Path) -> dict[str, float]:
    torch.set_num_threads(1)
    hazy, restored = to_tensor(before), to_tensor(after)
    blind = asdict(compare_with_input(FrameFacts(hazy), FrameFacts(restored)))
    return blind | {"fade": fade(restored, safetensors.torch.load_file(parameters))}


@torch.no_grad()
def honest_density(density: FogDensity, before: np.ndarray, after: np.ndarray, device: torch.device) -> float:
    hazy, restored = (to_tensor(frame)[None].to(device) for frame in (before, after))
    return float(density(by_gain_and_offset(restored, hazy)))


def mean_psnr(dehazer: Dehazer, folder: Path, names: list[str], side: str) -> float:
    """Restore one side of the pairs; clear images should come back as they are."""
    found = []
    for name in names:
        clear = read(folder / "clear" / name)
        error = dehazer.image(read(folder / side / name)).astype(float) - clear
        found.append(-10 * np.log10(max(np.square(error).mean() / 255**2, 1e-9)))
    return float(np.mean(found))


def to_tile(frame: np.ndarray) -> np.ndarray:
    return cv2.resize(frame, (TILE, round(TILE * frame.shape[0] / frame.shape[1])), interpolation=cv2.INTER_AREA)


if __name__ == "__main__":
    main()
