"""How much code a local `libranet dehaze` loads: a stranger must be able to read the way of a frame."""

import ast
import json
import subprocess
import sys
from pathlib import Path

from clips import Clip, write_clip
from libranet.network import LiBrANet, save_checkpoint
from tiny_network import TINY, perturb

PROGRAM = """
import json, sys
from libranet.cli.main import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
loaded = {name: module.__file__ for name, module in sys.modules.items() if name.startswith("libranet")}
print(json.dumps({name: file for name, file in loaded.items() if file}))
"""


def test_a_local_dehaze_loads_few_files_and_nothing_of_the_laboratory(tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=3))
    save_checkpoint(perturb(LiBrANet(TINY)), tmp_path / "tiny.safetensors")
    words = ["dehaze", str(source), "-o", str(tmp_path / "out.mp4"), "--model", str(tmp_path / "tiny.safetensors")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, "--device", "cpu", "-q"], capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "libranet.engine.video" in loaded
    others = ("adjust", "dehazer", "image_files", "parts", "preview", "stream", "transfer", "two_pass", "views")
    unwanted = ("lab", "cluster", "training", *(f"engine.{name}" for name in others))
    assert [name for name in loaded if name.startswith(tuple(f"libranet.{part}" for part in unwanted))] == []
    texts = [Path(file).read_text() for file in loaded.values()]
    classes = sum(isinstance(node, ast.ClassDef) for text in texts for node in ast.walk(ast.parse(text)))
    assert len(texts) <= 85
    assert sum(len(text.splitlines()) for text in texts) <= 13_000
    assert classes <= 150
