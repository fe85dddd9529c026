"""The last step of training in one pass against its reference, gradients included."""

import torch

from libranet.kernels.upsample_add import reference


def test_values_and_gradients(device: str) -> None:
    from libranet.kernels.upsample_add.triton import upsample_add

    torch.manual_seed(0)
    frame = torch.rand(2, 3, 20, 36, device=device)
    frame[0, :, :3] = 0.0  # on the clamp's edge, where the gradient passes
    correction = torch.randn(2, 3, 5, 9, device=device) * 0.2
    correction[0] = 0.0
    residual = torch.randn(2, 48, 5, 9, device=device) * 0.2
    residual[0] = 0.0
    leaves = [correction.requires_grad_(), residual.requires_grad_()]
    upstream = torch.randn(frame.shape, device=device)
    ours, plain = (function(frame, *leaves) for function in (upsample_add, reference.upsample_add))
    torch.testing.assert_close(ours, plain)
    gradients = (torch.autograd.grad(out, leaves, upstream) for out in (ours, plain))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
