"""The two ceilings of this GPU: copy bandwidth and matrix rate, measured."""

from typing import Any

import torch

from gpu_sections.timing import event_ms


def run(*, quick: bool) -> dict[str, Any]:
    size = 1 << (27 if quick else 31)
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy = event_ms(lambda: target.copy_(source), repeats=10)
    side = 8192
    a, b = (torch.randn(side, side, device="cuda").half() for _ in range(2))
    product = event_ms(lambda: torch.matmul(a, b), repeats=10, warmup=3)
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "l2_mb": properties.L2_cache_size / 1e6,
        "torch": torch.__version__,
        "copy_tb_s": 2 * size / copy / 1e9,
        "matrix_tflops": 2 * side**3 / product / 1e9,
    }
