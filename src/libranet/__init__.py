"""LiBrA-Net: real-time dehazing of 4K video.

>>> import libranet
>>> libranet.dehaze_video("foggy.mp4", "clear.mp4")
>>> clear = libranet.dehaze_image("foggy.jpg")  # or an array
>>> net = libranet.load_model()  # the weights of the package
>>> clear = net(frames)  # [B, T, 3, H, W] in [0, 1] -> [B, 3, H, W]
"""

from typing import TYPE_CHECKING, Any

from libranet.errors import LibraNetError

if TYPE_CHECKING:
    from libranet.engine import DehazeOptions, Dehazer, DehazeReport, Haze, dehaze_image, dehaze_video, estimate_haze
    from libranet.network import LiBrANet, LiBrANetConfig, load_model, save_checkpoint, start_stream, stream_step

__version__ = "0.3.0"

__all__ = [
    "DehazeOptions",
    "DehazeReport",
    "Dehazer",
    "Haze",
    "LiBrANet",
    "LiBrANetConfig",
    "LibraNetError",
    "__version__",
    "dehaze_image",
    "dehaze_video",
    "estimate_haze",
    "load_model",
    "save_checkpoint",
    "start_stream",
    "stream_step",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import libranet` loads neither PyTorch nor PyAV."""
    if name in ("DehazeOptions", "DehazeReport", "Dehazer", "Haze", "dehaze_image", "dehaze_video", "estimate_haze"):
        import libranet.engine

        return getattr(libranet.engine, name)
    if name in __all__:
        import libranet.network

        return getattr(libranet.network, name)
    raise AttributeError(f"module 'libranet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
