"""Train a tiny network for a few steps on rendered scenes with haze made on the fly, then use its checkpoint."""

from pathlib import Path

import torch

from libranet import load_model
from libranet.training.start import train

recipe = Path(__file__).parents[1] / "recipes" / "smoke.toml"
quick = ["steps=6", "batch=2", "crops=[[48, 64]]", "photos.scenes=1", "photos.scene_views=1", "photos.lines=72"]
outcome = train(recipe, "run", overrides=[*quick, "every.log=2"], device="cpu")
print(f"{outcome.progress.step} steps in {outcome.seconds:.0f} s -> run/model.safetensors")

network = load_model("run/model.safetensors")  # a checkpoint for every command: libranet dehaze --model ...
with torch.no_grad():
    restored = network(torch.rand(1, 5, 3, 64, 96))  # [B, T, 3, H, W] -> [B, 3, H, W]
print(f"{sum(p.numel() for p in network.parameters()):,} parameters, output {tuple(restored.shape)}")
