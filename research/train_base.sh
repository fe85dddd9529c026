#!/bin/sh
# From data to weights: fetches and prepares the data, trains three stages, writes one checkpoint with its provenance.
#
#   research/train_base.sh PACK [prepare|train|all] [SEED]
#
# PACK holds photos/train_*, density_maps, fade and pairs_dev (../shared/data). `prepare` needs no GPU and takes about a quarter of
# an hour on two cores; `train` needs one H200 for 13 minutes and nothing but data/base. Whatever is there already is kept, and a
# stage that was stopped goes on where it was, so the command can be repeated.
set -eu
pack=$1 what=${2:-all} seed=${3:-400}
python=${PYTHON:-python3}
work=data/work runs=runs/libranet-base-$seed

case $what in prepare | all)
    "$python" research/fetch_photos.py -o "$work/photos"
    ln -sfn "$(realpath "$pack/photos")" "$work/pack"
    mkdir -p "$work/all"
    for folder in "$work"/pack/*/ "$work"/photos/*/; do ln -sfn "$(realpath "$folder")" "$work/all/$(basename "$folder")"; done
    [ -d "$work/maps/maps" ] || "$python" research/photo_depth.py --photos "$work/all" --out "$work/maps"
    "$python" research/render_images.py rooms -o "$work/rooms" --depth "$work/maps/maps" --seed 5000 --count 110
    "$python" -m libranet weights pull lpips-vgg16 --cache "$work/vgg"
    "$python" -m libranet weights pull fade --from "$pack/fade" --cache "$work/fade"
    mkdir -p data/base && cp "$work/fade/fade.safetensors" data/base/
    "$python" research/prepare_base.py --photos "$work/all" --vgg "$work/vgg/lpips-vgg16.safetensors" --rooms "$work/rooms" --depth "$work/maps/maps" \
        --density "$pack/density_maps" --pairs "$pack/pairs_dev" -o data/base
    ;;
esac

case $what in train | all)
    research/train_stages.sh libranet-base "$runs" "$seed" "1-small 2-motion 3-finish"
    "$python" research/export_weights.py "$runs/3-finish/model.safetensors" -o "$runs/libranet-base.safetensors" --version "$seed"
    ;;
esac
