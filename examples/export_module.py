"""The network as any torch module: exported for every batch size, and without a wait for the GPU inside."""

import torch

from libranet import load_model

network = load_model()
frames = torch.rand(2, 5, 3, 64, 96)  # [B, T, 3, H, W] in [0, 1]
program = torch.export.export(network, (frames,), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},))
torch.export.save(program, "libranet.pt2")
with torch.no_grad():
    same = torch.equal(torch.export.load("libranet.pt2").module()(frames), network(frames))
print(f"libranet.pt2: the same bits: {same}")
# torch.compile(network, fullgraph=True) and network.to(memory_format=torch.channels_last) work as well.
