"""The static site with a tiny network and that of the package."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import serve_folder
from libranet.cli.web import web
from libranet.errors import LibraNetError
from libranet.network import checkpoint, packaged_weights
from libranet.thirdparty import find_model, find_weights, pull_weights
from libranet.web import site as site_module


@pytest.fixture(scope="session")
def libraries() -> None:
    """The libraries of the site, from the cache or from npm."""
    npm = shutil.which("npm")
    registry = None
    if npm is not None:
        asked = subprocess.run([npm, "config", "get", "registry"], capture_output=True, text=True, check=False).stdout
        registry = asked.strip() if asked.startswith("https://") else None
    for name in ("onnxruntime-web", "mediabunny"):
        model = find_model(name)
        try:
            _ = find_weights(model) or pull_weights(model, index=registry)
        except LibraNetError as error:
            pytest.skip(f"{name} cannot be had: {error}")


@pytest.fixture(scope="session")
def site_folder(libraries: None, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `libranet web` writes when no network is named, with a tiny network as the small one: it is quick."""
    package = tmp_path_factory.mktemp("package")
    shutil.copyfile(tiny_checkpoint, package / "libranet-small.safetensors")
    (package / "libranet-base.safetensors").symlink_to(packaged_weights("base"))
    folder = tmp_path_factory.mktemp("web") / "site"
    with pytest.MonkeyPatch.context() as patch:  # for the writing alone: other tests want the package's own
        for module in (checkpoint, site_module):
            patch.setattr(module, "packaged_weights", lambda name="base": package / f"libranet-{name}.safetensors")
        web(output=folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [model["name"] for model in manifest["models"]] == ["small", "base"]
    return folder


@pytest.fixture(scope="session")
def site(site_folder: Path) -> Iterator[str]:
    """The address of that site."""
    with serve_folder(site_folder) as address:
        yield address
