#!/bin/sh
# The ablation study of docs/analysis.md on one GPU, as much of it as SECONDS of wall time allow. Run it again to go on.
#
#   research/ablate.sh [BUDGET of a run in seconds] [SECONDS]
#
# Needs data/base (research/train_base.sh PACK prepare) and data/ablation (research/prepare_ablation.py).
set -eu
budget=${1:-9} seconds=${2:-570}
"${PYTHON:-python3}" -m libranet.ablation recipes/ablations -o runs/ablations --seeds 3 --seconds "$budget" \
    --stop-after "$seconds" --cache data/ablation/weights --data pairs=data/base/dev \
    --set loss.perceptual=vgg16 --set loss.perceptual_source=data/ablation/vgg16.safetensors \
    --set loss.perceptual_taps=3
