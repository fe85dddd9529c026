"""Tar shards: the same windows as from single files, readable by any tar, and refused where they are damaged."""

import tarfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from libranet.cli.main import build_app
from libranet.data import Box, ClipWindows, WindowConfig, open_pairs, pack_pairs, packed_pairs
from libranet.data.frames import write_png
from libranet.errors import InputError


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Three clips: PNG in bands, JPEG, and ordinary PNG."""
    rng = np.random.default_rng(0)
    for clip in range(3):
        for side in ("hazy", "gt"):
            folder = tmp_path / "set" / side / f"clip.{clip}"
            folder.mkdir(parents=True)
            for frame in range(4):
                image = cv2.resize(rng.integers(0, 255, (9, 12, 3), np.uint8), (120, 90))
                if clip == 0:
                    write_png(folder / f"{frame:03d}.png", image)
                else:
                    cv2.imwrite(str(folder / f"{frame:03d}.{'jpg' if clip == 1 else 'png'}"), image)
    return tmp_path / "set"


def test_windows_from_shards_are_those_from_files(pairs, tmp_path):
    clips = open_pairs(pairs)
    assert pack_pairs(clips, tmp_path / "packed", shard_bytes=60_000) > 1
    packed = packed_pairs(tmp_path / "packed")
    assert [(clip.name, len(clip), clip.hazy.size) for clip in packed] == [
        (clip.name, len(clip), clip.hazy.size) for clip in clips
    ]
    config = WindowConfig(window=3, crop=32, seed=3)
    for a, b in zip(ClipWindows(clips, config), ClipWindows(packed, config), strict=False):
        assert torch.equal(a["hazy"], b["hazy"])
        assert torch.equal(a["clear"], b["clear"])
    for clip, twin in zip(clips, packed, strict=True):
        assert np.array_equal(twin.clear.read(2), clip.clear.read(2))
        with pytest.raises(InputError):
            twin.clear.read(2, Box(80, 0, 32, 32))


def test_shards_are_tars_as_webdataset_reads_them(pairs, tmp_path):
    pack_pairs(open_pairs(pairs), tmp_path / "packed")
    with tarfile.open(tmp_path / "packed" / "shard-000000.tar") as tar:
        names = tar.getnames()
        first = tar.extractfile(names[0]).read()
    assert names[:2] == ["clip_0.000000.hazy.png", "clip_0.000000.clear.png"]
    assert first == (pairs / "hazy" / "clip.0" / "000.png").read_bytes()
    assert len(names) == 24


def test_a_set_that_is_not_whole_is_refused(pairs, tmp_path):
    folder = tmp_path / "packed"
    pack_pairs(open_pairs(pairs), folder)
    with pytest.raises(InputError, match="not empty"):
        pack_pairs(open_pairs(pairs), folder)
    shard = folder / "shard-000000.tar"
    data = shard.read_bytes()
    shard.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="missing or cut off"):
        packed_pairs(folder)
    (folder / "index.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        packed_pairs(folder)
    (folder / "index.json").unlink()
    with pytest.raises(InputError, match="no finished packed set"):
        packed_pairs(folder)


def test_the_command(pairs, tmp_path):
    result = CliRunner().invoke(build_app(), ["data", "pack", str(pairs), "-o", str(tmp_path / "p")])
    assert result.exit_code == 0
    assert "3 clips, 12 pairs in 1 shard" in result.output
    assert len(packed_pairs(tmp_path / "p")) == 3
