"""A published model of our own making."""

from pathlib import Path

import pytest

from tiny_release import Release, make_release


@pytest.fixture
def release(tmp_path: Path) -> Release:
    """A package archive, an index that lists it, and its row of the table."""
    return make_release(tmp_path)
