"""The README's links and the package's version stay true."""

from pathlib import Path

import tomllib

import libranet

ROOT = Path(__file__).parents[1]


def test_links_in_the_readme_lead_somewhere():
    import re

    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)#]+)\)|src=\"([^\"]+)\"", text)
    local = [a or b for a, b in targets if not (a or b).startswith("http")]
    assert local
    assert [target for target in local if not (ROOT / target).exists()] == []


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == libranet.__version__
    assert f"## {libranet.__version__}" in (ROOT / "CHANGELOG.md").read_text()
