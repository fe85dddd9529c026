import torch

from libranet.kernels.color_field.reference import apply_affine


def test_equals_a_matrix_product_per_pixel():
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(2, 3, 3, 4, 5, dtype=torch.float64, generator=generator)
    offset, image = torch.randn(2, 2, 3, 4, 5, dtype=torch.float64, generator=generator).unbind(0)
    found = apply_affine(matrix, offset, image)
    for i in range(4):
        for j in range(5):
            expected = matrix[1, :, :, i, j] @ image[1, :, i, j] + offset[1, :, i, j]
            torch.testing.assert_close(found[1, :, i, j], expected)


def test_identity_and_zero_return_the_image_bit_for_bit():
    image = torch.rand(1, 3, 6, 7)
    eye = torch.eye(3).view(1, 3, 3, 1, 1).expand(1, 3, 3, 6, 7)
    assert torch.equal(apply_affine(eye, torch.zeros_like(image), image), image)


def test_gradients():
    inputs = tuple(
        torch.randn(1, *shape, dtype=torch.float64).requires_grad_() for shape in ((3, 3, 2, 2), (3, 2, 2), (3, 2, 2))
    )
    assert torch.autograd.gradcheck(apply_affine, inputs)
