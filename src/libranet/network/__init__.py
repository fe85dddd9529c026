"""The network and its checkpoints."""

from libranet.kernels.grid_filter.reference import GridFilter
from libranet.network.base import Network, WeightsInfo
from libranet.network.checkpoint import (
    find_checkpoint,
    load_model,
    packaged_weights,
    read_checkpoint_info,
    save_checkpoint,
)
from libranet.network.config import LiBrANetConfig
from libranet.network.libranet import Grids, LiBrANet, Restoration
from libranet.network.stream import NO_FILTER, StreamState, start_stream, stream_restore, stream_step

__all__ = [
    "NO_FILTER",
    "GridFilter",
    "Grids",
    "LiBrANet",
    "LiBrANetConfig",
    "Network",
    "Restoration",
    "StreamState",
    "WeightsInfo",
    "find_checkpoint",
    "load_model",
    "packaged_weights",
    "read_checkpoint_info",
    "save_checkpoint",
    "start_stream",
    "stream_restore",
    "stream_step",
]
