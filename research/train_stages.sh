#!/bin/sh
# Trains the stages of one network, each from the weights of the one before it.
#
#   research/train_stages.sh NAME RUNS SEED "STAGE ..." [SETTING ...]
#
# Stage S is recipes/NAME-S.toml in the folder RUNS/S. Whatever is done is kept, and a stage that was stopped goes on where it
# was, so the command can be repeated. Settings are `key=value`, as `libranet train --set` takes them.
set -eu
name=$1 runs=$2 seed=$3 stages=$4
shift 4
python=${PYTHON:-python3}
settings=
for setting in "$@"; do settings="$settings --set $setting"; done
before= number=0
for stage in $stages; do
    folder=$runs/$stage
    if [ ! -f "$folder/done" ]; then
        resume=
        [ -f "$folder/state.safetensors" ] && resume=--resume
        # shellcheck disable=SC2086  # empty words must not become arguments
        "$python" -m libranet.training.start "recipes/$name-$stage.toml" -o "$folder" $resume $settings \
            --set "seed=$((seed + number))" --set "init_from=$before"
        touch "$folder/done"
    fi
    before=$folder/model.safetensors number=$((number + 1))
done
