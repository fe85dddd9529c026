"""Hubs of models: Hugging Face and torch.hub, from folders, without network."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import libranet
from libranet.network import LiBrANet, read_checkpoint_info
from libranet.network.checkpoint import CheckpointError
from tiny_network import TINY, perturb

ROOT = Path(__file__).parents[2]


def test_a_network_comes_back_from_its_folder(tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    from libranet.network.hub import HubLiBrANet

    torch.manual_seed(0)
    network = perturb(HubLiBrANet(TINY)).eval()
    network.save_pretrained(tmp_path / "net")
    assert {path.name for path in (tmp_path / "net").iterdir()} == {"model.safetensors", "config.json", "README.md"}
    card = hub.ModelCard.load(tmp_path / "net" / "README.md")
    assert (card.data.license, card.data.library_name) == ("apache-2.0", "libranet")
    assert card.data.pipeline_tag == "image-to-image"
    assert f"{sum(p.numel() for p in network.parameters()):,} parameters" in card.text

    again = HubLiBrANet.from_pretrained(tmp_path / "net")
    frames = torch.rand(1, TINY.window, 3, 32, 48)
    with torch.no_grad():
        assert torch.equal(again(frames), network(frames))
    # The file is a checkpoint like every other.
    assert read_checkpoint_info(tmp_path / "net" / "model.safetensors").config == TINY
    hazy = np.random.default_rng(0).integers(60, 200, (32, 48, 3), np.uint8)
    assert not np.array_equal(libranet.dehaze_image(hazy, model=again), hazy)
    (tmp_path / "net" / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="empty"):
        HubLiBrANet.from_pretrained(tmp_path / "net")


def test_what_is_pushed_is_what_is_saved(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import hub_mixin

    from libranet.network.hub import HubLiBrANet

    pushed = {}

    class Api:
        def __init__(self, token=None) -> None: ...

        def create_repo(self, repo_id, **_):
            return type("Repository", (), {"repo_id": repo_id})

        def upload_folder(self, *, repo_id, folder_path, **_):
            pushed.update({path.name: path.stat().st_size for path in Path(folder_path).iterdir()})
            return repo_id

    monkeypatch.setattr(hub_mixin, "HfApi", Api)
    assert HubLiBrANet(TINY).push_to_hub("someone/tiny") == "someone/tiny"
    assert set(pushed) == {"model.safetensors", "config.json", "README.md"}


@pytest.mark.more
def test_torch_hub_opens_the_clone():
    network = torch.hub.load(str(ROOT), "libranet_small", source="local", trust_repo=True)
    assert isinstance(network, LiBrANet)
    assert str(network.weights).startswith("libranet-small")


@pytest.mark.more
def test_the_package_works_without_huggingface_hub():
    program = "import sys; sys.modules['huggingface_hub'] = None; import libranet; print(libranet.load_model().weights)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("libranet-base")
