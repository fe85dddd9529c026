"""Traces and metrics of attempts, as a collector and Prometheus get them."""

import json
import re
from pathlib import Path

import pytest
import yaml

from libranet.cluster.metrics import NAMES
from libranet.cluster.runner import Attempt
from libranet.cluster.tasks import Span, WorkerInfo
from libranet.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"
WORKER = WorkerInfo("worker-3", "node-a", 7)


def attempts() -> list[Attempt]:
    """A job that failed at the store and then succeeded."""
    spans = (
        Span("fetch", 100.0, 101.0, {"bytes": 5}),
        Span("segment", 101.0, 102.0, {"number": 0}, inside="restore"),
        Span("segment", 102.0, 103.0, {"number": 1}, inside="restore"),
        Span("restore", 101.0, 103.5, {"decode": 0.5, "network": 2.0}),
        Span("upload", 103.5, 104.0),
    )
    failed = Attempt("a.mp4", "a.mp4", WORKER, 2.0, 10.0, 11.0, "store", "it is down", last=False)
    return [
        failed,
        Attempt("a.mp4", "a.mp4", WORKER, 4.0, 15.0, 20.0, "done", "", True, spans, {("PutObject", "x"): 3}),
    ]


@pytest.fixture
def spans(tmp_path):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from libranet.cluster.traces import Traces

    exporter = InMemorySpanExporter()
    with Traces("", exporter=exporter) as traces:
        for attempt in attempts():
            traces.attempt(attempt)
    return exporter.get_finished_spans()


def test_a_job_is_one_tree(spans):
    names = {span.context.span_id: span.name for span in spans}
    tree = sorted((span.name, names.get(span.parent.span_id) if span.parent else None) for span in spans)
    assert tree == sorted(
        [
            ("run", None),
            ("job", "run"),
            ("attempt", "job"),
            ("attempt", "job"),
            ("fetch", "attempt"),
            ("restore", "attempt"),
            ("upload", "attempt"),
            ("segment", "restore"),
            ("segment", "restore"),
        ]
    )
    assert len({span.context.trace_id for span in spans}) == 1


def test_times_errors_and_facts_are_those_of_the_worker(spans):
    first, second = sorted((span for span in spans if span.name == "attempt"), key=lambda span: span.start_time)
    assert (second.end_time - second.start_time) / 1e9 == pytest.approx(5.0, abs=1e-3)
    assert (first.status.description, second.status.description) == ("it is down", None)
    assert second.attributes["store_errors.PutObject"] == 3
    assert second.attributes["worker"] == "worker-3"
    job = next(span for span in spans if span.name == "job")
    assert (job.end_time - job.start_time) / 1e9 == pytest.approx(12.0, abs=1e-3)  # with its time in the queue
    upload = next(span for span in spans if span.name == "upload")
    assert (upload.start_time, upload.end_time) == (103_500_000_000, 104_000_000_000)


def test_a_file_has_a_span_in_each_line(tmp_path):
    pytest.importorskip("opentelemetry.sdk")
    from libranet.cluster.traces import Traces

    with Traces(str(tmp_path / "spans.jsonl")) as traces:
        traces.attempt(attempts()[1])
    lines = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    assert [line["name"] for line in lines].count("segment") == 2
    with pytest.raises(InputError, match=r"cannot write .*traces"):
        Traces(str(tmp_path / "none" / "spans.jsonl"))


def expressions(panel: object) -> list[str]:
    if isinstance(panel, dict):
        return [panel["expr"]] if "expr" in panel else [text for value in panel.values() for text in expressions(value)]
    return [text for value in panel for text in expressions(value)] if isinstance(panel, list) else []


def metrics_in(text: str) -> set[str]:
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"ray_libranet_(\w+)", text)}


def test_the_dashboard_and_the_alerts_name_metrics_that_exist():
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    asked = expressions(board["panels"])
    assert len(asked) >= len(board["panels"]) > 8
    assert all(metrics_in(text) for text in asked)
    assert set().union(*map(metrics_in, asked)) <= set(NAMES)
    # Everything that is published can be seen.
    assert set(NAMES) - set().union(*map(metrics_in, asked)) == set()
    places = [tuple(panel["gridPos"][key] for key in "xywh") for panel in board["panels"]]
    assert len(places) == len(set(places))
    assert all(x + w <= 24 for x, _, w, _ in places)
    rules = yaml.safe_load((EXAMPLES / "alerts.yaml").read_text())
    texts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert set().union(*map(metrics_in, texts)) <= set(NAMES)
