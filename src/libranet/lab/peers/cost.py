"""Parameters and GFLOPs of any network, per top-level module, by torch's flop counter on tensors without storage."""

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from libranet.lab.peers.table import find_peer
from libranet.network import LiBrANet, Network
from libranet.network.cost import Cost, PartCost, Traced, count_parameters, gflops_of, measure_cost
from libranet.network.peer import Peer, RecurrentPeer


def network_cost(network: Network, *, width: int = 3840, height: int = 2160) -> Cost:
    """Count a network's parameters and GFLOPs (two per multiply-add) for one restored frame."""
    if isinstance(network, LiBrANet):
        return measure_cost(network.config, width=width, height=height)
    return peer_cost(network.architecture, width=width, height=height)


def peer_cost(name: str, *, width: int = 3840, height: int = 2160) -> Cost:
    """Count for a peer by its name. For a network with a memory, one step of a stream whose memory is full."""
    entry = find_peer(name)
    peer = entry.build_on_meta().eval()
    if isinstance(peer, LiBrANet):  # a user's own network that extends ours
        return measure_cost(peer.config, width=width, height=height)
    assert isinstance(peer, Peer)
    counted = entry.parameters > 0
    with torch.device("meta"):
        window = torch.zeros(1, peer.config.past + 1 + peer.config.future, 3, height, width)
    if counted:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):  # attention is counted from its matrix products
            counter = _count(peer, peer.pad(window))
    parts = tuple(
        PartCost(part, count_parameters(module), *((_gflops(counter, part, module),) * 2))
        for part, module in peer.named_children()
        if count_parameters(module)
    )
    gflops = counter.get_total_flops() / 1e9 if counted else 0.0
    return Cost((width, height), parts, count_parameters(peer), gflops, gflops)


def _gflops(counter: FlopCounterMode, part: str, module: nn.Module) -> float:
    """What was counted inside a part. A list is never called itself, so its members are summed."""
    if isinstance(module, nn.ModuleList):
        return sum(_gflops(counter, f"{part}.{name}", child) for name, child in module.named_children())
    return gflops_of(counter, part)


def _count(peer: Peer, window: torch.Tensor) -> FlopCounterMode:
    if not isinstance(peer, RecurrentPeer):
        with FlopCounterMode(display=False) as counter:
            Traced(peer, lambda net: net.restore(window))()
        return counter
    state, frame = None, window[:, -1]
    for _ in range(max(peer.config.past, 1)):
        _, state = peer.step(frame, state)
    with FlopCounterMode(display=False) as counter:
        Traced(peer, lambda net: net.step(frame, state))()
    return counter
