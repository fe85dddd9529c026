"""Every script in examples/ runs as it stands, in an empty folder, with a tiny network for the packaged weights."""

import runpy
from pathlib import Path

import pytest

from libranet.network import checkpoint, save_checkpoint

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
EXPECTED = {
    "add_haze.py": ("visibility 100 m", ["haze_densities.png"]),
    "choose_strength.py": ("strength 1.5", ["strengths.png"]),
    "compare_and_preview.py": ("split.mp4", ["sheet.png", "split.mp4", "removed.mp4"]),
    "dehaze_file.py": ("10 frames in", ["clear.mp4"]),
    "dehaze_frames.py": ("NumPy: 6 frames, (540, 960, 3) uint8", []),
    "dehaze_image.py": ("contrast", ["before_after.png"]),
    "dehaze_live.py": ("frame 5", []),
    "demo.py": ("50 frames of 960x540", ["demo/clear.mp4", "demo/before_after.png"]),
    "evaluate_folder.py": ("clip, restored", ["pairs/hazy/clip/0003.png"]),
    "inspect_grids.py": ("transmission from", ["haze.png"]),
    "export_module.py": ("the same bits: True", ["libranet.pt2"]),
    "frames_in_and_out.py": ("10 frames in clear.mp4", ["frames/00010.png", "clear.mp4"]),
    "own_parts.py": ("4 steps, own_parts:Net, output (3, 90, 160)", ["own/model.safetensors"]),
    "render_scenes.py": ("frame 1: depth up to", ["scene-1.png"]),
    "score_results.py": ("clip, theirs:", ["report/clips/clip/theirs.csv"]),
    "stream_the_network.py": ("6 frames in, 6 frames out", []),
    "train_on_pairs.py": ("2 steps -> mine/model.safetensors", ["mine/model.safetensors"]),
    "train_tiny.py": ("6 steps in", ["run/model.safetensors"]),
}
"""What each example prints, and the files it leaves."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_runs(name, tiny_model, tmp_path, monkeypatch, capsys):
    weights = tmp_path / "tiny.safetensors"
    save_checkpoint(tiny_model, weights)
    monkeypatch.setattr(checkpoint, "packaged_weights", lambda: weights)
    monkeypatch.setattr("sys.argv", [name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)  # as `python examples/NAME.py` has it
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed, files = EXPECTED[name]
    assert printed in capsys.readouterr().out
    for file in files:
        assert (tmp_path / file).stat().st_size > 0


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "demo.py"])
def test_is_short_and_in_the_gallery(name):
    lines = (EXAMPLES / name).read_text().splitlines()
    assert len(lines) <= 40
    assert f"examples/{name}" in (EXAMPLES.parent / "docs" / "gallery.md").read_text()
