"""The report of an evaluation: one HTML file that carries its own images and needs nothing else."""

import base64
from html import escape
from pathlib import Path

from libranet.evaluation.figures import HEAT_RANGE, Panel, colour_of, interval_chart, line_chart, read_panel
from libranet.evaluation.results import ResultStore
from libranet.evaluation.summary import Estimate, ReportContent, summarise_models
from libranet.page import make_page

MAX_PANELS = 12


def render_report(content: ReportContent, store: ResultStore, tables: str = "") -> str:
    """Render the whole page; `tables` are further sections in HTML."""
    parts = [_head(content), _overall(content), _missing(content), _charts(content), _regimes(content)]
    parts += [_worst_frames(content, store), _per_clip(content), tables, _how(content)]
    return make_page(f"Evaluation: {content.info.dataset}", "".join(parts))


def _head(content: ReportContent) -> str:
    names = list(dict.fromkeys(clip.clip for clip in content.clips))
    frames = sum(clip.frames for clip in content.clips if clip.model == content.models[0])
    info = content.info
    kind = "with ground truth" if info.paired else "without ground truth"
    facts = [
        f"{_count(len(names), 'clip')}, {_count(frames, 'frame')}, {kind}",
        _count(len(content.models), "model"),
        info.created,
        f"libranet {info.version}",
        *(f"{model}: weights {weights}" for model, weights in info.weights.items()),
        info.machine,
        *(f"{model}: backend {backend}" for model, backend in content.backends.items()),
    ]
    return f'<h1>Evaluation on {escape(info.dataset)}</h1><p class="soft">{escape(" · ".join(facts))}</p>'


def _overall(content: ReportContent) -> str:
    intro = (
        "<h2>Result</h2><p>Mean over clips, each clip counting the same, with the 95 % confidence interval over clips. "
        "The best value of a column is marked.</p>"
    )
    return intro + _estimates(content, summarise_models(content.clips))


def _estimates(content: ReportContent, models: dict[str, dict[str, Estimate]]) -> str:
    metrics = content.measured
    heads = "".join(f"<th>{escape(m.label)} {m.arrow}</th>" for m in metrics)
    rows = []
    for index, model in enumerate(content.models):
        cells = []
        for metric in metrics:
            value = models[model].get(metric.name)
            if value is None:
                cells.append('<td class="soft">–</td>')
                continue
            everyone = [v[metric.name].mean for v in models.values() if metric.name in v]
            best = max(everyone) if metric.higher_is_better else min(everyone)
            mark = ' class="best"' if value.mean == best and len(set(everyone)) > 1 else ""
            interval = "" if value.half_width is None else f" <small>± {value.half_width:.{metric.digits}f}</small>"
            cells.append(f"<td{mark}>{value.mean:.{metric.digits}f}{interval}</td>")
        rows.append(f"<tr><td>{_swatch(index)}{escape(model)}</td>{''.join(cells)}</tr>")
    return _table(f"<th>model</th>{heads}", rows)


def _missing(content: ReportContent) -> str:
    if not content.not_measured:
        return ""
    missing = content.missing.items()
    items = "".join(f"<li><b>{escape(labels)}</b>: {escape(why)}</li>" for why, labels in missing)
    return f'<div class="missing">Not measured:<ul>{items}</ul></div>'


def _charts(content: ReportContent) -> str:
    models = summarise_models(content.clips)
    charts = []
    for metric in content.measured:
        values = {
            name: (v[metric.name].mean, v[metric.name].half_width) for name, v in models.items() if metric.name in v
        }
        better = "higher" if metric.higher_is_better else "lower"
        chart = interval_chart(values, digits=metric.digits, highest=metric.highest)
        charts.append(
            f'<div><h3>{escape(metric.label)} <span class="soft">({better} is better)</span></h3>{chart}</div>'
        )
    return f'<h2>Models side by side</h2><div class="charts">{"".join(charts)}</div>'


def _regimes(content: ReportContent) -> str:
    parts = ["<h2>By haze regime</h2>"] if content.regimes else []
    for regime in content.regimes:
        count = len({clip.clip for clip in content.clips if clip.regime == regime})
        parts.append(f'<h3>{escape(regime)} <span class="soft">({_count(count, "clip")})</span></h3>')
        parts.append(_estimates(content, summarise_models(content.clips, regime=regime)))
    return "".join(parts)


def _worst_frames(content: ReportContent, store: ResultStore) -> str:
    names = dict.fromkeys(clip.clip for clip in content.clips)
    found = [(panel, name) for name in names if (panel := read_panel(store.clip_folder(name))) is not None]
    if not found:
        return ""
    found.sort(key=lambda pair: pair[0].value)
    shown = found[:MAX_PANELS]
    more = "" if len(shown) == len(found) else f" The {len(shown)} worst of {len(found)} clips are shown."
    legend = "".join(f"<span>{_swatch(i)}{escape(m)}</span>" for i, m in enumerate(content.models))
    place = "its error is largest" if content.info.paired else "it has most detail"
    intro = (
        "<h2>Worst frames first</h2><p>For every clip, the frame with the "
        f"{escape(shown[0][0].chosen_by)}, whole and as a crop at full size where {place}. The third row is the "
        "change since the frame before, |J<sub>t</sub> − J<sub>t−1</sub>|, on one scale: 0 "
        f'<span class="scale"></span> {HEAT_RANGE:g} and above.{more}</p><p class="legend">{legend}</p>'
    )
    return intro + "".join(_panel(content, store, panel, name) for panel, name in shown)


