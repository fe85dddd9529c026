"""The last step of training in one pass against upsampling, shuffling, adding and clamping, gradients included."""

import torch
import torch.nn.functional as F

from libranet.kernels.resample.reference import upsample


def test_values_and_gradients(device: str) -> None:
    from libranet.kernels.upsample_add.triton import enlarge

    torch.manual_seed(0)
    frame = torch.rand(2, 3, 20, 36, device=device)
    frame[0, :, :3] = 0.0  # on the clamp's edge, where the gradient passes
    correction = torch.randn(2, 3, 5, 9, device=device) * 0.2
    correction[0] = 0.0
    residual = torch.randn(2, 48, 5, 9, device=device) * 0.2
    residual[0] = 0.0
    leaves = [correction.requires_grad_(), residual.requires_grad_()]
    upstream = torch.randn(frame.shape, device=device)
    plain = (frame + upsample(correction, (20, 36)) + F.pixel_shuffle(residual, 4)).clamp(0.0, 1.0)
    ours = enlarge(frame, *leaves)
    torch.testing.assert_close(ours, plain)
    expected = torch.autograd.grad(plain, leaves, upstream)
    for a, b in zip(torch.autograd.grad(ours, leaves, upstream), expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
