"""The page: self-contained, honest about what is missing, worst clip first."""

import json
import re
from pathlib import Path

from libranet.evaluation.clips import open_dataset
from libranet.evaluation.figures import interval_chart
from libranet.evaluation.html_report import render_report
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import open_restorers
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import prepare_scores
from libranet.evaluation.summary import ReportContent, RunInfo, summarise_models, write_summaries
from libranet.lab.paper.printed import PrintedTable, as_html
from libranet.lab.paper.tables import compare_with_paper
from libranet.network import WeightsInfo
from tiny_set import write_pairs


def _content(folder: Path) -> tuple[ReportContent, ResultStore, PrintedTable]:
    write_pairs(folder / "set", ("light & easy", "heavy"), count=3)
    clips = open_dataset(folder / "set")
    metrics = choose_metrics("psnr,ssim,tof,sigma_psnr,niqe,musiq,det")
    scores = prepare_scores(metrics, paired=True, smallest=(64, 48), flow="dis", cache=folder / "no-cache")
    store = ResultStore(folder / "report")
    results = evaluate(clips, open_restorers(["identity", "dcp"]), scores, store, subject="dcp")
    content = ReportContent(
        info=RunInfo(
            dataset="<set>",
            paired=True,
            created="today",
            version="1",
            weights={"ours": WeightsInfo("libranet-base", "1.0")},
            machine="a machine",
        ),
        subject="dcp",
        metrics=metrics,
        not_measured=scores.not_measured,
        estimators=scores.estimators,
        seconds=dict(scores.seconds),
        results=results,
    )
    models = summarise_models(content.clips)
    table = compare_with_paper("main", models, dataset=Path("set"), not_measured={"lpips": "not asked for"})
    return content, store, table


def test_the_page(tmp_path: Path) -> None:
    content, store, table = _content(tmp_path)
    page = render_report(content, store, as_html(table))
    assert "Evaluation on &lt;set&gt;" in page
    assert "light &amp; easy" in page
    assert (
        "libranet 1 · ours: weights libranet-base 1.0 · a machine · identity: backend plain · dcp: backend plain"
        in page
    )
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", page), "a page that loads nothing"
    assert page.count("<script") == 1, "our own, for sorting and the divider"
    assert page.count("data:image/jpeg;base64,") == 2 * 3 * 3, "two clips, three rows, hazy and dcp and clear"
    worst = {c.clip: c.values["psnr"] for c in content.clips if c.model == "dcp"}
    first, second = sorted(worst, key=worst.__getitem__)
    panels = page[page.index("Worst frames first") : page.index("Every clip")]
    names = [name.replace("&", "&amp;") for name in (first, second)]
    assert panels.index(names[0]) < panels.index(names[1])
    assert "NIQE needs frames of at least 194x194" in page
    assert "MUSIQ" in page
    assert "no detector given" in page
    assert "opencv-dis" in page[page.index("How it was measured") :], "the flow estimator is named"
    assert "reported" in page


def test_the_files(tmp_path: Path) -> None:
    content, store, _ = _content(tmp_path)
    write_summaries(content, store.folder)
    summary = json.loads((store.folder / "summary.json").read_text())
    assert set(summary["models"]) == {"identity", "dcp"}
    estimate = summary["models"]["identity"]["psnr"]
    assert estimate["clips"] == 2
    assert estimate["half_width_95"] is None  # two clips
    assert summary["backends"] == {"identity": "plain", "dcp": "plain"}
    assert summary["not_measured"].keys() == {"niqe", "musiq", "det"}
    frames = (store.folder / "frames.csv").read_text().splitlines()
    assert len(frames) == 1 + 2 * 2 * 3
    clips = (store.folder / "clips.csv").read_text().splitlines()
    assert len(clips) == 1 + 4
    assert clips[0].startswith("model,clip,regime,frames,seconds,backend,")
    assert '""backend"": ""plain""' in (store.folder / "clips" / "heavy" / "dcp.csv").read_text().splitlines()[0]


def test_the_paper_beside_ours(tmp_path: Path) -> None:
    _, _, table = _content(tmp_path)
    rows = {row.method: row for row in table.rows}
    assert rows["LiBrA-Net"].source == "reported"
    assert rows["LiBrA-Net"].cells[:6] == ("-", "-", "-", "24.28", "0.9437", "0.0401")  # the set is not UHV-4K
    assert rows["identity"].source == "measured"
    assert rows["identity"].cells[2] == "not measured"
    assert "LPIPS: not asked for" in table.note


def test_charts_end_where_the_metric_ends():
    ticks = [float(t) for t in re.findall(r'class="tick"[^>]*>([^<]*)<', _ssim_chart(0.4))]
    assert ticks
    assert min(ticks) >= 0.0
    assert max(ticks) <= 1.0
    places = [float(x) for x in re.findall(r'x[12]="([^"]*)"[^>]*stroke-width="6"', _ssim_chart(0.9))]
    assert all(96 <= x <= 340 for x in places)
    negative = interval_chart({"a": (-2.0, 1.0)}, digits=2)
    assert "-3" in negative


def _ssim_chart(half: float) -> str:
    return interval_chart({"a": (0.9, half), "b": (0.2, half)}, digits=4, highest=1.0)
