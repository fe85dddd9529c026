"""The one place where pictures meet the network.

A faster implementation (`fused_step.py`, another runtime) has to offer `push` and `flush` as below and to be returned
by `make_step`; nothing else in the engine touches the network.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from libranet.cuda.support import why_not_fused
from libranet.errors import InputError
from libranet.models import LiBrANet, Restoration, load_model, start_stream, stream_restore

Precision = Literal["auto", "fp32", "fp16", "bf16"]
MAX_STRENGTH = 1.5

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Restored:
    """One frame as the network left it."""

    image: Tensor  # [1, 3, H, W] in [0, 1]
    transmission: Tensor | None  # [1, 1, h, w] in [0, 1], where it was asked for


class Step(Protocol):
    """Frames in, restored frames out, in order; a few frames late where the network looks ahead."""

    device: torch.device

    def push(
        self,
        frame: Tensor,  # [1, 3, H, W] in [0, 1], on `device`
        *,
        cut: bool = False,
    ) -> list[Restored]:
        """Take a frame; `cut` says that it begins a new shot, which ends all memory of the last one. A
        frame that has come back restored may be overwritten by its owner.
        """
        ...

    def flush(self) -> list[Restored]:
        """The frames still waiting. The next frame begins a new stream."""
        ...


class StreamStep:
    """The readable twin: the network's own streaming form in PyTorch."""

    def __init__(self, network: LiBrANet, *, lookahead: int | None, strength: float, want_transmission: bool) -> None:
        self.network, self.lookahead = network, lookahead
        self.strength, self.want_transmission = strength, want_transmission
        self.device = next(network.parameters()).device
        self._state = start_stream(network, lookahead=lookahead)

    def push(self, frame: Tensor, *, cut: bool = False) -> list[Restored]:
        """Take a frame and return those that became ready."""
        ready = self.flush() if cut else []
        restoration, self._state = stream_restore(self.network, frame, self._state, strength=self.strength)
        return ready + self._pack(restoration)

    def flush(self) -> list[Restored]:
        """Drain the stream and begin a new one."""
        ready: list[Restored] = []
        while self._state.waiting:
            restoration, self._state = stream_restore(self.network, None, self._state, strength=self.strength)
            ready += self._pack(restoration)
        self._state = start_stream(self.network, lookahead=self.lookahead)
        return ready

    def _pack(self, restoration: Restoration | None) -> list[Restored]:
        if restoration is None:
            return []
        return [Restored(restoration.image, restoration.transmission() if self.want_transmission else None)]


def make_step(
    network: LiBrANet,
    *,
    strength: float = 1.0,
    live: bool = False,
    want_transmission: bool = False,
    eight_bit: bool = False,
) -> Step:
    """The fastest step there is for this network and its device. `live` gives up look-ahead for immediate answers;
    `eight_bit` says that the frames come from bytes, which is what the fused kernels read.
    """
    if not 0.0 <= strength <= MAX_STRENGTH:
        raise InputError(f"expected a strength from 0 to {MAX_STRENGTH}, got {strength}")
    lookahead = 0 if live else None
    if eight_bit and not want_transmission and why_not_fused_here(network) is None:
        from libranet.engine.fused_step import FusedStreamStep  # needs Triton

        return FusedStreamStep(network, lookahead=lookahead, strength=strength)
    return StreamStep(network, lookahead=lookahead, strength=strength, want_transmission=want_transmission)


def why_not_fused_here(network: LiBrANet) -> str | None:
    """One sentence that says what keeps this network on the plain path, or None where the fused one takes bytes."""
    if network.dtype != torch.float16:
        return f"the network is in {str(network.dtype).removeprefix('torch.')}, and the fused path computes in float16"
    return why_not_fused(network.config, next(network.parameters()).device)


def pick_device(name: str = "auto") -> torch.device:
    """`auto` takes CUDA, then Apple's GPU, then the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"unknown device {name!r}: use auto, cpu, cuda, cuda:1 or mps") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("no CUDA device is at hand: use --device cpu, or install PyTorch with CUDA")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InputError("no Apple GPU is at hand: use --device cpu")
    return device


def load_network(
    model: LiBrANet | str | None = None, *, device: str = "auto", precision: Precision = "auto"
) -> LiBrANet:
    """The network on its device. `auto` precision is fp16 on CUDA and fp32 elsewhere."""
    if isinstance(model, LiBrANet):
        return model.eval()
    where = pick_device(device)
    if precision not in ("auto", *_DTYPES):
        raise InputError(f"unknown precision {precision!r}: use auto, fp32, fp16 or bf16")
    if precision == "fp16" and where.type == "cpu":
        raise InputError("fp16 needs a GPU: use --precision fp32 or bf16 on the CPU")
    chosen = ("fp16" if where.type == "cuda" else "fp32") if precision == "auto" else precision
    return load_model(model, device=where, dtype=_DTYPES[chosen])
