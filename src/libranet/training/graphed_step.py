"""A training step, or the gradients of one, as a CUDA graph instead of thousands of small kernels.

Launching those takes the CPU longer than the GPU needs for a batch of small frames.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from libranet.losses.objective import LossTerms
from libranet.training.dataloader import Batch

Result = tuple[LossTerms, Tensor]


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: Batch
    gradients: list[Tensor | None]
    result: Result


class Graphed:
    """Computes something about a batch as one CUDA graph.

    Each shape of batch is recorded when it is first seen and replayed from then on. The next call overwrites the
    gradients and the result.
    """

    def __init__(
        self,
        compute: Callable[[Batch], Result],
        model: nn.Module,
        *,
        rehearse: Callable[[Batch], object] | None = None,
    ) -> None:
        """Prepare recording.

        Args:
            compute: What is recorded. It fills every parameter's `.grad`.
            rehearse: The same work without a lasting effect, where `compute` has one.
        """
        self.compute, self.rehearse = compute, rehearse or compute
        self.parameters, self.buffers = list(model.parameters()), list(model.buffers())
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream()  # one for all, or gradients would be handed from stream to stream
        self.recordings: dict[torch.Size, _Recording] = {}

    def __call__(self, batch: Batch) -> Result:
        recording = self.recordings.get(batch.hazy.shape) or self._record(batch)
        recording.batch.hazy.copy_(batch.hazy)
        recording.batch.clear.copy_(batch.clear)
        if recording.batch.filmed is not None and batch.filmed is not None:
            recording.batch.filmed.copy_(batch.filmed)
        recording.graph.replay()
        for parameter, gradient in zip(self.parameters, recording.gradients, strict=True):
            parameter.grad = gradient
        return recording.result

    def _record(self, batch: Batch) -> _Recording:
        filmed = None if batch.filmed is None else batch.filmed.clone()
        fixed = Batch(batch.hazy.clone(), batch.clear.clone(), still=batch.still, filmed=filmed)
        random_state = torch.cuda.get_rng_state()
        statistics = [buffer.clone() for buffer in self.buffers]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):  # compiles kernels and chooses convolution algorithms, which a recording cannot
                self.rehearse(fixed)
        torch.cuda.current_stream().wait_stream(self.stream)
        for parameter in self.parameters:
            parameter.grad = None  # so that the recording writes gradients instead of adding to them
        for buffer, before in zip(self.buffers, statistics, strict=True):
            buffer.copy_(before)
        torch.cuda.set_rng_state(random_state)
        graph = torch.cuda.CUDAGraph()
        # Another thread makes the next batch meanwhile, which must not count as part of the recording.
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            result = self.compute(fixed)
        recording = _Recording(graph, fixed, [p.grad for p in self.parameters], result)
        self.recordings[batch.hazy.shape] = recording
        return recording


class LateAnswer:
    """Reads a number from the GPU without making it wait: the answer is taken a step later."""

    def __init__(self) -> None:
        self.asked: tuple[Tensor, torch.cuda.Event] | None = None

    def ask(self, value: Tensor) -> None:
        """Start to copy a value that is 0 or 1."""
        answer, event = torch.empty_like(value, device="cpu", pin_memory=True), torch.cuda.Event()
        answer.copy_(value, non_blocking=True)
        event.record()
        self.asked = answer, event

    def take(self) -> bool | None:
        """Wait for what was asked last; None if nothing was."""
        if self.asked is None:
            return None
        (answer, event), self.asked = self.asked, None
        event.synchronize()
        return bool(answer)
