"""What to export: format, form, size, precision."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from libranet.errors import InputError
from libranet.export.graphs import Form
from libranet.network import GridFilter
from libranet.network.libranet import MIN_SIZE

Format = Literal["onnx", "openvino", "torchscript", "coreml", "tensorrt-ready"]
Precision = Literal["fp32", "fp16", "int8"]

SUFFIXES: dict[Format, str] = {
    "onnx": ".onnx",
    "openvino": ".xml",
    "torchscript": ".pt",
    "coreml": ".mlpackage",
    "tensorrt-ready": ".onnx",
}
OPSET = 17
"""ONNX operators up to here: LayerNormalization is the newest one used. onnxruntime 1.12, OpenVINO 2022.3, TensorRT 8.6
and their successors read it."""
MAX_SIDE = 8192
"""The longest side of a frame: larger ones do not fit the memory of any device that the runtimes support."""


@dataclass(frozen=True)
class ExportOptions:
    """One file to export."""

    format: Format = "onnx"
    form: Form = "still"
    """`still`: one frame in and out. `streaming`: frame and state in and out. `window`: T frames in, one out."""
    size: tuple[int, int] | None = None
    """(width, height) of the frames; None leaves it open until the file is used."""
    precision: Precision = "fp32"
    """Of the weights and most of the arithmetic. Frames are float32 always. `int8`: the refiner alone."""
    lookahead: int | None = None
    """Frames of the future that the streaming form waits for; None is half of the window."""
    grid_filter: GridFilter = field(default_factory=GridFilter)
    """How the streaming form averages grids over time. A file has one frame rate for good."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("format", self.format, get_args(Format)),
            ("form", self.form, get_args(Form)),
            ("precision", self.precision, get_args(Precision)),
        ):
            if value not in known:
                raise InputError(f"unknown {name} {value!r}: use {', '.join(known[:-1])} or {known[-1]}")
        if self.size is not None and not all(MIN_SIZE <= side <= MAX_SIDE for side in self.size):
            width, height = self.size
            raise InputError(f"expected a size of {MIN_SIZE} to {MAX_SIDE} pixels a side, got {width}x{height}")
        if self.size is None and self.format in ("coreml", "tensorrt-ready"):
            raise InputError(f"{self.format} needs one frame size: add for example --size 1920x1080")
        if self.size is not None and self.format == "torchscript":
            raise InputError("a torchscript file takes frames of any size: leave --size out")
        if self.precision == "int8" and self.format not in ("onnx", "openvino"):
            raise InputError(f"int8 is for onnx and openvino, got {self.format}: use --precision fp16 or fp32")
        if self.lookahead is not None and self.form != "streaming":
            raise InputError("a look-ahead belongs to the streaming form: add --streaming, or leave it out")
