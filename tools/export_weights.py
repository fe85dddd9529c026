"""From a training run's checkpoint to the file in the package: half precision, a strength baked in, provenance kept.

python tools/export_weights.py RUN/best.safetensors src/libranet/weights/libranet-base.safetensors --strength 1.06
"""

import argparse

import torch

from libranet.models import load_model, read_checkpoint_info, save_checkpoint
from libranet.models.calibrate import bake_strength


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("output")
    parser.add_argument("--strength", type=float, default=1.0)
    options = parser.parse_args()
    model = load_model(options.checkpoint)
    bake_strength(model, options.strength)
    provenance = read_checkpoint_info(options.checkpoint).provenance | {"baked_strength": options.strength}
    save_checkpoint(model, options.output, provenance=provenance, dtype=torch.float16)


if __name__ == "__main__":
    main()
