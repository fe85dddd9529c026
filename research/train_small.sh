#!/bin/sh
# libranet-small from the data of the base network: three stages, one checkpoint.
#
#   research/train_small.sh [SEED [SETTING ...]]
#
# Needs data/base (research/train_base.sh PACK prepare). The recipes are made for one core of a CPU and an hour. On a GPU give
# more, for example: research/train_small.sh 300 batch=128 precision=bf16 teacher=base
set -eu
seed=${1:-300}
[ $# -gt 0 ] && shift
python=${PYTHON:-python3}
runs=runs/libranet-small-$seed
research/train_stages.sh libranet-small "$runs" "$seed" "1-stills 2-motion 3-finish" "$@"
"$python" research/export_weights.py "$runs/3-finish/model.safetensors" --name libranet-small --version 0.1 \
    -o src/libranet/weights/libranet-small.safetensors
"$python" -m libranet info --model small
