"""Would FP8 convolutions in the refiner be good and fast enough? An experiment, no part of the product.

    PYTHONPATH=src python3 benchmarks/fp8_refiner.py --pairs /path/to/pairs --count 12

Accuracy, on any device: inputs and weights of the refiner's convolutions are rounded to e4m3 (weights with a scale per
output channel, inputs with one per tensor) and the restored images are compared with those of the network as it is, and
with the ground truth. The rule: within 0.05 dB and 1/255 on average, otherwise not.
Speed, on a GPU from compute capability 8.9 on: the matrix product that a 64 to 64 convolution of a 4K frame is, by
cuBLAS in half precision and in FP8. A convolution cannot gain more than that.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import cv2
import torch
from torch import Tensor, nn

from libranet.network import LiBrANet
from libranet.runtime import load_network
from machine import describe_machine

PEAK = 448.0
"""The largest number of e4m3."""
ROWS, INNER, OUTER = 960 * 540, 9 * 64, 64
"""The product of one convolution at 3840x2160: pixels of a quarter of the size, taps times channels, channels."""


def rounded(x: Tensor, scale: Tensor) -> Tensor:
    """Values after a trip through e4m3."""
    return ((x.float() / scale).clamp(-PEAK, PEAK).to(torch.float8_e4m3fn).float() * scale).to(x.dtype)


def round_refiner(network: LiBrANet, *, inputs: bool) -> list[str]:
    """Round weights, and inputs where asked, of the convolutions that a kernel would compute in FP8."""
    changed = []
    assert network.refiner is not None
    for name, layer in network.refiner.named_modules():
        if not isinstance(layer, nn.Conv2d) or layer.kernel_size != (3, 3) or layer.in_channels < 16:
            continue
        largest = layer.weight.data.float().abs().amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)
        layer.weight.data = rounded(layer.weight.data, largest / PEAK)
        if inputs:
            layer.register_forward_pre_hook(
                lambda _, arguments: (rounded(arguments[0], arguments[0].float().abs().amax().clamp_min(1e-12) / PEAK),)
            )
        changed.append(name)
    return changed


def psnr(a: Tensor, b: Tensor) -> float:
    return float(-10 * torch.log10((a - b).square().mean().clamp_min(1e-12)))


def read(path: Path, device: torch.device, width: int) -> Tensor:  # [1, 3, H, W] in [0, 1]
    image = cv2.imread(str(path))[..., ::-1]
    if image.shape[1] > width:
        image = cv2.resize(image, (width, image.shape[0] * width // image.shape[1]), interpolation=cv2.INTER_AREA)
    return torch.from_numpy(image.copy()).permute(2, 0, 1)[None].to(device).float() / 255


@torch.no_grad()
def accuracy(pairs: Path, count: int, width: int) -> None:
    """Print how far FP8 moves the result."""
    hazy = sorted((pairs / "hazy").iterdir())[:: max(1, len(list((pairs / "hazy").iterdir())) // count)][:count]
    clear = [next((pairs / "clear").glob(f"{path.stem}.*"), None) for path in hazy]
    networks: dict[str, LiBrANet] = {}
    for name in ("as it is", "weights", "weights and inputs"):
        network = load_network()
        assert isinstance(network, LiBrANet)
        if name != "as it is":
            changed = round_refiner(network, inputs=name != "weights")
            print(f"FP8 {name}: {len(changed)} convolutions: {', '.join(changed)}")
        networks[name] = network
    sums: dict[str, list[float]] = {name: [] for name in networks}
    moved: dict[str, list[tuple[float, float]]] = {name: [] for name in networks}
    for path, truth in zip(hazy, clear, strict=True):
        image = read(path, networks["as it is"].device, width)
        results = {name: network(image[:, None], still=True).float() for name, network in networks.items()}
        for name, result in results.items():
            difference = (result - results["as it is"]).abs() * 255
            moved[name].append((float(difference.mean()), float(difference.max())))
            if truth is not None:
                sums[name].append(psnr(result, read(truth, image.device, width)))
    for name in networks:
        mean, most = (sum(x) / len(x) for x in zip(*moved[name], strict=True))
        dB = sum(sums[name]) / len(sums[name]) if sums[name] else float("nan")
        print(f"{name:<20} {dB:8.3f} dB   moved by {mean:.4f}/255 on average, {most:.2f} at most (mean of {len(hazy)})")


def speed() -> None:
    """Print the time of one convolution's matrix product."""
    a, b = (torch.randn(shape, device="cuda") for shape in ((ROWS, INNER), (OUTER, INNER)))
    half, small = (a.half(), b.half().t()), (a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t())
    one = torch.ones((), device="cuda")
    work: dict[str, Any] = {
        "fp16": lambda: torch.mm(*half),
        "fp8": lambda: torch._scaled_mm(*small, scale_a=one, scale_b=one, out_dtype=torch.float16, use_fast_accum=True),
    }
    for name, call in work.items():
        for run in range(55):
            if run == 5:
                torch.cuda.synchronize()
                begin = time.perf_counter()
            call()
        torch.cuda.synchronize()
        print(f"matrix product of a convolution, {name}: {(time.perf_counter() - begin) * 1e3 / 50:.4f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="a folder with hazy/ and clear/; without it, only the speed")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--width", type=int, default=640, help="images are reduced to it")
    options = parser.parse_args()
    print(describe_machine())
    if options.pairs is not None:
        accuracy(options.pairs, options.count, options.width)
    if torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9):
        speed()
    else:
        print("no GPU with FP8 here: the speed was not measured")


if __name__ == "__main__":
    main()
