import pytest
import torch

from libranet.kernels.resample.reference import downsample, pad_to_multiple, upsample


def test_a_quarter_is_the_triangle_filter_of_eight_taps():
    image = torch.rand(1, 3, 32, 48, generator=torch.Generator().manual_seed(0))
    taps = torch.tensor([1.0, 3, 5, 7, 7, 5, 3, 1]) / 32
    small = downsample(image, (8, 12))
    # An inner pixel: rows and columns 4k-2 .. 4k+5.
    expected = torch.einsum("cij,i,j->c", image[0, :, 10:18, 14:22], taps, taps)
    torch.testing.assert_close(small[0, :, 3, 4], expected)


def test_fine_texture_averages_out_instead_of_aliasing():
    checker = (torch.arange(256)[:, None] + torch.arange(256)) % 2
    small = downsample(checker.float().expand(1, 3, 256, 256), (64, 64))
    torch.testing.assert_close(small[..., 2:-2, 2:-2], torch.full((1, 3, 60, 60), 0.5), atol=1e-5, rtol=0)


def test_the_range_is_kept():
    for size in ((64, 64), (256, 256), (67, 120)):
        small = downsample(torch.ones(1, 3, 270, 481), size)
        assert small.max() <= 1.0
        assert small.min() > 1.0 - 1e-6


@pytest.mark.parametrize("size", [(16, 16), (17, 23), (717, 1279)])
def test_padding_reflects_and_cropping_gives_the_image_back(size):
    image = torch.rand(1, 3, *size)
    padded = pad_to_multiple(image, 4)
    assert padded.shape[-2] % 4 == padded.shape[-1] % 4 == 0
    assert torch.equal(padded[..., : size[0], : size[1]], image)
    if size[1] % 4:
        assert torch.equal(padded[..., : size[0], size[1]], image[..., -2])


def test_enlarging_a_constant_is_exact_and_a_ramp_stays_linear_inside():
    assert torch.equal(upsample(torch.full((1, 3, 4, 4), 0.25), (16, 16)), torch.full((1, 3, 16, 16), 0.25))
    ramp = torch.arange(8.0).expand(1, 1, 8, 8)
    big = upsample(ramp, (32, 32))[0, 0, 0]
    torch.testing.assert_close(big[2:-2].diff(), torch.full((27,), 0.25))
