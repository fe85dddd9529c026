"""How good the shipped weights are at 3840x2160, on photos that training never saw.

    PYTHONPATH=src python3 benchmarks/weights.py --photos FOLDER [FOLDER ...] --depth FOLDER|prior --sky FOLDER
        [--model CHECKPOINT] [--frames 6] [--steady 1] [--limit N] [--rotate [--shift 3]] [--out FOLDER]

Every photo becomes a short clip by a camera move over its depth map, or over the layout that `libranet synth` draws by
default (prior), is hazed by each of the nine regimes, and restored at full size as a stream, as `libranet dehaze`
restores it on this machine: the same backend and precision, and the filter over time. Prints, per regime: PSNR of the
hazy input, of dark-channel dehazing and of the network, its gain over both, flicker of its output over that of the
clear clip (mean difference along the exact flow), and the mean shift of the sky's colour; with several folders of
photos, the means of each too. Photos and maps pair up by name: PHOTO.jpg and `<folder of photos>__PHOTO.png`.
"""

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.flow import warp_tensor
from libranet.haze.scattering import REGIMES, Regime, add_haze, transmission
from libranet.lab.peers.dcp import dark_channel_dehaze
from libranet.metrics import psnr, warp_error
from libranet.network import GridFilter, LiBrANet
from libranet.runtime import load_network, make_backend, rgb_frames, rgb_of
from libranet.runtime.choose import choose_on_cpu
from libranet.synth.photo_motion import CameraMove, photo_clip
from machine import describe_machine
from stills import prior_depth, sky_shift

SIZE = (3840, 2160)
SPAN = 25
"""Frames over which a move is spread, as in UHV-4K; only the first few are rendered."""
PRIOR = Path("prior")
PRIOR_SIZE = (960, 540)
"""Size at which a layout is drawn."""


def make_clip(photo: Path, number: int, depth_folder: Path, sky_folder: Path, frames: int) -> dict[str, np.ndarray]:
    """Clear frames, depth, exact flow and the sky of the first frame, as compact arrays."""
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    image = cv2.cvtColor(cv2.imread(str(photo)), cv2.COLOR_BGR2RGB)
    name = f"{photo.parent.name}__{photo.stem}.png"
    full = (image.shape[1], image.shape[0])
    if depth_folder == PRIOR:
        small = cv2.resize(image, PRIOR_SIZE, interpolation=cv2.INTER_AREA)
        coarse = prior_depth(small.astype(np.float32) / 255, number)
    else:
        coarse = cv2.imread(str(depth_folder / name), 0).astype(np.float32) / 255
    depth = cv2.resize(coarse, full, interpolation=cv2.INTER_CUBIC).clip(0, 1)
    sky = cv2.resize(cv2.imread(str(sky_folder / name), 0), SIZE, interpolation=cv2.INTER_NEAREST)
    move = CameraMove.draw(sum(photo.stem.encode()))
    clip = photo_clip(image, depth, move, frames=SPAN, size=SIZE)
    moved = [frame for frame, _ in zip(clip, range(frames), strict=False)]
    # Well inside the sky, so that a moved skyline does not count as sky.
    inner = cv2.erode(sky, np.ones((61, 61), np.uint8), borderValue=255)
    return {
        "name": np.array(photo.stem),
        "clear": np.stack([frame.image for frame in moved]),
        "depth": np.stack([frame.depth for frame in moved]).astype(np.float16),
        "flow": np.stack([frame.flow for frame in moved[:-1]]).astype(np.float32),
        "sky": inner > 127,
    }


def restore(model: LiBrANet, hazy: Tensor, grid_filter: GridFilter) -> Tensor:  # [N, 3, H, W] -> the same
    backend = make_backend(model, grid_filter=grid_filter)
    ready = [rgb_of(restored) for frame in hazy for restored in backend.push(rgb_frames(frame[None]))]
    return torch.stack(ready + [rgb_of(restored) for restored in backend.flush()])


def flicker(frames: Tensor, flow: Tensor) -> float:
    """Mean difference of consecutive frames along the flow: frame t+1, looked up from frame t."""
    steps = zip(frames[:-1], frames[1:], flow, strict=True)
    return float(np.mean([warp_error(here, *warp_tensor(after, f)) for here, after, f in steps]))


