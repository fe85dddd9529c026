"""Fine-tune the network of the package on your own pairs: hazy/ beside clear/, with equal names."""

from pathlib import Path

import cv2
import numpy as np

from libranet.training.dry_run import plan_training
from libranet.training.start import train

# Two short clips, so that the example needs no data.
for number in (1, 2):
    scene = cv2.resize(np.random.default_rng(number).integers(0, 255, (12, 24, 3), np.uint8), (320, 96))
    for index in range(5):
        clear = scene[:, 4 * index : 4 * index + 96]
        for side, image in (("clear", clear), ("hazy", clear // 2 + 110)):
            path = Path(side, f"clip{number}", f"{index}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(path), image)

recipe = Path(__file__).parents[1] / "recipes" / "own-pairs.toml"
quick = ["steps=2", "batch=1", "crops=[[64, 64]]", "precision=fp32", "paired.workers=0"]
print("\n".join(plan_training(recipe, "mine", overrides=quick, device="cpu").lines()))
outcome = train(recipe, "mine", overrides=quick, device="cpu")
print(f"{outcome.progress.step} steps -> mine/model.safetensors, the best one mine/best.safetensors")
