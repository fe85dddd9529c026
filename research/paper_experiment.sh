#!/bin/sh
# The paper's experiment on one GPU: the main table or the ablations, as much as SECONDS allow. Run it again to go on.
#
#   research/paper_experiment.sh main      [SECONDS] [PROCESSES] [SAMPLES of a network] [FRAMES of a clip]
#   research/paper_experiment.sh ablations [SECONDS] [PROCESSES] [STEPS of a run]       [FRAMES of a clip]
#
# Needs data/paper, or the parts data/paper/part-* that research/pack_open_set.py cuts it into. Results of earlier machines
# are taken from benchmarks/results/paper-main and paper-ablations. What has to come home goes into the folder $OUT, which
# the machine gives: results-*.tgz, to be unpacked there, and state-?? with what the next machine needs to go on exactly,
# as data/paper/state-??: weights that were not measured yet, and states of unfinished trainings.
set -eu
what=$1 seconds=${2:-540} processes=${3:-4} length=${4:-} frames=${5:-}
python=${PYTHON:-python3} runs=runs/paper home=${OUT:-runs/paper/home}
set --
export PYTHONPATH="$PWD/src:$PWD/benchmarks" PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
mkdir -p "$runs/logs" "$home"
home=$(cd "$home" && pwd)

[ -d data/paper/train ] || cat data/paper/part-* | tar x -C data/paper
[ ! -f data/paper/state-aa ] || [ -d "$runs/trained" ] || cat data/paper/state-* | tar x -C "$runs"

compare() {  # further options
    "$python" benchmarks/comparison.py "$runs" --cache data/paper/weights --samples "$samples" --frames "$clip" "$@"
}

# Photos in motion are drawn on the CPU, a process each, while networks train on the GPU.
make_clips() {
    for part in $(seq "$1"); do
        OMP_NUM_THREADS=1 compare --only clips > "$runs/logs/clips-$part.txt" 2>&1 &
    done
}

case $what in
main)
    samples=${length:-20000} clip=${frames:-5}
    [ -d "$runs/runs" ] || [ ! -d benchmarks/results/paper-main ] || cp -r benchmarks/results/paper-main "$runs/runs"
    make_clips 10
    for part in $(seq "$processes"); do
        OMP_NUM_THREADS=2 compare --part "$part/$processes" --stop-after "$seconds" > "$runs/logs/main-$part.txt" 2>&1 &
    done
    wait
    grep -h " s  \|rror" "$runs"/logs/main-*.txt | sort -n
    compare --only table
    tar czf "$home/results-main.tgz" -C "$runs" runs results.json table.md logs
    ;;
ablations)
    samples=20000 clip=${frames:-2}
    [ -d "$runs/ablations/runs" ] || [ ! -d benchmarks/results/paper-ablations ] ||
        { mkdir -p "$runs/ablations" && cp -r benchmarks/results/paper-ablations/* "$runs/ablations"; }
    make_clips 10
    wait  # every process measures on all of them
    for part in $(seq "$processes"); do
        OMP_NUM_THREADS=2 "$python" -m libranet ablate recipes/ablations -o "$runs/ablations" --seeds 3 \
            --steps "${length:-4000}" --stop-after "$seconds" --cache data/paper/weights --clips 0 --frames "$clip" \
            --data "uhv4k-open=$runs/clips" --part "$part/$processes" > "$runs/logs/ablations-$part.txt" 2>&1 &
    done
    wait
    tail -n 3 "$runs"/logs/ablations-*.txt
    cat "$runs/ablations/ablation.md"
    tar czf "$home/results-ablations.tgz" -C "$runs/ablations" --exclude=weights --exclude=measured .
    ;;
esac

# Ours for the figures, once it is trained: `cat ours-* > libranet-0.safetensors`.
ours=trained/libranet-0
[ ! -f "$runs/$ours/model.safetensors" ] || [ -f "$runs/$ours/state.safetensors" ] ||
    split -b 15M "$runs/$ours/model.safetensors" "$home/ours-"

# Few MiB come back: weights and states of rows that are not done, from the smallest on, up to 36 MiB.
cd "$runs"
total=0 kept=
for file in $(ls -Sr trained/*/*.safetensors 2>/dev/null); do
    row=$(basename "$(dirname "$file")")
    ! grep -q '"psnr":' "runs/$row.json" 2>/dev/null || continue
    # A state has the weights, too.
    [ "${file##*/}" = state.safetensors ] || [ ! -f "${file%/*}/state.safetensors" ] || continue
    total=$((total + $(stat -c %s "$file")))
    [ "$total" -gt 37748736 ] || kept="$kept $file"
done
# shellcheck disable=SC2086  # names without spaces
[ -z "$kept" ] || tar c $kept | split -b 15M - "$home/state-"
ls -la "$home"
