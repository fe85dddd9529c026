#!/bin/sh
# The comparison of docs/comparison.md on one GPU, by processes side by side, as much of it as SECONDS of wall time allow.
# Run it again to go on; on another machine, with runs/comparison/runs.
#
#   research/compare.sh [SAMPLES of a network] [SECONDS] [PROCESSES] [FRAMES of a clip]
#
# Needs data/base (research/train_base.sh PACK prepare), data/ablation/weights (research/prepare_ablation.py), data/pairs
# with hazy and clear images, and runs/bench-4k/bench.json for the columns of speed, where it is there.
set -eu
samples=${1:-2400} seconds=${2:-450} processes=${3:-6} frames=${4:-4}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"  # processes share the cores
out=runs/comparison bench=runs/bench-4k/bench.json
mkdir -p "$out/logs"
[ -f "$bench" ] && bench="--bench $bench" || bench=
for part in $(seq "$processes"); do
    # shellcheck disable=SC2086  # an empty word must not become an argument
    "${PYTHON:-python3}" benchmarks/comparison.py "$out" --samples "$samples" --seconds 400 --stop-after "$seconds" \
        --photos data/base/train_4k data/base/train_2k data/base/train_urban data/base/rooms --depth data/base/depth \
        --scenes 0 --pairs data/pairs --cache data/ablation/weights --frames "$frames" --trial-steps 3 $bench \
        --part "$part/$processes" > "$out/logs/$part.txt" 2>&1 &
done
wait
tail -n 1 "$out"/logs/*.txt
cat "$out/table.md"
