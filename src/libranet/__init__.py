"""LiBrA-Net: real-time dehazing of 4K video.

>>> import libranet
>>> net = libranet.load_model()  # the weights of the package
>>> clear = net(frames)  # [B, T, 3, H, W] in [0, 1] -> [B, 3, H, W]
"""

from libranet.errors import LibraNetError
from libranet.models import LiBrANet, LiBrANetConfig, load_model, save_checkpoint, start_stream, stream_step

__version__ = "0.1.0"

__all__ = [
    "LiBrANet",
    "LiBrANetConfig",
    "LibraNetError",
    "__version__",
    "load_model",
    "save_checkpoint",
    "start_stream",
    "stream_step",
]
