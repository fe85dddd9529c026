"""Entry points of `torch.hub`: `torch.hub.load("FOLDER", "libranet_base", source="local")`."""

import sys
from pathlib import Path

dependencies = ["torch", "numpy", "safetensors"]
sys.path.append(str(Path(__file__).parent / "src"))  # torch.hub copies the repository and installs nothing

from libranet import LiBrANet, load_model  # noqa: E402


def libranet_base(device: str = "cpu") -> LiBrANet:
    """The default network: [B, 5, 3, H, W] in [0, 1] -> [B, 3, H, W]."""
    return load_model("libranet-base", device=device)


def libranet_small(device: str = "cpu") -> LiBrANet:
    """The small network, an eighth of the work."""
    return load_model("libranet-small", device=device)
