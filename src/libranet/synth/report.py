"""report.html: a dataset on one page, with thumbnails of all five modalities and the checks of every clip."""

import base64
import html
from pathlib import Path

import cv2
import numpy as np

from libranet.atomic import write_atomically
from libranet.data.dataset import CLIPS_FOLDER, FRAME_MODALITIES, MODALITIES, CheckResult, Clip, ClipInfo, DatasetInfo
from libranet.data.frames import RgbImage
from libranet.data.maps import FlowField, Plane
from libranet.haze.scattering import PAPER_HAZY_PSNR
from libranet.page import make_page

REPORT_FILE = "report.html"
THUMBNAIL_WIDTH = 320


def write_report(folder: str | Path) -> Path:
    """Write report.html into the dataset's folder. The page needs no other file."""
    folder = Path(folder)
    dataset = DatasetInfo.load(folder)
    names = dataset.names("all", flagged=True)
    clips = [Clip(folder / CLIPS_FOLDER / name) for name in names]
    name = folder.resolve().name
    parts = [
        f"<h1>{html.escape(name)}</h1>",
        _lead(dataset),
        _facts(dataset, [clip.info for clip in clips]),
        _failures(dataset),
        _regimes(dataset, [clip.info for clip in clips]),
        *(_clip(clip, dataset) for clip in clips),
    ]
    path = folder / REPORT_FILE
    write_atomically(path, make_page(f"{name}: dataset report", "\n".join(parts)).encode())
    return path


def _lead(dataset: DatasetInfo) -> str:
    made = dataset.generator
    depth = ", ".join(made.get("depth", []))
    text = f"preset {made.get('preset')}, seed {made.get('seed')}; depth where not exact: {depth}; "
    text += f"flow where not exact: {made.get('flow')}"
    return f"<p class=soft>{html.escape(text)}</p>"


def _facts(dataset: DatasetInfo, clips: list[ClipInfo]) -> str:
    frames = sum(clip.frames for clip in clips)
    psnr = float(np.mean([clip.hazy_psnr for clip in clips])) if clips else float("nan")
    split = ", ".join(f"{len(names)} {part}" for part, names in dataset.split.items())
    facts = [
        (str(len(clips)), "clips"),
        (f"{frames:,}", "frames"),
        (split, "accepted, by part"),
        (str(len(dataset.flagged)), "flagged"),
        (str(len(dataset.failures)), "failed sources"),
        (f"{psnr:.2f} dB", f"mean hazy PSNR (paper: {PAPER_HAZY_PSNR} dB)"),
    ]
    cells = "".join(f"<div class=fact><b>{html.escape(value)}</b><span>{label}</span></div>" for value, label in facts)
    return f"<div class=facts-row>{cells}</div>"


def _failures(dataset: DatasetInfo) -> str:
    if not dataset.failures:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(name)}<td class='text wrap'>{html.escape(reason)}"
        for name, reason in dataset.failures.items()
    )
    table = f"<div class=wide><table><tr><th>clip<th class=text>reason{rows}</table></div>"
    return f"<article><h2>Sources that gave no clip</h2>{table}</article>"


def _regimes(dataset: DatasetInfo, clips: list[ClipInfo]) -> str:
    rows = []
    for regime in dataset.regimes:
        mine = [clip.hazy_psnr for clip in clips if clip.regime == regime["name"]]
        mean = f"{np.mean(mine):.2f}" if mine else ""
        light = regime["airlight"]
        rows.append(
            f"<tr><td>{html.escape(regime['name'])}<td>{regime['beta']:.2f}"
            f"<td class=text>{_swatch(light)}{', '.join(f'{value:.2f}' for value in light)}"
            f"<td>{len(mine)}<td>{mean}"
        )
    head = "<tr><th>regime<th>beta<th class=text>airlight<th>clips<th>mean hazy PSNR, dB"
    return f"<article><h2>Regimes</h2><div class=wide><table>{head}{''.join(rows)}</table></div></article>"


