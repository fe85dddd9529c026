"""LiBrA-Net on the Hugging Face Hub: `pip install 'libranet[hf]'`. Nothing else of the package imports this module."""

import json
from pathlib import Path
from typing import Any, Self

import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin, hf_hub_download

from libranet.network.checkpoint import load_model, packaged_name, save_checkpoint
from libranet.network.libranet import LiBrANet

FILE = "model.safetensors"
CARD = """---
{{ card_data }}
---

# {{ weights }}

Removes haze and fog from video and photos, up to 4K and beyond.
{{ parameters }} parameters, a window of {{ window }} frames.

```python
import libranet
from libranet.network.hub import HubLiBrANet

network = HubLiBrANet.from_pretrained("OWNER/NAME")  # this repository, or a copy of its folder
clear = libranet.dehaze_image("foggy.jpg", model=network)
```

Made for haze, mist and light to medium fog outdoors. Colours behind dense haze are estimates.
Smoke, rain, snow and night
scenes with lamps were never trained on.
"""


class HubLiBrANet(
    LiBrANet,
    PyTorchModelHubMixin,
    library_name="libranet",
    license="apache-2.0",
    pipeline_tag="image-to-image",
    tags=["dehazing", "video", "image-restoration", "bilateral-grid"],
    model_card_template=CARD,
):
    """LiBrA-Net with `from_pretrained`, `save_pretrained` and `push_to_hub`.

    Examples:
        >>> network = HubLiBrANet.from_pretrained("libranet-base")  # of the package; or a folder, or a repository
        >>> network.save_pretrained("folder")  # model.safetensors, which every command takes, config.json, README.md
        >>> network.push_to_hub("OWNER/NAME")
    """

    @classmethod
    def from_pretrained(  # type: ignore[override]  # without arguments of the constructor: the file has them
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
        token: str | bool | None = None,
    ) -> Self:
        """Open `libranet-base`, `libranet-small`, a folder of `save_pretrained`, or a repository of the Hub."""
        if packaged_name(name) is None:
            folder = Path(name)
            name = folder / FILE
            if not folder.is_dir():
                name = hf_hub_download(
                    str(folder),
                    FILE,
                    revision=revision,
                    cache_dir=cache_dir,
                    force_download=force_download,
                    local_files_only=local_files_only,
                    token=token,
                )
        loaded = load_model(name)
        with torch.random.fork_rng(devices=[]):
            network = cls(loaded.config)
        network.load_state_dict(loaded.state_dict(), assign=True)
        network.weights = loaded.weights
        return network.eval()

    def _save_pretrained(self, save_directory: Path) -> None:
        save_checkpoint(self, save_directory / FILE, name=self.weights.name, version=self.weights.version)
        (save_directory / "config.json").write_text(json.dumps(self.config.stored(), indent=2))

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """The card of these weights, with YAML metadata."""
        parameters = f"{sum(parameter.numel() for parameter in self.parameters()):,}"
        about = {"weights": self.weights, "parameters": parameters, "window": self.config.window}
        return super().generate_model_card(*args, **about, **kwargs)
