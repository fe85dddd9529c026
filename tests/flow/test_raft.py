"""RAFT-small: any size, and weights of either naming."""

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from libranet.errors import CheckpointError
from libranet.flow import RaftSmall
from libranet.thirdparty import read_tensors


@pytest.mark.parametrize("size", [(16, 16), (33, 50), (64, 72)])
def test_raft_takes_any_size(size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    net = RaftSmall().eval()
    assert sum(p.numel() for p in net.parameters()) == 990_162
    first, second = torch.rand(1, 3, *size), torch.rand(1, 3, *size)
    flow = net(first, second, 2)
    assert flow.shape == (1, 2, *size)
    assert flow.isfinite().all()


def _torchvision_name(name: str) -> str:
    """What torchvision's `raft_small` calls the tensor, written down from its state dict."""
    network, rest = name.split(".", 1)
    if network == "update_block":
        rest = rest.replace("gru.", "recurrent_block.convgru1.")
        rest = re.sub(r"^encoder\.conv([cf])(\d)\.", lambda m: f"encoder.conv{_LONG[m[1]]}{m[2]}.0.", rest)
        return "update_block." + rest.replace("encoder.conv.", "encoder.conv.0.").replace("encoder.", "motion_encoder.")
    rest = re.sub(r"^conv1\.", "convnormrelu.0.", rest).replace("conv2.", "conv.") if "layer" not in rest else rest
    rest = re.sub(r"(layer\d\.\d)\.conv(\d)\.", r"\1.convnormrelu\2.0.", rest)
    return {"fnet": "feature_encoder.", "cnet": "context_encoder."}[network] + rest


_LONG = {"c": "corr", "f": "flow"}


@pytest.mark.parametrize("naming", ["authors", "torchvision"])
@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_weights_of_either_naming_are_read(naming: str, suffix: str, tmp_path: Path) -> None:
    import safetensors.torch

    torch.manual_seed(0)
    state = RaftSmall().state_dict()
    rename = _torchvision_name if naming == "torchvision" else "module.{}".format
    named: dict[str, Tensor] = {rename(name): tensor for name, tensor in state.items()}
    if naming == "torchvision":
        assert "context_encoder.layer2.0.downsample.0.weight" in named
        assert "update_block.motion_encoder.convcorr1.0.bias" in named
    path = tmp_path / f"raft.{suffix}"
    safetensors.torch.save_file(named, path) if suffix == "safetensors" else torch.save(named, path)
    loaded = RaftSmall.from_weights(read_tensors(path)).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


def test_other_tensors_are_refused_in_one_sentence() -> None:
    with pytest.raises(CheckpointError, match="expected the weights of RAFT-small"):
        RaftSmall.from_weights({"fnet.conv1.weight": torch.ones(2)})
