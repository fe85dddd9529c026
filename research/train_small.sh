#!/bin/sh
# libranet-small from the weights and the data of the base network, on one GPU: one recipe, one checkpoint.
#
#   research/train_small.sh [STEPS] [SEED]
#
# Needs data/base (research/train_base.sh PACK prepare). A run that was stopped goes on where it was.
set -eu
steps=${1:-16000} seed=${2:-300}
python=${PYTHON:-python3}
folder=runs/libranet-small-$seed
resume=
[ -f "$folder/state.safetensors" ] && resume=--resume
# shellcheck disable=SC2086  # an empty word must not become an argument
"$python" -m libranet.training.start recipes/libranet-small.toml -o "$folder" $resume \
    --set "seed=$seed" --set "steps=$steps"
"$python" research/export_weights.py "$folder/model.safetensors" -o src/libranet/weights/libranet-small.safetensors \
    --name libranet-small --version 1.0
"$python" -m libranet info --model small
