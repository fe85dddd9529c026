"""The network's layers in a CPU runtime: our own kernels by numba, torch in bfloat16, OpenVINO, or onnxruntime.

A part takes and gives float32 tensors. Runtimes read ONNX files, which are kept on disk under the weights' hash.
"""

import copy
import hashlib
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import libranet
from libranet.errors import InputError, MissingDependencyError
from libranet.export.graphs import Port
from libranet.export.onnx_file import import_onnx, write_onnx
from libranet.export.quantize import measure_ranges, quantize_refiner, rendered_frames
from libranet.network import LiBrANet

Part = Callable[..., Tensor]
"""Tensors in, one tensor out, float32. The result is valid until the next call."""
Runtime = Literal["numba", "torch", "openvino", "onnxruntime"]
PartPrecision = Literal["fp32", "bf16", "int8"]


class CpuChoice(NamedTuple):
    """A runtime and the precision it computes the layers in."""

    runtime: Runtime
    precision: PartPrecision

    def __str__(self) -> str:
        return f"{self.runtime}-{self.precision}"

    @property
    def kind(self) -> type[np.generic]:
        """How our own kernels store maps: float32, or bfloat16 in uint16."""
        return np.uint16 if self.precision == "bf16" else np.float32


CHOICES = tuple(
    CpuChoice(runtime, precision)  # type: ignore[arg-type]
    for runtime, precision in (
        ("numba", "fp32"),
        ("numba", "bf16"),
        ("torch", "fp32"),
        ("torch", "bf16"),
        ("openvino", "fp32"),
        ("openvino", "bf16"),
        ("openvino", "int8"),
        ("onnxruntime", "fp32"),
        ("onnxruntime", "int8"),
    )
)


class MixedWindow(nn.Module):
    """The temporal field behind its encoder, as a graph."""

    def __init__(self, network: LiBrANet) -> None:
        super().__init__()
        self.temporal = network.temporal

    def forward(self, features: Tensor) -> Tensor:  # [1, T, C, 16, 16] -> [1, 12, 16, 16]
        assert self.temporal is not None
        return self.temporal.mix(features, centre_only=True)[:, :, 0]


class CellRefiner(nn.Module):
    """The refiner between PixelUnshuffle and PixelShuffle."""

    def __init__(self, network: LiBrANet) -> None:
        super().__init__()
        self.refiner = network.refiner

    def forward(self, cells: Tensor, small: Tensor) -> Tensor:  # [1, 48, h, w], [1, 3, h, w] -> [1, 48, h, w]
        assert self.refiner is not None
        return self.refiner.refine_cells(cells, small)


class ChromaticHead(nn.Module):
    """The chromatic field with flat grids."""

    def __init__(self, network: LiBrANet) -> None:
        super().__init__()
        self.chromatic = network.chromatic

    def forward(self, small: Tensor) -> Tensor:  # [1, 3, 256, 256] -> [1, 24 bins, 16, 16]
        assert self.chromatic is not None
        return self.chromatic.head(self.chromatic.encoder(small))


class Layers:
    """Builds a network's parts for one choice."""

    def __init__(self, network: LiBrANet, choice: CpuChoice) -> None:
        """Refuse what this machine cannot run.

        Raises:
            InputError: The CPU has no bfloat16.
            MissingDependencyError: The runtime is not installed.
        """
        if reason := why_not(choice):
            raise (InputError if "CPU" in reason else MissingDependencyError)(reason)
        self.network, self.choice = network, choice
        c = network.config
        side = c.encoder_size >> len(c.encoder_widths)
        self._square = Port("small", (1, 3, c.encoder_size, c.encoder_size))
        self._features = Port("features", (1, c.encoder_widths[-1], side, side))
        self._window = Port("window", (1, c.window, c.encoder_widths[-1], side, side))

    def chromatic(self) -> Part:
        """[1, 3, 256, 256] -> [1, 24 bins, 16, 16]."""
        if self.choice.runtime == "numba":
            from libranet.runtime.cpu.layers import NumbaEncoder

            assert self.network.chromatic is not None
            field = self.network.chromatic
            return NumbaEncoder(field.encoder, self.network.config.encoder_size, field.head, kind=self.choice.kind)
        return self._build("chromatic", ChromaticHead(self.network), [self._square])

    def encoder(self) -> Part:
        """[1, 3, 256, 256] -> [1, C, 16, 16]."""
        assert self.network.temporal is not None
        if self.choice.runtime == "numba":
            from libranet.runtime.cpu.layers import NumbaEncoder

            return NumbaEncoder(self.network.temporal.encoder, self.network.config.encoder_size, kind=self.choice.kind)
        return self._build("encoder", self.network.temporal.encoder, [self._square])

    def mix(self) -> Part:
        """[1, T, C, 16, 16] -> [1, 12, 16, 16]."""
        return self._build("mix", MixedWindow(self.network), [self._window])

    def refiner(self, height: int, width: int) -> Part:
        """Cells [1, 48, h, w] and the small frame [1, 3, h, w] -> residual cells, for one size."""
        if self.choice.runtime == "numba":
            from libranet.runtime.cpu.layers import NumbaRefiner

            assert self.network.refiner is not None
            return NumbaRefiner(self.network.refiner, height, width, self.choice.kind).refine_cells
        cells = 3 * self.network.config.scale**2
        names = ("height", "width")
        ports = [Port("cells", (1, cells, *names)), Port("restored", (1, 3, *names))]
        sizes = [(1, cells, height, width), (1, 3, height, width)]
        return self._build("refiner", CellRefiner(self.network), ports, sizes)

    def _build(
        self, name: str, module: nn.Module, inputs: Sequence[Port], sizes: Sequence[tuple[int, ...]] | None = None
    ) -> Part:
        if self.choice.runtime in ("numba", "torch"):
            return _in_torch(module, torch.bfloat16 if self.choice.precision == "bf16" else torch.float32)
        integers = self.choice.precision == "int8" and name == "refiner"
        path = self._file(name, module, inputs, integers=integers)
        if self.choice.runtime == "openvino":
            return _in_openvino(path, sizes, "f32" if self.choice.precision == "fp32" else "bf16")
        return _in_onnxruntime(path)

    def _file(self, name: str, module: nn.Module, inputs: Sequence[Port], *, integers: bool) -> Path:
        """The part's ONNX file, which is written on first use."""
        folder = cache_folder() / weights_digest(self.network)
        folder.mkdir(parents=True, exist_ok=True)
        plain = folder / f"{name}.onnx"
        if not plain.exists():
            free = inputs[0].shape[-2:] if isinstance(inputs[0].shape[-1], str) else ("a", "b")
            output = Port("out", ("n", "c", *free))
            temporary = folder / f"{name}.writing.onnx"
            write_onnx(module, inputs, [output], temporary, metadata={})
            temporary.replace(plain)
        if not integers:
            return plain
        target = folder / f"{name}-int8-{self.choice.runtime}.onnx"
        if not target.exists():
            ranges = measure_ranges(self.network, rendered_frames())
            temporary = target.with_suffix(".writing.onnx")
            quantize_refiner(plain, temporary, ranges, quantize_outputs=self.choice.runtime == "onnxruntime")
            temporary.replace(target)
        return target


