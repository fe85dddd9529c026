"""How fast the fused path should be on a GPU, from its memory bandwidth and the rate of its tensor cores."""

from dataclasses import dataclass

import torch

MATRIX_FLOPS = {8: 2048, 9: 4096, 10: 8192}
"""Half-precision operations of a multiprocessor in one cycle, added up in single precision, by major capability."""
CONSUMER_FLOPS = 512
"""The same for 8.6, 8.9 and 12.0: RTX 30, 40 and 50. Their professional siblings do twice as many."""
BYTES_PER_PIXEL = 235
"""Maps written and read once per pass: 1.9 GB at 3840x2160 (docs/performance.md)."""
FLOPS_PER_PIXEL = 31_400  # the refiner's: 0.26 TFLOP at 3840x2160
ENCODER_FLOPS = 2e10  # both encoders', whatever the size of the frame
BANDWIDTH_SHARE, STATIONARY_SHARE, PLAIN_SHARE = 0.9, 0.8, 0.5
"""What is reached of the ceilings, measured on an H200: memory; convolutions with and without Hopper's kernels."""


@dataclass(frozen=True)
class Gpu:
    """What decides the speed of a GPU."""

    capability: tuple[int, int]
    multiprocessors: int
    clock: float  # in Hz
    bandwidth: float  # of its memory, in bytes a second

    @classmethod
    def read(cls, device: torch.device) -> "Gpu | None":
        """Read them off the device; None where this PyTorch does not know."""
        properties = torch.cuda.get_device_properties(device)
        names = ("clock_rate", "memory_clock_rate", "memory_bus_width")
        clock, memory_clock, bus = (getattr(properties, name, 0) for name in names)
        if not (clock and memory_clock and bus):
            return None
        bandwidth = 2 * memory_clock * 1e3 * bus / 8  # two transfers a cycle
        return cls((properties.major, properties.minor), properties.multi_processor_count, clock * 1e3, bandwidth)

    @property
    def matrix_rate(self) -> float:
        """Operations a second of the tensor cores."""
        major, minor = self.capability
        consumer = major == 12 or (major == 8 and minor > 0)
        flops = CONSUMER_FLOPS if consumer else MATRIX_FLOPS.get(major, MATRIX_FLOPS[8])
        return self.multiprocessors * self.clock * flops


def expected_fps(gpu: Gpu, width: int, height: int) -> float:
    """Estimate frames a second in batches, frames already on the device. Real rates differ by a third either way."""
    pixels = width * height
    share = STATIONARY_SHARE if gpu.capability[0] == 9 else PLAIN_SHARE
    memory = pixels * BYTES_PER_PIXEL / (BANDWIDTH_SHARE * gpu.bandwidth)
    arithmetic = (pixels * FLOPS_PER_PIXEL + ENCODER_FLOPS) / (share * gpu.matrix_rate)
    return 1.0 / (memory + arithmetic)
