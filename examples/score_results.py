"""Score what another method made: its frames in results/CLIP, beside our network in the same table."""

from pathlib import Path

import cv2
import numpy as np

from libranet.evaluation.clips import open_dataset
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restored_files import parse_restored
from libranet.evaluation.restorers import open_restorers
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import prepare_scores

# A set and somebody's results, so that the example needs no data.
scene = cv2.resize(np.random.default_rng(0).integers(0, 255, (24, 40, 3), np.uint8), (320, 96))
for index in range(4):
    clear = scene[:, 4 * index : 4 * index + 128]
    for folder, image in (("set/clear", clear), ("set/hazy", clear // 2 + 110), ("results", clear // 4 * 3 + 55)):
        Path(folder, "clip").mkdir(parents=True, exist_ok=True)
        cv2.imwrite(f"{folder}/clip/{index}.png", image)

clips = open_dataset("set")
theirs = parse_restored("theirs=results", clips=len(clips))
print(theirs.check(clips).sentence())
models = open_restorers(["identity", "libranet"], restored=[theirs])
scores = prepare_scores(choose_metrics("psnr,ssim"), paired=True)
for result in evaluate(clips, models, scores, ResultStore(Path("report")), subject="theirs"):
    print(f"{result.clip}, {result.model}: {np.mean([frame['psnr'] for frame in result.frames]):.2f} dB")
