"""Average the checkpoints of training runs into one file in half precision, as the package ships it.

python research/export_weights.py RUN/best.safetensors [RUN2/best.safetensors ...] \\
    -o src/libranet/weights/libranet-base.safetensors --version 1.1 [--share 1.5 --share=-0.5] [--strength 1.06]

A share per checkpoint makes the mean a weighted one; a negative share leads away from its checkpoint.
"""

import argparse

import torch
from alive import why_dead

from libranet.network import LiBrANet, LiBrANetConfig, load_model, read_checkpoint_info, save_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoints", nargs="+", help="of one network, the later ones continued from the first")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--share", type=float, action="append", help="once per checkpoint, 1 in all; equal by default")
    parser.add_argument("--strength", type=float, default=1.0)
    parser.add_argument("--name", default="libranet-base", help="what reports call the weights")
    parser.add_argument("--version", required=True, help="a new one for every file, see docs/model-card.md")
    options = parser.parse_args()
    count = len(options.checkpoints)
    shares = options.share or [1 / count] * count
    if len(shares) != count or abs(sum(shares) - 1) > 1e-6:
        parser.error(f"expected {count} shares, one per checkpoint, that sum to 1, got {shares}")
    models = [load_model(path) for path in options.checkpoints]
    states = [model.state_dict() for model in models]
    mean = {
        name: sum(share * state[name].float() for share, state in zip(shares, states, strict=True))
        for name in states[0]
    }
    # What only training uses is not the network's: whoever trains on starts from the defaults.
    usual = {name: LiBrANetConfig().stored()[name] for name in ("drop_path", "dropout")}
    network = LiBrANet(LiBrANetConfig.from_stored(models[0].config.stored() | usual)).eval()
    network.load_state_dict(mean)
    bake_strength(network, options.strength)
    if reason := why_dead(network):
        parser.error(f"{reason}: train it again, with live units in its log; nothing was written")
    provenance = {
        "mean_of": [read_checkpoint_info(path).provenance for path in options.checkpoints],
        "shares": shares,
        "baked_strength": options.strength,
    }
    save_checkpoint(
        network,
        options.output,
        provenance=provenance,
        dtype=torch.float16,
        name=options.name,
        version=options.version,
    )


@torch.no_grad()
def bake_strength(model: LiBrANet, strength: float) -> None:
    """Change the weights so that the network at strength 1 does what it did at `strength`.

    Strength multiplies what the last layers of the grid heads and of the refiner give, so it can go into their weights.
    """
    for part in (model.chromatic, model.temporal):
        if part is not None:
            part.head.project.weight.mul_(strength)
            part.head.project.bias.mul_(strength)  # type: ignore[union-attr]
    if model.refiner is not None:
        model.refiner.project.weight.mul_(strength)
        model.refiner.project.bias.mul_(strength)  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
