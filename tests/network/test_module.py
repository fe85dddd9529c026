"""A module that behaves as torch's own do: exported, compiled, in channels_last, empty, under autocast and DDP."""

import copy
import os
import socket

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from libranet.network import LiBrANet
from libranet.network.own import OwnNetwork
from tiny_network import TINY, perturb

WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "unique", "masked_select", "item")
"""Operators whose result the CPU has to see: on a GPU they wait for everything before them."""


def window(batch: int = 2, height: int = 50, width: int = 66) -> Tensor:
    return torch.rand(batch, 5, 3, height, width, generator=torch.Generator().manual_seed(0))


class NoWaiting(TorchDispatchMode):
    """Fails where a device would be waited for."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.split(".")[0]
        assert name not in WAITING, f"forward waits for its device: {name}"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("training", [False, True])
def test_forward_waits_for_no_device(tiny_model, training):
    model = tiny_model.train(training)
    with NoWaiting():
        model(window())
        model.predict(window())
        with pytest.raises(AssertionError, match="waits"):
            float(torch.ones(()))


def test_an_empty_batch_gives_an_empty_batch(tiny_model):
    empty = window(0)
    assert tiny_model(empty).shape == (0, 3, 50, 66)
    assert tiny_model(empty[:, :1], still=True).shape == (0, 3, 50, 66)
    own = OwnNetwork("own", torch.nn.Conv2d(3, 3, 3, padding=1))
    assert own(empty[:, :1]).shape == (0, 3, 50, 66)


def test_channels_last(tiny_model):
    model = copy.deepcopy(tiny_model).to(memory_format=torch.channels_last)
    assert model.temporal.position.shape == tiny_model.temporal.position.shape
    assert any(
        p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous()
        for p in model.parameters()
        if p.dim() == 4
    )
    frames = window().flatten(0, 1).to(memory_format=torch.channels_last).unflatten(0, (2, 5))
    with torch.no_grad():
        assert torch.allclose(model(frames), tiny_model(window()), atol=1e-5)
    assert torch.equal(model.to(torch.float64).temporal.position, tiny_model.temporal.position.double())


def test_values_outside_are_the_callers_and_the_result_stays_inside(tiny_model):
    frames = window() * 3 - 1
    with torch.no_grad():
        restored = tiny_model(frames)
    assert torch.isfinite(restored).all()
    assert 0.0 <= restored.min() <= restored.max() <= 1.0


def test_autocast(tiny_model):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        restored = tiny_model(window())
    assert restored.dtype == torch.float32
    with torch.no_grad():
        assert (restored - tiny_model(window())).abs().mean() < 0.01


@pytest.mark.more
def test_export(tiny_model, tmp_path):
    """One program for any batch, which gives the same bits, also from a file."""
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(tiny_model, (window(),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "net.pt2")
    loaded = torch.export.load(tmp_path / "net.pt2").module()
    with torch.no_grad():
        assert torch.equal(loaded(window(4)), tiny_model(window(4)))


@pytest.mark.more
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compile_in_one_graph(tiny_model, backend):
    torch.compiler.reset()
    compiled = torch.compile(tiny_model, fullgraph=True, backend=backend)
    with torch.no_grad():
        restored, plain = compiled(window()), tiny_model(window())
    assert torch.equal(restored, plain) if backend == "eager" else torch.allclose(restored, plain, atol=1e-5)


def _train_on(rank: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(perturb(LiBrANet(TINY)).train())
    model(window()[rank : rank + 1]).square().mean().backward()
    torch.save([p.grad for p in model.parameters()], f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.more
def test_distributed_data_parallel(tmp_path):
    """Two processes with half of a batch each have the gradients of one with all of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_train_on, args=(port, str(tmp_path)), nprocs=2)
    torch.manual_seed(0)
    model = perturb(LiBrANet(TINY)).train()
    model(window()).square().mean().backward()
    for rank in range(2):
        gradients = torch.load(tmp_path / f"{rank}.pt")
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            assert torch.allclose(parameter.grad, gradient, atol=1e-6)