def why_not(choice: CpuChoice) -> str | None:
    """Say in one sentence why this machine cannot take a choice, or None."""
    from importlib.util import find_spec

    if choice.precision == "bf16" and not has_bfloat16():
        return "this CPU has no bfloat16 (AVX512-BF16 or AMX): use fp32 or int8"
    if choice.runtime != "torch":
        for package in (choice.runtime,) if choice.runtime == "numba" else (choice.runtime, "onnx", "onnxruntime"):
            if find_spec(package) is None:
                return f"{choice.runtime} needs the package {package}: pip install 'libranet[cpu]'"
    if choice == CpuChoice("numba", "bf16"):
        from libranet.kernels.vector_code import HAS_BFLOAT16  # needs numba

        if not HAS_BFLOAT16:
            return "this CPU has no AVX512-BF16, which our own kernels in bf16 need: use numba-fp32"
    return None


def has_bfloat16() -> bool:
    """Whether the CPU computes in bfloat16 faster than it emulates it."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(check is not None and check() for check in checks)


def cache_folder() -> Path:
    """Where ONNX files and measurements are kept."""
    return Path.home() / ".cache" / "libranet" / "cpu"


def weights_digest(network: LiBrANet) -> str:
    """A hash of the weights, their configuration and the version of this package."""
    digest = hashlib.sha256(f"{libranet.__version__} {network.config}".encode())
    for tensor in network.state_dict().values():
        digest.update(tensor.detach().float().contiguous().numpy().tobytes())
    return digest.hexdigest()[:24]


def _in_torch(module: nn.Module, dtype: torch.dtype) -> Part:
    own = copy.deepcopy(module).to(dtype).eval()
    for part in own.modules():
        if isinstance(part, nn.Conv2d):
            part.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @torch.no_grad()
    def run(*inputs: Tensor) -> Tensor:
        given = [
            x.to(dtype, memory_format=torch.channels_last if x.dim() == 4 else torch.contiguous_format) for x in inputs
        ]
        return own(*given).float().contiguous()

    return run


def _in_openvino(path: Path, sizes: Sequence[tuple[int, ...]] | None, precision: str) -> Part:
    import openvino

    core = openvino.Core()
    model = core.read_model(str(path))
    if sizes is not None:
        model.reshape({port.any_name: list(size) for port, size in zip(model.inputs, sizes, strict=True)})
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
    }
    request = core.compile_model(model, "CPU", settings).create_infer_request()

    def run(*inputs: Tensor) -> Tensor:
        for index, tensor in enumerate(inputs):
            request.set_input_tensor(index, openvino.Tensor(tensor.contiguous().numpy(), shared_memory=True))
        request.infer()
        return torch.from_numpy(request.get_output_tensor(0).data)

    return run


def _in_onnxruntime(path: Path) -> Part:
    _, onnxruntime = import_onnx()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]

    def run(*inputs: Tensor) -> Tensor:
        feeds = {name: tensor.contiguous().numpy() for name, tensor in zip(names, inputs, strict=True)}
        return torch.from_numpy(session.run(None, feeds)[0])

    return run
