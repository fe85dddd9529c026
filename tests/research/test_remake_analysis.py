"""The page of the analysis is filled between its markers."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("remake_analysis", ROOT / "research" / "remake_analysis.py")
assert spec is not None
assert spec.loader is not None
remake = importlib.util.module_from_spec(spec)
spec.loader.exec_module(remake)


def test_the_page_has_the_markers_that_the_script_fills():
    text = (ROOT / "docs" / "analysis.md").read_text()
    for name in ("numbers", "figures", "ablation"):
        filled = remake.fill(text, name, "new content")
        assert f"<!-- {name}: begin -->\nnew content\n<!-- {name}: end -->" in filled
        assert remake.fill(filled, name, "again").count("again") == text.count("again") + 1
    with pytest.raises(SystemExit, match="markers"):
        remake.fill("no markers", "numbers", "")


def test_numbers_become_a_table():
    content = {
        "weights_name": "net",
        "weights_version": "2",
        "dataset": "a set",
        "created": "today",
        "probes": {
            "heatmap": {"mean_change": {"hazy": 0.25}},
            "transmission": {"not_measured": "the set has no true transmission"},
        },
    }
    table = remake.numbers_table(content)
    assert table.startswith("net 2 on a set (today):")
    assert "| heatmap | change per frame, hazy | 0.25 | – |" in table
    assert "| transmission | not measured: the set has no true transmission | – | – |" in table
