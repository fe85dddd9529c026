#!/bin/sh
# Fetches the photos of `libranet synth --preset uhv4k-open` (1.2 GB to download) and makes their depth maps:
#   research/open_sources.sh data/uhv4k-open
set -e
folder=${1:-data/uhv4k-open}
here=$(dirname "$0")
names=$(grep -o 'uhd/[a-z_]*more/[a-z0-9_]*' "$here/../src/libranet/synth/uhv4k-open.csv" | cut -d/ -f2-)
python "$here/fetch_photos.py" -o "$folder/small" $names
python "$here/photo_depth.py" --photos "$folder/small" --out "$folder/depth" $names
python "$here/fetch_photos.py" --whole -o "$folder/uhd" $names
