"""docs/kept.md is what the suite measures."""

from pathlib import Path

import pytest
from conformance_sources import FFMPEG, FFPROBE
from container_sources import MKVMERGE
from image_sources import EXIFTOOL
from kept_table import measure

PAGE = Path(__file__).parents[2] / "docs" / "kept.md"


@pytest.mark.slow
@pytest.mark.skipif(
    not (FFMPEG and FFPROBE and MKVMERGE and EXIFTOOL),
    reason="ffmpeg, mkvtoolnix or exiftool is not installed: apt-get install ffmpeg mkvtoolnix libimage-exiftool-perl",
)
def test_the_page_is_true():
    assert PAGE.read_text() == measure()
