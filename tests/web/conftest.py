"""The static site with a tiny network and that of the package."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from browser import serve_folder
from libranet.errors import LibraNetError
from libranet.models import LiBrANet, packaged_weights, save_checkpoint
from libranet.thirdparty import find_model, find_weights, pull_weights
from libranet.web.site import write_site
from tiny_network import TINY, perturb


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
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_checkpoint(perturb(LiBrANet(TINY)), path)
    return path


@pytest.fixture(scope="session")
def site(libraries: None, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("web") / "site"
    models = [str(tiny_checkpoint), *(["base"] if packaged_weights("base").is_file() else [])]
    report = write_site(folder, models)
    assert {key.partition(" ")[0] for key in report.downloads} == {Path(name).stem for name in models}
    with serve_folder(folder) as address:
        yield address
