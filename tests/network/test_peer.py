"""The interface of peers."""

import torch
from torch import Tensor, nn

from libranet.network.peer import Peer, PeerConfig


class Bright(Peer):
    """Twice the frame, so that half of the result lies outside the range."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("bright"))
        self.gain = nn.Parameter(torch.tensor(2.0))

    def restore(self, frames: Tensor) -> Tensor:
        return self.gain * frames[:, 0]


def test_the_loss_sees_clamped_frames_and_gradients_pass_the_clamp() -> None:
    peer, frame = Bright().train(), torch.linspace(0.6, 1.0, 48).view(1, 1, 3, 4, 4)
    image = peer.predict(frame).image
    assert torch.equal(image, torch.ones_like(image))
    (image - 0.5).square().sum().backward()
    assert peer.gain.grad is not None
    torch.testing.assert_close(peer.gain.grad, frame.sum())  # 2 (1 - 0.5) frame, although all was clamped
    assert torch.equal(peer.eval().predict(frame).image, image)
