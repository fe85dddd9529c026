"""One step's gradients as a CUDA graph: a thousand small kernels, launched as one."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from libranet.training.batches import Batch
from libranet.training.objective import LossTerms

Gradients = Callable[[Batch], tuple[LossTerms, Tensor]]
"""Fills every parameter's `.grad`; returns the loss and the squared error."""


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: Batch
    gradients: list[Tensor | None]
    result: tuple[LossTerms, Tensor]


class GraphedGradients:
    """Computes what `compute` does. Each shape of batch is recorded when it is first seen and replayed from then on.

    What it returns, and the gradients, are overwritten by the next call.
    """

    def __init__(self, compute: Gradients, model: nn.Module) -> None:
        self.compute = compute
        self.parameters = list(model.parameters())
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream()  # one for all, or gradients would be handed from stream to stream
        self.recordings: dict[torch.Size, _Recording] = {}

    def __call__(self, batch: Batch) -> tuple[LossTerms, Tensor]:
        recording = self.recordings.get(batch.hazy.shape) or self._record(batch)
        recording.batch.hazy.copy_(batch.hazy)
        recording.batch.clear.copy_(batch.clear)
        recording.graph.replay()
        for parameter, gradient in zip(self.parameters, recording.gradients, strict=True):
            parameter.grad = gradient
        return recording.result

    def _record(self, batch: Batch) -> _Recording:
        fixed = Batch(batch.hazy.clone(), batch.clear.clone(), still=batch.still)
        random_state = torch.cuda.get_rng_state()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):  # compiles kernels and chooses convolution algorithms, which a recording cannot
                self.compute(fixed)
        torch.cuda.current_stream().wait_stream(self.stream)
        for parameter in self.parameters:
            parameter.grad = None  # so that the recording writes gradients instead of adding to them
        torch.cuda.set_rng_state(random_state)
        graph = torch.cuda.CUDAGraph()
        # Another thread makes the next batch meanwhile, which must not count as part of the recording.
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            result = self.compute(fixed)
        recording = _Recording(graph, fixed, [p.grad for p in self.parameters], result)
        self.recordings[batch.hazy.shape] = recording
        return recording
