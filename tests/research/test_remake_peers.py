"""The figures of docs/comparison.md are those of the raw values, and so are its rows."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_page_agrees_with_raw_values(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "research" / "remake_peers.py", "--images", tmp_path]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name in ("peers-fps-by-size.svg", "peers-quality-by-fps.svg"):
        assert (tmp_path / name).read_text() == (ROOT / "docs" / "images" / name).read_text()
    page = (ROOT / "docs" / "comparison.md").read_text()
    notes = (ROOT / "research" / "comparison-notes.md").read_text()
    rows = [line.removesuffix(" |").split(" | ", 1) for line in printed.splitlines() if line.startswith("| `")]
    assert len(rows) == 19
    for model, values in rows:
        psnr, _, lpips, clips_psnr, *_ = values.split(" | ")
        for text, cells in ((page, f"| {psnr} | {lpips} | {clips_psnr} |"), (notes, values)):
            assert any(line.startswith(f"{model} ") and cells in line for line in text.splitlines()), model
