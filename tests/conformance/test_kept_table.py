"""docs/kept.md is what the suite measures."""

from pathlib import Path

import pytest
from conformance_sources import FFMPEG, FFPROBE
from kept_table import measure

PAGE = Path(__file__).parents[2] / "docs" / "kept.md"


@pytest.mark.slow
@pytest.mark.skipif(not (FFMPEG and FFPROBE), reason="Debian's ffmpeg is not installed: apt-get install ffmpeg")
def test_the_page_is_true():
    assert PAGE.read_text() == measure()
