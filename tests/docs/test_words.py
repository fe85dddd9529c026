"""Names, docstrings, comments and documentation use the words of the field, not private ones."""

import re

import pytest

from markdown_blocks import DOCUMENTS, ROOT

FORBIDDEN = re.compile(r"picture|told from|house|of which|is said|what may vary", re.IGNORECASE)
"""Instead: image or frame; estimated from; package or module; and plain sentences."""
PACKAGE = ROOT / "src" / "libranet"
SOURCES = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "examples").glob("*.py"))]
PROSE = [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "research" / "README.md", PACKAGE / "page" / "NOTICE.md"]


@pytest.mark.parametrize("paths", [SOURCES, PROSE], ids=["sources", "documents"])
def test_no_private_words(paths):
    assert paths
    found = [str(path) for path in paths if FORBIDDEN.search(str(path.relative_to(ROOT)))]
    found += [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert found == []
