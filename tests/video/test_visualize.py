import numpy as np
import pytest

from libranet.video.visualize import contact_sheet


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
