"""Values with units, and job lists, for any text."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libranet.cli.dehaze_jobs import plan_jobs
from libranet.cli.units import parse_bitrate, parse_numbers, parse_pairs, parse_time
from libranet.errors import InputError


@given(hours=st.integers(0, 99), minutes=st.integers(0, 59), seconds=st.integers(0, 59), millis=st.integers(0, 999))
def test_times_in_every_spelling_agree(hours, minutes, seconds, millis):
    exact = hours * 3600 + minutes * 60 + seconds + millis / 1000
    assert parse_time(f"{hours}:{minutes:02}:{seconds:02}.{millis:03}", "--start") == pytest.approx(exact)
    assert parse_time(f"{60 * hours + minutes}:{seconds:02}.{millis:03}", "--start") == pytest.approx(exact)
    assert parse_time(f"{exact:.3f}", "--start") == pytest.approx(exact)


@settings(max_examples=300)
@given(text=st.text(max_size=12))
def test_any_other_text_is_one_sentence(text):
    for parse in (lambda t: parse_time(t, "--end"), parse_bitrate, lambda t: parse_numbers(t, "--audio-tracks")):
        with suppress(InputError):
            value = parse(text)
            assert min(value if isinstance(value, tuple) else (value,)) >= 0  # NaN fails this, too


def test_values():
    assert parse_bitrate("8M") == 8_000_000
    assert parse_bitrate("2500k") == 2_500_000
    assert parse_pairs(["tune=film", "x=a=b"], "--encoder-option") == (("tune", "film"), ("x", "a=b"))
    with pytest.raises(InputError, match="key=value"):
        parse_pairs(["tune"], "--encoder-option")
    for wrong in ("nan", "inf", "-1", "1:2:3:4", ""):
        with pytest.raises(InputError, match="hh:mm:ss"):
            parse_time(wrong, "--start")


@settings(max_examples=100, deadline=None)
@given(
    stems=st.lists(st.text("abc %.é-", min_size=1, max_size=8), min_size=2, max_size=5, unique=True),
    template=st.sampled_from(
        ["{stem}-clear.mp4", "out/{name}.mkv", "{folder}/{stem}_{number}.mkv", "out", "o/{stem}{suffix}"]
    ),
)
def test_every_input_gets_an_output_of_its_own(stems, template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch")
    files = [folder / f"{stem}.mp4" for stem in stems]
    for file in files:
        file.write_bytes(b"x")
    jobs = plan_jobs([str(file) for file in files], template, live=False)
    assert [job.source.path for job in jobs] == files
    assert len({job.output for job in jobs}) == len(files)
