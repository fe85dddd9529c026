"""`Dehazer`, evaluation, and the plain network as GPUs without the kernels run it."""

import torch

from end_to_end_sections.table import FILTER, Setting, Table, moving_planes, time_calls
from libranet import Dehazer
from libranet.frames import FrameFormat, Frames
from libranet.frames.format import RGB8
from libranet.network import LiBrANet
from libranet.runtime import load_network, make_backend


def api(table: Table, network: LiBrANet, setting: Setting) -> None:
    """Frames in every form that `Dehazer` takes, the backend under it, and what `libranet eval` says."""
    facts = table.facts
    (planar,) = (p.permute(0, 3, 1, 2).contiguous() for p in moving_planes(RGB8, 8, setting.size, setting.device))
    for dtype, limit in ((torch.uint8, "<= 1.5 ms"), (torch.uint16, ""), (torch.float32, "")):
        clip = planar.float() / 255 if dtype == torch.float32 else planar.to(dtype)
        dehazer = Dehazer(network)
        ms = time_calls(lambda i, d=dehazer, c=clip: d.push(c[i % 8]), 60)
        table.add(f"Dehazer, CUDA tensors [3, H, W] {str(dtype)[6:]}", ms, facts.get("rgb24 latency"), limit=limit)
    arrays = list(planar.permute(0, 2, 3, 1).contiguous().cpu().numpy())
    dehazer = Dehazer(network)
    ms = time_calls(lambda i: dehazer.push(arrays[i % 8]), 60)
    table.add("Dehazer, NumPy frames [H, W, 3] uint8", ms, facts.get("rgb24 latency"), limit="<= 5 ms")
    backend = make_backend(network, grid_filter=FILTER, batch=4)
    frames = Frames(moving_planes(RGB8, 4, setting.size, setting.device), FrameFormat(*setting.size, RGB8))
    ms = time_calls(lambda _: backend.push(frames), 20) / 4
    table.add("backend, batches of 4 on the device", ms, facts.get("rgb24 batch"))
    from libranet.lab.bench.efficiency import Subject, measure_efficiency

    subject = Subject("libranet", load_network(device=setting.device))  # it is moved to the CPU afterwards
    (row,) = measure_efficiency([subject], sizes=[setting.size], device=setting.device, seconds=2.0)
    beside = facts.get("rgb24 latency")
    if setting.device == "cuda":
        from gpu_sections.steps import time_mode
        from gpu_sections.timing import perturbed_net

        facts["benchmarks/gpu.py"] = time_mode(perturbed_net().cuda(), "4K", "latency", None, steps=60)
        beside = facts["benchmarks/gpu.py"].get("sustained_frame_ms", beside)
    table.add("eval --table efficiency, beside benchmarks/gpu.py", row.milliseconds, beside, limit="0.9 to 1.1")


def other_gpus(table: Table, network: LiBrANet, setting: Setting) -> None:
    """The plain network in half precision, as GPUs without the kernels run it."""
    frames = Frames(moving_planes(RGB8, 1, setting.size, setting.device), FrameFormat(*setting.size, RGB8))
    plain = make_backend(load_network(device=setting.device), grid_filter=FILTER, backend="plain")
    ms = time_calls(lambda _: plain.push(frames), 8, warm=4)
    table.add("plain backend", ms, table.facts.get("rgb24 latency"))
