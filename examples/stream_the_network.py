"""Use the network itself as a stream: state goes in and comes out, and every frame is encoded once."""

import torch

from libranet import load_model, start_stream, stream_step

network = load_model()
clip = [torch.rand(1, 3, 144, 256) for _ in range(6)]  # [B, 3, H, W] in [0, 1]

state = start_stream(network)  # look-ahead of two frames; lookahead=0 for live use; a new state after a cut
restored = []
for frame in clip:
    image, state = stream_step(network, frame, state)
    if image is not None:  # the first two steps only fill the window
        restored.append(image)
while state.waiting:  # the end of the clip: restore the frames that still wait
    image, state = stream_step(network, None, state)
    restored.append(image)
print(f"{len(clip)} frames in, {len(restored)} frames out")

with torch.no_grad():  # the windowed form gives the same result for the centre frame
    windowed = network(torch.stack(clip[:5], dim=1))  # [B, T, 3, H, W] -> [B, 3, H, W]
print(f"largest difference to the windowed network: {(windowed - restored[2]).abs().max():.1e}")
