#!/bin/sh
# The ablation study of docs/analysis.md on one GPU, by processes side by side, as much of it as SECONDS of wall time
# allow. Run it again to go on; on another machine, with runs/ablations/study.json and runs/ablations/runs. Ten processes do
# one variant each.
#
#   research/ablate.sh [STEPS of a run] [SECONDS] [PROCESSES] [further options of libranet ablate]
#
# Needs nothing but data/ablation (research/prepare_ablation.py, after research/train_base.sh PACK prepare).
set -eu
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"  # not all cores for every process
steps=${1:-600} seconds=${2:-450} processes=${3:-10}
[ $# -gt 3 ] && shift 3 || set --
out=runs/ablations
mkdir -p "$out/logs"
for part in $(seq "$processes"); do
    "${PYTHON:-python3}" -m libranet ablate recipes/ablations -o "$out" --seeds 3 --steps "$steps" \
        --stop-after "$seconds" --cache data/ablation/weights --data pairs=data/ablation/dev \
        --set loss.perceptual=vgg16 --set loss.perceptual_source=data/ablation/vgg16.safetensors \
        --set loss.perceptual_taps=3 --set loss.perceptual_crop=128 --part "$part/$processes" "$@" \
        > "$out/logs/$part.txt" 2>&1 &
done
wait
tail -n 1 "$out"/logs/*.txt
cat "$out/ablation.md"
