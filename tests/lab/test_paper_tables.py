"""The paper's tables: the columns of the set at hand, and three formats."""

import csv
import io
from pathlib import Path

from libranet.evaluation.summary import Estimate
from libranet.lab.paper.printed import format_table
from libranet.lab.paper.tables import compare_with_paper


def table(dataset: str):
    models = {"my_net": {"psnr": Estimate(20.5, 0.25, 3), "ssim": Estimate(0.9, None, 1)}}
    return compare_with_paper("main", models, dataset=Path(dataset), not_measured={"lpips": "not asked for"})


def test_the_main_table_has_the_columns_of_the_set():
    last = {name: table(name).rows[-1] for name in ("REVIDE", "hazeworld-test", "uhv4k")}
    assert {row.method for row in last.values()} == {"LiBrA-Net"}
    assert [row.cells[0] for row in last.values()] == ["21.43", "27.46", "24.28"]
    assert table("REVIDE").rows[1].cells[:3] == ("14.98", "0.7820", "0.3476")
    assert table("data/REVIDE/Test").rows == table("REVIDE").rows, "the part of a set is that set"
    assert table("REVIDE").headings[0::3] == ("PSNR ↑, REVIDE", "PSNR ↑, UHV-4K", "PSNR ↑, HazeWorld")
    assert table("REVIDE").rows[0].cells[3:] == ("-",) * 6, "measured on one set"
    assert table("REVIDE").rows[-1].cells[3::3] == ("24.28", "27.46")
    assert len({len(table(name).rows) for name in last}) == 1


def test_the_truth_is_the_reference_of_temporal_metrics_and_no_row_of_fidelity():
    values = {"psnr": Estimate(100.0, None, 2), "tof": Estimate(0.004, None, 2), "sigma_psnr": Estimate(0.0, None, 2)}
    temporal = compare_with_paper("temporal", {"truth": values}, dataset=Path("set"), not_measured={})
    assert temporal.rows[0].cells == ("0.004000", "-", "-")
    main = compare_with_paper("main", {"truth": values}, dataset=Path("set"), not_measured={})
    assert main.rows[0].source == "reported"


def test_the_note_names_every_estimator_beside_the_papers():
    found = compare_with_paper(
        "downstream",
        {"a": {}},
        dataset=Path("set"),
        not_measured={"musiq": "no weights"},
        estimators={"tof": "DIS", "detection": "yolov8n (plain torch)", "niqe": "MATLAB"},
    )
    assert "detection by yolov8n (plain torch) (paper: YOLOv8-X)" in found.note
    assert "NIQE by MATLAB (paper: variant not stated)" in found.note
    assert "DIS" not in found.note
    assert "MUSIQ: no weights" in found.note


def test_a_table_is_printed_for_papers_pages_and_programs():
    rows = list(csv.reader(io.StringIO(format_table(table("uhv4k"), "csv"))))
    assert rows[0][:5] == ["method", "source", "PSNR ↑, UHV-4K", "SSIM ↑, UHV-4K", "LPIPS ↓, UHV-4K"]
    assert rows[1][:5] == ["my_net", "measured", "20.50 ± 0.25", "0.9000", "not measured"]
    assert {len(row) for row in rows} == {11}
    latex = format_table(table("uhv4k"), "latex")
    assert r"my\_net & measured & 20.50 $\pm$ 0.25 & 0.9000 & not measured & - " in latex
    assert r"method & source & PSNR $\uparrow$, UHV-4K" in latex
    assert latex.endswith("\\bottomrule\n\\end{tabular}\n")
    markdown = format_table(table("uhv4k"), "md")
    assert "| my_net | measured | 20.50 ± 0.25 | 0.9000 | not measured | - |" in markdown
    assert "|" + "---|" * 11 in markdown


def test_a_set_of_ones_own_has_columns_of_its_own():
    found = table("data/revide-like/my-haze")
    assert found.headings[0::3] == (
        "PSNR ↑, my-haze", "PSNR ↑, UHV-4K", "PSNR ↑, REVIDE", "PSNR ↑, HazeWorld",
    )  # fmt: skip
    assert found.rows[0].cells == ("20.50 ± 0.25", "0.9000", "not measured", *("-",) * 9)
    assert found.rows[-1].cells[0::3] == ("-", "24.28", "21.43", "27.46")
    assert {len(row.cells) for row in found.rows} == {12}


def test_wide_tables_keep_their_intervals():
    models = {"a": {"niqe": Estimate(4.25, 0.5, 3)}}
    found = compare_with_paper("downstream", models, dataset=Path("set"), not_measured={})
    assert len(found.headings) > 4
    assert any("± 0.5" in cell for cell in found.rows[0].cells)
