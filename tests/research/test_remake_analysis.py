"""The page of the analysis is filled between its markers."""

import importlib.util
from pathlib import Path

import cv2
import numpy as np
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


def test_figures_are_reduced_and_photos_become_jpeg(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    cv2.imwrite(str(tmp_path / "heatmap.png"), rng.integers(0, 255, (700, 2000, 3), np.uint8))
    cv2.imwrite(str(tmp_path / "anatomy.png"), np.full((100, 300, 3), 255, np.uint8))
    names = remake.copy_figures(tmp_path, tmp_path / "images")
    assert names == ["analysis-anatomy.png", "analysis-heatmap.jpg"]
    assert cv2.imread(str(tmp_path / "images" / names[1])).shape == (490, 1400, 3)


def test_the_tables_of_a_study_go_onto_the_page_alone(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("numbers stay\n<!-- ablation: begin -->\nnothing yet\n<!-- ablation: end -->\n")
    (tmp_path / "ablation.md").write_text("# Ablation study: 2 steps\n\n**(a) Table**\n")
    arguments = ["--clips", "0", "--large", "0", "--ablation", str(tmp_path), "--page", str(page)]
    monkeypatch.setattr("sys.argv", ["remake_analysis.py", *arguments])
    remake.main()
    assert page.read_text() == "numbers stay\n<!-- ablation: begin -->\n**(a) Table**\n<!-- ablation: end -->\n"
