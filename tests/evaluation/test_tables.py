"""The paper's tables: the columns of the set at hand, and three formats."""

import csv
import io

from libranet.evaluation.summary import Estimate
from libranet.evaluation.tables import compare_with_paper, format_table


def table(dataset: str):
    models = {"my_net": {"psnr": Estimate(20.5, 0.25, 3), "ssim": Estimate(0.9, None, 1)}}
    return compare_with_paper("main", models, dataset=dataset, not_measured={"lpips": "not asked for"})


def test_the_main_table_has_the_columns_of_the_set():
    last = {name: table(name).rows[-1] for name in ("REVIDE", "hazeworld-test", "uhv4k")}
    assert {row.method for row in last.values()} == {"LiBrA-Net"}
    assert [row.cells[0] for row in last.values()] == ["21.43", "27.46", "24.28"]
    assert table("REVIDE").rows[1].cells == ("14.98", "0.7820", "0.3476")
    assert len({len(table(name).rows) for name in last}) == 1


def test_a_table_is_printed_for_papers_pages_and_programs():
    rows = list(csv.reader(io.StringIO(format_table(table("uhv4k"), "csv"))))
    assert rows[0] == ["method", "source", "PSNR ↑", "SSIM ↑", "LPIPS ↓"]
    assert rows[1] == ["my_net", "measured", "20.50 ± 0.25", "0.9000", "not measured"]
    assert {len(row) for row in rows} == {5}
    latex = format_table(table("uhv4k"), "latex")
    assert r"my\_net & measured & 20.50 $\pm$ 0.25 & 0.9000 & not measured \\" in latex
    assert r"method & source & PSNR $\uparrow$" in latex
    assert latex.endswith("\\bottomrule\n\\end{tabular}\n")
    markdown = format_table(table("uhv4k"), "md")
    assert "| my_net | measured | 20.50 ± 0.25 | 0.9000 | not measured |" in markdown
    assert "|---|---|---|---|---|" in markdown
