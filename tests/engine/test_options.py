"""`DehazeOptions`: every field has one type and one range, checked where the options are made."""

import dataclasses

import numpy as np
import pytest

from libranet import DehazeOptions
from libranet.engine.options import Adjustments
from libranet.errors import InputError

STRANGE = (object(), "zzz", -1, float("nan"), ["zzz"], {}, b"x", 10**400, np.zeros(3))
FREE = {"preset": ("zzz",), "pixel_format": ("zzz",)}
"""Names that only an encoder can judge."""


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(DehazeOptions)])
@pytest.mark.parametrize("value", STRANGE, ids=lambda value: repr(value)[:12])
def test_strange_values_are_refused(field, value):
    if isinstance(value, str) and value in FREE.get(field, ()):
        assert getattr(DehazeOptions(**{field: value}), field) == value
        return
    with pytest.raises(InputError):
        DehazeOptions(**{field: value})


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Adjustments)])
@pytest.mark.parametrize("value", [object(), -1, float("nan"), {}, b"x", 10**400], ids=lambda value: repr(value)[:12])
def test_strange_adjustments_are_refused(field, value):
    with pytest.raises(InputError):
        Adjustments(**{field: value})


def test_numbers_are_no_truths_and_truths_no_numbers():
    for field in ("live", "deinterlace", "shot_detection", "two_pass"):
        with pytest.raises(InputError, match="True or False"):
            DehazeOptions(**{field: 1})
    for field in ("strength", "start", "crf", "segment_frames", "reconnect"):
        with pytest.raises(InputError, match="number"):
            DehazeOptions(**{field: True})


def test_numbers_of_numpy_and_lists_are_taken():
    options = DehazeOptions(
        strength=np.float32(0.5),
        crf=np.int64(20),
        live=np.bool_(True),
        audio_tracks=[0, 2],
        encoder_options=[["a", "b"]],
    )
    assert options == DehazeOptions(strength=0.5, crf=20, live=True, audio_tracks=(0, 2), encoder_options=(("a", "b"),))
    assert hash(options)


def test_the_sentence_names_field_value_and_choices():
    with pytest.raises(InputError, match=r"expected view as result, haze, removed or confidence, got 'fog'"):
        DehazeOptions(view="fog")
    with pytest.raises(InputError, match=r"expected crf as a whole number, got 'high'"):
        DehazeOptions(crf="high")
