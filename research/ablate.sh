#!/bin/sh
# The ablation study of docs/analysis.md on one GPU, by processes side by side, as much of it as SECONDS of wall time
# allow. Run it again to go on; on another machine, with runs/ablations/study.json and runs/ablations/runs.
#
#   research/ablate.sh [STEPS of a run] [SECONDS] [PROCESSES]
#
# Needs data/base (research/train_base.sh PACK prepare) and data/ablation (research/prepare_ablation.py).
set -eu
steps=${1:-1000} seconds=${2:-540} processes=${3:-5}
out=runs/ablations
mkdir -p "$out/logs"
for part in $(seq "$processes"); do
    "${PYTHON:-python3}" -m libranet.ablation recipes/ablations -o "$out" --seeds 3 --steps "$steps" \
        --stop-after "$seconds" --cache data/ablation/weights --data pairs=data/base/dev \
        --set loss.perceptual=vgg16 --set loss.perceptual_source=data/ablation/vgg16.safetensors \
        --set loss.perceptual_taps=3 --part "$part/$processes" > "$out/logs/$part.txt" 2>&1 &
done
wait
tail -n 1 "$out"/logs/*.txt
cat "$out/ablation.md"
