"""The README's links stay true."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_links_in_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)#]+)\)|src=\"([^\"]+)\"", text)
    local = [a or b for a, b in targets if not (a or b).startswith("http")]
    assert local
    assert [target for target in local if not (ROOT / target).exists()] == []
