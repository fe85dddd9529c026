"""Comparisons and heat maps of photos that a viewer turns: drawn upright, as people see them."""

import numpy as np
import pytest

from libranet.engine import DehazeOptions
from libranet.engine.image_files import dehaze_image

Pillow = pytest.importorskip("PIL.Image")
from PIL import ImageOps  # noqa: E402

UPRIGHT = np.random.default_rng(0).integers(40, 200, (96, 160, 3), np.uint8)
STORED = {
    1: None,
    2: Pillow.Transpose.FLIP_LEFT_RIGHT,
    3: Pillow.Transpose.ROTATE_180,
    4: Pillow.Transpose.FLIP_TOP_BOTTOM,
    5: Pillow.Transpose.TRANSPOSE,
    6: Pillow.Transpose.ROTATE_90,
    7: Pillow.Transpose.TRANSVERSE,
    8: Pillow.Transpose.ROTATE_270,
}
"""What Pillow has to do with the upright image so that a viewer that knows the orientation undoes it."""


def shown(path):
    return np.asarray(ImageOps.exif_transpose(Pillow.open(path)))


@pytest.mark.parametrize("options", [{"compare": "split"}, {"compare": "side"}, {"view": "removed"}], ids=str)
@pytest.mark.parametrize("orientation", STORED)
def test_drawings_are_upright(tmp_path, tiny_model, orientation, options):
    upright = Pillow.fromarray(UPRIGHT)
    upright.save(tmp_path / "upright.png")
    stored = upright if STORED[orientation] is None else upright.transpose(STORED[orientation])
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "in.png", exif=exif)
    assert np.array_equal(shown(tmp_path / "in.png"), UPRIGHT)
    settings = DehazeOptions(strength=0.0, **options)
    for name in ("upright", "in"):
        dehaze_image(tmp_path / f"{name}.png", tmp_path / f"{name}-out.png", tiny_model, options=settings)
    assert np.array_equal(shown(tmp_path / "in-out.png"), shown(tmp_path / "upright-out.png"))