def measure(model: LiBrANet, clip: dict[str, Tensor], regime: Regime, grid_filter: GridFilter) -> dict[str, float]:
    """Metrics of one clip in one regime: fidelity at the middle frame, flicker over all."""
    clear, sky, middle = clip["clear"], clip["sky"], len(clip["clear"]) // 2
    airlight = torch.tensor(regime.airlight, device=clear.device)
    hazy = add_haze(clear, transmission(clip["depth"], regime.beta), airlight)
    hazy = (hazy * 255).round() / 255
    restored = (restore(model, hazy, grid_filter) * 255).round() / 255
    dark = dark_channel_dehaze(hazy[middle])
    row = {
        "hazy": psnr(hazy[middle], clear[middle]),
        "dark_channel": psnr(dark, clear[middle]),
        "restored": psnr(restored[middle], clear[middle]),
        "flicker": flicker(restored, clip["flow"]),
    }
    if (shift := sky_shift(restored[middle], clear[middle], sky)) is not None:
        row["sky_shift"] = shift
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path, nargs="+", required=True)
    for name in ("depth", "sky"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="a checkpoint; the package's by default")
    parser.add_argument("--frames", type=int, default=6)
    parser.add_argument("--steady", type=float, default=1.0, help="seconds of the filter over time; 0 is no filter")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--rotate", action="store_true", help="one regime per photo, in turn, instead of all nine")
    parser.add_argument("--shift", type=int, default=0, help="with --rotate: the number of the first photo's regime")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    model = load_network(options.model and str(options.model))
    assert isinstance(model, LiBrANet)
    device, grid_filter = model.device, GridFilter(options.steady)
    if device.type == "cpu":
        print(f"restored by {choose_on_cpu(model)}", flush=True)
    photos = [photo for folder in options.photos for photo in sorted(folder.glob("*.jpg"))][: options.limit or None]
    rows: list[dict[str, object]] = []
    workers = min(len(photos), 10 if device.type == "cuda" else 1)
    # Forked children would inherit torch's thread pool without its threads and wait for them for ever.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(make_clip, photo, number, options.depth, options.sky, options.frames)
            for number, photo in enumerate(photos)
        ]
        for index, job in enumerate(jobs):
            arrays = job.result()
            clip = {
                "clear": torch.from_numpy(arrays["clear"]).permute(0, 3, 1, 2).to(device).float() / 255,
                "depth": torch.from_numpy(arrays["depth"]).float().to(device).clamp(0, 1)[:, None],
                "flow": torch.from_numpy(arrays["flow"]).to(device),
                "sky": torch.from_numpy(arrays["sky"]).to(device),
            }
            place = {
                "folder": photos[index].parent.name,
                "photo": str(arrays["name"]),
                "flicker_clear": flicker(clip["clear"], clip["flow"]),
            }
            chosen = (REGIMES[(index + options.shift) % len(REGIMES)],) if options.rotate else REGIMES
            rows += [place | {"regime": regime.name} | measure(model, clip, regime, grid_filter) for regime in chosen]
            print(f"{arrays['name']}: done", flush=True)
    report(rows)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "weights.json").write_text(json.dumps(describe_machine() | {"rows": rows}, indent=1))


def report(rows: list[dict[str, object]]) -> None:
    """Means per regime and over all."""
    print(
        f"{'regime':<14} {'hazy':>6} {'dcp':>6} {'ours':>6} {'gain':>6} {'over dcp':>8} {'flicker':>8} {'sky shift':>9}"
    )
    folders = dict.fromkeys(str(row["folder"]) for row in rows)
    names = [*dict.fromkeys(str(row["regime"]) for row in rows), *(folders if len(folders) > 1 else []), "all"]
    for name in names:
        part = [row for row in rows if name in ("all", row["regime"], row["folder"])]

        def mean(key: str, part: list[dict[str, object]] = part) -> float:
            return float(np.mean([row[key] for row in part if key in row]))

        hazy, dark, ours = mean("hazy"), mean("dark_channel"), mean("restored")
        ratio = mean("flicker") / mean("flicker_clear")
        print(
            f"{name:<14} {hazy:6.2f} {dark:6.2f} {ours:6.2f} {ours - hazy:6.2f} {ours - dark:8.2f} "
            f"{ratio:8.3f} {mean('sky_shift'):9.4f}"
        )


if __name__ == "__main__":
    main()