def _clip(clip: Clip, dataset: DatasetInfo) -> str:
    info = clip.info
    part = next((part for part, names in dataset.split.items() if info.name in names), "flagged")
    badge = f"<span class='badge {'good' if info.accepted else 'bad'}'>{html.escape(part)}</span>"
    beta = " / ".join(f"{value:.2f}" for value in info.beta)
    about = (
        f"{info.source.get('kind')} {info.source.get('name')} ({info.source.get('licence')}) · "
        f"{info.width}x{info.height}, {info.frames} frames at {info.fps:g} fps · "
        f"{info.regime}: beta {beta}, airlight "
    )
    light = f"{_swatch(info.airlight)}{', '.join(f'{value:.2f}' for value in info.airlight)}"
    estimators = f" · depth: {info.depth['estimator']} · flow: {info.flow['estimator']} · PSNR {info.hazy_psnr:.2f} dB"
    index = min(info.frames // 2, max(info.flow_frames - 1, 0))
    figures = "".join(
        f"<figure><img src='{_data_url(_thumbnail(clip, modality, index))}' "
        f"alt='{modality}'><figcaption>{modality}</figcaption></figure>"
        for modality in MODALITIES
    )
    head = "<tr><th>check<th>value<th>limit<th class=text>result<th class=text>description"
    checks = "".join(_check(check) for check in info.checks)
    return (
        f"<article id='{html.escape(info.name)}'><h2>{html.escape(info.name)}</h2>{badge}"
        f"<p class=soft>{html.escape(about)}{light}{html.escape(estimators)}</p>"
        f"<div class='strip five' data-wipe=clear>{figures}</div>"
        f"<div class=wide><table>{head}{checks}</table></div></article>"
    )


def _check(check: CheckResult) -> str:
    state = ("good", "passed") if check.passed else ("bad", "FAILED")
    return (
        f"<tr><td>{html.escape(check.name)}<td>{check.value:.4f}<td>{check.threshold:.4f}"
        f"<td class='text {state[0]}'>{state[1]}<td class='text wrap'>{html.escape(check.what)}"
    )


def _swatch(light: tuple[float, ...] | list[float]) -> str:
    colour = ", ".join(str(round(value * 255)) for value in light)
    return f"<span class=swatch style='background: rgb({colour})'></span>"


def _thumbnail(clip: Clip, modality: str, index: int) -> RgbImage:
    if modality in FRAME_MODALITIES:
        return _shrink(clip.frame(modality, index))
    values = np.stack([_shrink(plane) for plane in clip.map(modality, index)])
    if modality == "flow":
        return _colour_flow(values)
    return _colour_plane(values.mean(0), cv2.COLORMAP_INFERNO if modality == "depth" else cv2.COLORMAP_BONE)


def _colour_plane(values: Plane, palette: int) -> RgbImage:  # [H, W] in [0, 1] -> RGB
    levels = (np.clip(np.nan_to_num(values), 0.0, 1.0) * 255.0).astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(levels, palette)[..., ::-1])


def _colour_flow(flow: FlowField) -> RgbImage:  # [2, H, W] -> RGB
    """Show the direction as hue and the length, relative to the longest, as saturation."""
    length, angle = cv2.cartToPolar(flow[0], flow[1], angleInDegrees=True)
    longest = max(float(np.percentile(length, 99)), 1e-3)
    saturation = np.clip(length / longest, 0.0, 1.0) * 255.0
    hsv = np.stack([angle / 2.0, saturation, np.full_like(saturation, 245.0)], axis=2).astype(np.uint8)
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB))


def _data_url(image: RgbImage) -> str:
    _, content = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 82])
    return "data:image/jpeg;base64," + base64.b64encode(content.tobytes()).decode()


def _shrink(values: np.ndarray) -> np.ndarray:
    height = max(round(values.shape[0] * THUMBNAIL_WIDTH / values.shape[1]), 1)
    return np.asarray(cv2.resize(values, (THUMBNAIL_WIDTH, height), interpolation=cv2.INTER_AREA))
