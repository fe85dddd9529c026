"""The Colab notebook, run from top to bottom by Jupyter's own client. The cell that installs stays out."""

import json
import re

import pytest
from hosts import PLUGINS, host, run

NOTEBOOK = PLUGINS / "colab" / "libranet.ipynb"
PROGRAM = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
notebook.cells = [cell for cell in notebook.cells if "install" not in cell.metadata.get("tags", [])]
NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
nbformat.write(notebook, "done.ipynb")
"""


@pytest.mark.slow
def test_every_cell_runs(tmp_path):
    programs = host("apps")
    settings = {"PATH": f"{programs}:/usr/bin:/bin", "JUPYTER_RUNTIME_DIR": str(tmp_path), "IPYTHONDIR": str(tmp_path)}
    run(programs / "python", "-c", PROGRAM, NOTEBOOK, folder=tmp_path, **settings)
    cells = json.loads((tmp_path / "done.ipynb").read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    text = "".join("".join(output.get("text", "")) for output in outputs)
    kinds = [kind for output in outputs for kind in output.get("data", {})]
    assert kinds.count("image/png") == 2
    assert re.search(r"50 frames of 960x540 in [\d.]+ s by (plain|cpu-\w+|fused)", text)
    assert "foggy.mp4" in text
    assert "libranet" in text.rpartition("frames of")[2]  # doctor's report
    assert (tmp_path / "clear.mp4").stat().st_size > 0


def test_it_is_stored_without_results():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert [cell["metadata"].get("tags") for cell in code].count(["install"]) == 1
