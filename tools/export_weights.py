"""From training runs' checkpoints to the file in the package: their mean, half precision, provenance kept.

python tools/export_weights.py RUN/best.safetensors [RUN2/best.safetensors ...] \\
    -o src/libranet/weights/libranet-base.safetensors [--strength 1.06]
"""

import argparse
from dataclasses import replace

import torch

from libranet.models import LiBrANet, LiBrANetConfig, load_model, read_checkpoint_info, save_checkpoint
from libranet.models.calibrate import bake_strength


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoints", nargs="+", help="of one network, the later ones continued from the first")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--strength", type=float, default=1.0)
    options = parser.parse_args()
    models = [load_model(path) for path in options.checkpoints]
    states = [model.state_dict() for model in models]
    mean = {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}
    # What only training uses is not the network's: whoever trains on starts from the defaults.
    usual = LiBrANetConfig()
    network = LiBrANet(replace(models[0].config, drop_path=usual.drop_path, dropout=usual.dropout)).eval()
    network.load_state_dict(mean)
    bake_strength(network, options.strength)
    provenance = {
        "mean_of": [read_checkpoint_info(path).provenance for path in options.checkpoints],
        "baked_strength": options.strength,
    }
    save_checkpoint(network, options.output, provenance=provenance, dtype=torch.float16)


if __name__ == "__main__":
    main()
