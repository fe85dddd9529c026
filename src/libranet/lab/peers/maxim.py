"""MAXIM (Tu et al., CVPR 2022), zero-shot: the published graph and weights for dehazing, outdoors or indoors."""

from pathlib import Path
from typing import Literal

from torch import Tensor

from libranet.lab.peers.tensorflow_graph import TensorflowGraph
from libranet.network.peer import Peer, PeerConfig
from libranet.thirdparty import find_model, load_weights


class Maxim(Peer):
    """The graph as published, which no training changes. It computes in float32: its norms overflow half precision."""

    def __init__(self, place: Literal["outdoor", "indoor"], *, cache: Path | None = None) -> None:
        super().__init__(PeerConfig(f"maxim-{place}", divisor=64))
        self.graph = TensorflowGraph(load_weights(find_model(self.architecture), cache))
        self.requires_grad_(False)

    def restore(self, frames: Tensor) -> Tensor:
        return self.graph(frames[:, 0].permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
