#!/bin/sh
# libranet-small from the data of the base network, which teaches it: two stages, one checkpoint, four minutes on one H200.
#
#   research/train_small.sh [SEED [SETTING ...]]
#
# Needs data/base (research/train_base.sh PACK prepare). On a CPU add precision=fp32 batch=16 and patience.
set -eu
seed=${1:-500}
[ $# -gt 0 ] && shift
python=${PYTHON:-python3}
runs=runs/libranet-small-$seed
research/train_stages.sh libranet-small "$runs" "$seed" "1-stills 2-finish" "$@"
"$python" research/export_weights.py "$runs/2-finish/model.safetensors" --name libranet-small --version 1.0 \
    -o src/libranet/weights/libranet-small.safetensors
"$python" -m libranet info --model small
