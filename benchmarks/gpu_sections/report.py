"""The summary that is printed last, short enough for a truncated log, and the scaling plot."""

from pathlib import Path
from typing import Any

from gpu_sections.timing import SIZES

Results = dict[str, dict[str, Any] | None]


TARGETS = {
    ("4K", "latency"): 1.5,
    ("4K", "throughput"): 1.0,
    ("1080p", "throughput"): 0.3,
    ("8K", "throughput"): 4.0,
}
"""Milliseconds a frame that issue 6 asks for, by size and the mode's first word."""


def summary(results: Results, ends: dict[str, str], logs: dict[str, list[str]], stamp: dict[str, str]) -> str:
    """All tables, most important first."""
    baselines = _merged(results, "baselines", "baselines_compiled")
    parts = [
        _machine(results.get("machine"), stamp),
        _accuracy(results.get("accuracy")),
        _steps(results.get("steps") or results.get("final_steps"), baselines),
        _baselines(baselines),
        _training(_merged(results, "training", "training_fused")),
        _host(results.get("host")),
        _checks(results.get("checks") or results.get("final_checks")),
        _tune(results.get("tune")),
        _stages(results.get("stages") or results.get("final_stages")),
        _logs(logs),
        "sections: " + ", ".join(f"{name} {end or 'ok'}" for name, end in ends.items()),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _merged(results: Results, *names: str) -> dict[str, Any] | None:
    """The rows of several sections as one."""
    found = [result for name in names if (result := results.get(name))]
    return {"rows": [row for result in found for row in result["rows"]]} if found else None


def _logs(logs: dict[str, list[str]]) -> str:
    return "\n".join(
        f"## {name} did not finish; its last lines\n" + "\n".join(lines[-12:])[-1500:]
        for name, lines in logs.items()
        if lines
    )


def _checks(result: dict[str, Any] | None) -> str:
    if not result:
        return ""
    rows = result["rows"]
    failed = [row for row in rows if not row["ok"]]
    lines = [f"## kernels against their references: {len(rows) - len(failed)} of {len(rows)} agree"]
    lines += [
        f"  FAILED {row['name']}: error {row['error']}, limit {row['limit']} {row.get('why', '')[:160]}"
        for row in failed
    ]
    good = sorted((row for row in rows if row["ok"]), key=lambda row: row["error"] / row["limit"])[-3:]
    return "\n".join(
        lines + [f"  nearest to its limit: {row['name']} {row['error']:.2e} of {row['limit']:.0e}" for row in good]
    )


def _tune(result: dict[str, Any] | None) -> str:
    if not result:
        return ""
    lines = ["## tiles (ms, fastest first)"]
    for kernel in dict.fromkeys(row["kernel"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["kernel"] == kernel]
        rows.sort(key=lambda row: row["ms"] if row["ms"] is not None else 1e9)
        lines.append(f"  {kernel}: " + ", ".join(f"{row['tile']} {row['ms'] or 'failed'}" for row in rows))
    return "\n".join(lines)


def _stages(result: dict[str, Any] | None) -> str:
    if not result:
        return ""
    columns = list(result["stages"])
    names = list(dict.fromkeys(stage for rows in result["stages"].values() for stage in rows))
    lines = ["## stages, ms per frame: " + " | ".join(columns)]
    for name in names:
        cells = (result["stages"][column].get(name, "") for column in columns)
        lines.append(
            f"  {name:28s} " + " | ".join(f"{c:8.4f}" if isinstance(c, float) else f"{str(c)[:60]:>8s}" for c in cells)
        )
    return "\n".join(lines)


def _accuracy(result: dict[str, Any] | None) -> str:
    if not result:
        return ""
    weights = result.get("weights", "random")
    lines = [f"## {weights} weights, against the float32 network, in 1/255 (allowed: mean 0.2, max 2)"]
    for row in result["rows"]:
        numbers = (
            f"mean {row['mean']:.4f} max {row['max']} (network moves {row['moved']:.1f})"
            if "mean" in row
            else row["why"]
        )
        lines.append(f"  {'ok    ' if row['ok'] else 'FAILED'} {row['case']}: {numbers}")
    return "\n".join(lines)


def _tile_text(value: Any) -> Any:
    return ",".join(str(part) for part in value.values()) if isinstance(value, dict) else value


def _host(result: dict[str, Any] | None) -> str:
    if not result:
        return ""
    return "\n".join(["## main memory to main memory", *(f"  {row}" for row in result["rows"])])


def _training(result: dict[str, Any] | None) -> str:
    if not result:
        return ""
    lines = ["## training, bf16: samples a second, times plain, seconds until warm"]
    plain = {row["work"]: row.get("samples_s") for row in result["rows"] if row["variant"] == "plain"}
    for row in result["rows"]:
        rate, base = row.get("samples_s"), plain.get(row["work"])
        ratio = f"{rate / base:5.2f}x" if rate and base else ""
        lines.append(f"  {row['work']}, {row['variant']}: {rate or row['why']} {ratio} {row.get('ready_s', '')}")
    return "\n".join(lines)


def _baselines(result: dict[str, Any] | None) -> str:
    if not result:
        return ""
    cells = (
        f"{row['variant']} {row['size']} {row['ms']:.2f}" if "ms" in row else f"{row['variant']} {row['why']}"
        for row in result["rows"]
    )
    return "## the plain network, ms a streaming step\n  " + ", ".join(cells)


def _eager(baselines: dict[str, Any] | None) -> dict[str, float]:
    rows = (baselines or {}).get("rows", [])
    return {row["size"]: row["ms"] for row in rows if row["variant"] == "eager fp16" and "ms" in row}


def _steps(result: dict[str, Any] | None, baselines: dict[str, Any] | None) -> str:
    if not result:
        return ""
    eager = _eager(baselines)
    lines = ["## the fused step: size, mode, ms a step (p95), ms a frame, sustained, FPS, times eager, GB kept (peak)"]
    for row in result["rows"]:
        if "why" in row:
            lines.append(f"  {row['size']:6s} {row['mode']:20s} FAILED {row['why']}")
            continue
        target = TARGETS.get((row["size"], row["mode"].split()[0]))
        verdict = f" (target {target}: {'met' if row['frame_ms'] <= target else 'missed'})" if target else ""
        fps = 1e3 / row["sustained_frame_ms"]
        ratio = f"{eager[row['size']] / row['sustained_frame_ms']:6.1f}x" if row["size"] in eager else "      -"
        lines.append(
            f"  {row['size']:6s} {row['mode']:20s} {row['step_ms']:8.3f} ({row['p95_ms']:8.3f}) {row['frame_ms']:7.3f}"
            f" {row['sustained_frame_ms']:7.3f} {fps:8.1f} {ratio} {row['held_gb']:5.2f} ({row['peak_gb']:.2f})"
            f"{verdict}"
        )
    return "\n".join(lines)


def _machine(result: dict[str, Any] | None, stamp: dict[str, str]) -> str:
    line = f"{stamp['date']}, commit {stamp['commit']}"
    if result:
        line += f", {result['gpu']}, torch {result['torch']}"
        line += f": copy {result['copy_tb_s']:.2f} TB/s, matrix {result['matrix_tflops']:.0f} TFLOP/s"
    return line


def plot(results: Results, path: Path) -> None:
    """Frames per second against pixels, both axes logarithmic. Skipped where there is nothing to plot or plot with."""
    rows = (results.get("steps") or results.get("final_steps") or {}).get("rows", [])
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return
    curves: dict[str, dict[str, float]] = {}
    for row in rows:
        if "sustained_frame_ms" in row:
            curves.setdefault(f"fused, {row['mode']}", {})[row["size"]] = 1e3 / row["sustained_frame_ms"]
    for row in (results.get("baselines") or {}).get("rows", []):
        if "ms" in row:
            curves.setdefault(f"plain, {row['variant']}", {})[row["size"]] = 1e3 / row["ms"]
    shown = {name: points for name, points in curves.items() if not name.endswith(("B=1", "B=2"))}
    keep = {name: points for name, points in shown.items() if len(points) > 1}
    if not keep:
        return
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, points in keep.items():
        sizes = sorted(points, key=lambda size: SIZES[size][0])
        axes.loglog([SIZES[s][0] * SIZES[s][1] / 1e6 for s in sizes], [points[s] for s in sizes], "o-", label=name)
    axes.axhline(30, color="grey", linewidth=0.8, linestyle="--")
    axes.set_xticks([SIZES[s][0] * SIZES[s][1] / 1e6 for s in SIZES], list(SIZES))
    axes.minorticks_off()
    axes.set(xlabel="frame size", ylabel="frames per second", title="Speed against frame size")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
