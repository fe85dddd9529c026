import numpy as np
import pytest
import torch

from libranet.video.draw import contact_sheet, haze_picture, split_picture


@pytest.mark.parametrize("size", [(16, 16), (48, 64), (192, 320), (1080, 1920), (720, 400)])
def test_split_has_both_halves_and_a_line(size):
    before, after = torch.zeros(1, 3, *size), torch.full((1, 3, *size), 0.5)
    picture = split_picture(before, after)
    row = picture[0, 0, -1]
    middle = size[1] // 2
    assert row[: middle - 3].max() == 0
    assert row[middle] == 1
    assert (row[middle + 3 :] == 0.5).all()
    assert picture.min() >= 0
    assert picture.max() <= 1


@pytest.mark.parametrize("size", [(16, 16), (192, 320), (161, 243), (1080, 1920)])
def test_dense_haze_is_brighter_than_clear_air(size):
    transmission = torch.ones(1, 1, size[0] // 4, size[1] // 4)
    transmission[..., : size[1] // 8] = 0.1
    picture = haze_picture(transmission, size)
    assert picture.shape == (1, 3, *size)
    assert (
        picture[..., : size[0] // 2, : size[1] // 4].mean() > picture[..., : size[0] // 2, -size[1] // 4 :].mean() + 0.2
    )


@pytest.mark.parametrize("size", [(96, 160), (1280, 720), (720, 1280)])
def test_a_contact_sheet_has_a_row_per_pair(size):
    dark, light = np.zeros((*size, 3), np.uint8), np.full((*size, 3), 200, np.uint8)
    one = contact_sheet([(dark, light, "0 s")], title="a.mp4")
    two = contact_sheet([(dark, light, "0 s")] * 2, title="a.mp4")
    assert one.dtype == np.uint8
    assert two.shape[0] > 1.5 * one.shape[0] - 100
    assert two.shape[1] == one.shape[1]
    middle = one.shape[1] // 2
    assert one[-60, middle - 100].tolist() == [0, 0, 0]
    assert one[-60, middle + 100].tolist() == [200, 200, 200]
