"""Writing the static site: the page, the networks, and the libraries that run them in a browser."""

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libranet
from libranet.errors import CheckpointError, InputError, LibraNetError
from libranet.export.check import Difference, compare, open_onnx
from libranet.export.exporter import ExportOptions, make_metadata
from libranet.export.graphs import StreamGraph, make_graph
from libranet.export.onnx_file import write_onnx
from libranet.network import GridFilter, LiBrANet, load_model, packaged_weights
from libranet.page import ASSETS, EXAMPLE_NAME, asset_path, read_asset
from libranet.thirdparty import find_model, find_weights, pull_weights
from libranet.web.gpu_weights import gpu_runs, write_gpu_weights
from libranet.web.small_weights import store_weights_small

RATE = 25.0
"""Frames per second for which the graphs keep colours steady."""
CHECK_FRAMES = 4
MOST_DIFFERENCE = 2.0
"""Steps of 1/255 by which a stored network may differ from PyTorch in float32."""
_LIBRARIES = {
    "onnxruntime-web": (
        "dist/ort.wasm.min.mjs",
        "dist/ort-wasm-simd-threaded.mjs",
        "dist/ort-wasm-simd-threaded.wasm",
    ),
    "mediabunny": ("dist/bundles/mediabunny.min.mjs", "LICENSE"),
}
"""What the site takes out of each npm package."""
_CSP = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self' blob:; connect-src 'self' blob:; worker-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
_SCRIPTS = ("engine-browser.js", "network-worker.js", "gpu-network.js", "gpu-kernels.js", "clip.js")
_PAGE_FILES = (*_SCRIPTS, "app.webmanifest")


@dataclass(frozen=True)
class SiteReport:
    """What was written."""

    differences: dict[str, str]
    """How far each network is from PyTorch."""
    downloads: dict[str, int]
    """Bytes that a visitor downloads, by network and runtime."""


def default_models() -> list[str]:
    """The networks of the package: the small one first, where it is there."""
    found = [name for name in ("small", "base") if packaged_weights(name).is_file()]
    if not found:
        raise CheckpointError("the package has no weights: give --model the path of a checkpoint")
    return found


def write_site(output: Path, models: list[str], *, overwrite: bool = False) -> SiteReport:
    """Write the static site. The folder appears only when it is complete.

    Args:
        models: `base`, `small` or paths of checkpoints; the first is the default of the page.
        overwrite: Replace an existing folder that holds such a site.
    """
    _check_output(output, overwrite=overwrite)
    networks = {Path(name).stem.removeprefix("libranet-"): load_model(name) for name in models}
    libraries = [find_model(name) for name in _LIBRARIES]
    archives = [find_weights(library) or pull_weights(library) for library in libraries]
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as scratch:
        folder = Path(scratch) / "site"
        vendor = folder / "vendor"
        vendor.mkdir(parents=True)
        (folder / "models").mkdir()
        for archive, members in zip(archives, _LIBRARIES.values(), strict=True):
            _unpack(archive, members, vendor)
        shutil.copyfile(asset_path("vendor-notice.txt"), vendor / "NOTICE.txt")
        _write_page(folder)
        written = {name: _write_model(name, network, folder / "models") for name, network in networks.items()}
        entries = [entry for entry, _ in written.values()]
        runtime = sum(file.stat().st_size for file in vendor.glob("ort*"))
        manifest = {"version": libranet.__version__, "models": entries, "runtime": runtime}
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
        _write_service_worker(folder)
        folder.chmod(0o755)
        if output.exists():
            shutil.rmtree(output)
        os.replace(folder, output)
    return SiteReport(
        {name: str(difference) for name, (_, difference) in written.items()},
        {f"{entry['name']} with wasm": entry["bytes"] + runtime for entry in entries}
        | {f"{entry['name']} with webgpu": entry["gpu"]["bytes"] for entry in entries if entry["gpu"]},
    )


def _check_output(output: Path, *, overwrite: bool) -> None:
    if output.is_file():
        raise InputError(f"the output {output} is a file: give a folder")
    if not output.exists() or not any(output.iterdir()):
        return
    if not (output / "manifest.json").is_file() or not (output / "engine.js").is_file():
        raise InputError(f"{output} holds other files: choose another folder")
    if not overwrite:
        raise InputError(f"{output} exists: add --overwrite to replace it")


def _unpack(archive: Path, members: tuple[str, ...], folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in members:
            stream = tar.extractfile(f"package/{member}")
            assert stream is not None  # the archive's hash is pinned
            (folder / Path(member).name).write_bytes(stream.read())


def _write_page(folder: Path) -> None:
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_CSP}">'
    head = f'<meta charset="utf-8">\n  {policy}\n  <link rel="manifest" href="app.webmanifest">'
    page = read_asset("index.html").replace('<meta charset="utf-8">', head)
    (folder / "index.html").write_text(page, encoding="utf-8")
    for name in (*ASSETS, *_PAGE_FILES, EXAMPLE_NAME, "NOTICE.md"):
        target = "engine.js" if name == "engine-browser.js" else name
        shutil.copyfile(asset_path(name), folder / target)


def _write_service_worker(folder: Path) -> None:
    """Name the files that the page always needs, and the state of the whole site: a new one replaces the old cache."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    kept = [file.name for file in files if file.parent == folder]
    script = read_asset("service-worker.js").replace("SITE", digest.hexdigest()[:16])
    (folder / "service-worker.js").write_text(script.replace('["FILES"]', json.dumps(kept)), encoding="utf-8")


def _write_model(name: str, network: LiBrANet, folder: Path) -> tuple[dict[str, Any], Difference]:
    """One graph serves photos, clips and the camera: it needs no frame of the future."""
    options = ExportOptions(form="streaming", lookahead=0, grid_filter=GridFilter(rate=RATE))
    graph = make_graph(network, options.form, None, lookahead=0, grid_filter=options.grid_filter)
    assert isinstance(graph, StreamGraph)
    path = folder / f"{name}.onnx"
    write_onnx(graph, path, metadata=make_metadata(network, graph, options))
    store_weights_small(path)
    runtime, run = open_onnx(path)
    difference = compare(graph, network, run, runtime, frames=CHECK_FRAMES)
    if difference.largest > MOST_DIFFERENCE:
        raise LibraNetError(f"the stored network {name} is too far from PyTorch: {difference}; nothing was written")
    gpu = folder / f"{name}.safetensors"
    config = write_gpu_weights(network, gpu, options.grid_filter) if gpu_runs(network) else None
    entry: dict[str, Any] = {
        "name": name,
        "file": f"models/{path.name}",
        "bytes": path.stat().st_size,
        "weights": str(network.weights),
        "state": {f"state_{port.name}": port.shape for port in graph.state()},
        "gpu": config and {"file": f"models/{gpu.name}", "bytes": gpu.stat().st_size, "config": config},
    }
    return entry, difference