def _panel(content: ReportContent, store: ResultStore, panel: Panel, name: str) -> str:
    folder = store.clip_folder(name)
    views = ["hazy", *(m for m in content.models if m not in ("identity", "truth"))] + (
        ["clear"] if content.info.paired else []
    )
    views = [view for view in views if (folder / f"{view}.jpg").is_file()]
    by_model = {r.model: r.frames for r in content.results if r.clip == name}
    strips = []
    for suffix in ("", "-crop", "-change"):
        cells = []
        for view in views:
            image = folder / f"{view}{suffix}.jpg"
            if not image.is_file():
                continue
            caption = _caption(content, by_model, view, panel.frame) if suffix == "" else ""
            cells.append(f'<figure><img alt="{escape(view)}" src="{_embed(image)}">{caption}</figure>')
        if cells:
            columns = f"grid-template-columns: repeat({len(views)}, minmax(0, 480px))"
            wipe = f' data-wipe="{escape(content.subject)}"' if suffix == "-crop" else ""
            strips.append(f'<div class="strip"{wipe} style="{columns}">{"".join(cells)}</div>')
    metric = "psnr" if any("psnr" in frame for frames in by_model.values() for frame in frames) else "tof"
    series = {m: [frame.get(metric, float("nan")) for frame in by_model.get(m, [])] for m in content.models}
    chart = line_chart(series, unit="PSNR in dB" if metric == "psnr" else "tOF")
    return f'<div class="panel"><h3>{escape(name)}, frame {panel.frame}</h3>{"".join(strips)}{chart}</div>'


def _caption(content: ReportContent, by_model: dict[str, list[dict[str, float]]], view: str, frame: int) -> str:
    source = "identity" if view == "hazy" else view
    values = by_model.get(source, [])
    numbers = []
    if frame < len(values):
        wanted = [m for m in content.measured if m.name in values[frame]][:3]
        numbers = [f"{m.label} {values[frame][m.name]:.{m.digits}f}" for m in wanted]
    return f"<figcaption><b>{escape(view)}</b><br>{escape(' · '.join(numbers)) or '&nbsp;'}</figcaption>"


def _per_clip(content: ReportContent) -> str:
    metrics = content.measured
    clips = [clip for clip in content.clips if clip.model == content.subject]
    for first in metrics[:1]:
        sign = 1 if first.higher_is_better else -1
        clips.sort(key=lambda clip: sign * clip.values.get(first.name, 0.0))
    heads = "".join(f"<th>{escape(m.label)}</th>" for m in metrics)
    rows = []
    for name in [clip.clip for clip in clips]:
        for clip in (c for c in content.clips if c.clip == name):
            cells = "".join(
                f"<td>{clip.values[m.name]:.{m.digits}f}</td>" if m.name in clip.values else "<td>–</td>"
                for m in metrics
            )
            worst = "–" if clip.worst_frame is None else str(clip.worst_frame)
            speed = f"{clip.frames / clip.seconds:.2f}" if clip.seconds > 0.01 * clip.frames else "–"
            rows.append(
                f'<tr><td>{escape(name)}</td><td class="text">{escape(clip.model)}</td>'
                f'<td class="text">{escape(clip.regime)}</td>{cells}<td>{worst}</td><td>{speed}</td></tr>'
            )
    table = _table(f"<th>clip</th><th>model</th><th>regime</th>{heads}<th>worst frame</th><th>frames/s</th>", rows)
    summary = f"{_count(len(clips), 'clip')}, worst first"
    return f"<h2>Every clip</h2><details open><summary>{summary}</summary>{table}</details>"


def _how(content: ReportContent) -> str:
    estimators = "".join(f"<li>{escape(k)}: {escape(v)}</li>" for k, v in content.estimators.items())
    total = sum(content.seconds.values())
    times = "".join(
        f"<tr><td>{escape(name)}</td><td>{value:.1f}</td></tr>" for name, value in content.seconds.items() if value > 0
    )
    timing = (
        f"<table><tr><th>metric</th><th>seconds in this run</th></tr>{times}</table>"
        if total > 0
        else '<p class="soft">All results were taken over from an earlier run.</p>'
    )
    return (
        "<h2>How it was measured</h2><p>Frames are rounded to 8 bit before they are measured. PSNR and SSIM are those "
        "of RGB with a data range of 1, SSIM with an 11×11 Gaussian window of σ = 1.5; equal frames count as 100 dB. "
        "tOF is the mean absolute difference to the flow-warped frame before, with the flow of the clear frames (or of "
        "the hazy ones where there are none). σ-PSNR is the standard deviation of PSNR within a clip. The formulas are "
        f"in docs/metrics.md.</p><ul>{estimators}</ul>{timing}"
    )


def _table(heads: str, rows: list[str]) -> str:
    return f'<div class="wide"><table><tr>{heads}</tr>{"".join(rows)}</table></div>'


def _embed(path: Path) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def _swatch(index: int) -> str:
    return f'<span class="swatch" style="background:{colour_of(index)}"></span>'


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
