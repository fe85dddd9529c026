"""Make the numbers and figures of docs/analysis.md again, for the weights in the package or another checkpoint.

python research/remake_analysis.py [CHECKPOINT] [--work runs/analysis-docs] [--ablation runs/ablations]

The set is rendered once and kept: nine clips of five frames, 960x540, every haze regime, and one clip of three frames,
3840x2160, for the probe of resolution (seven minutes on two cores that do nothing else). The probes take five more.
Numbers go between the markers in docs/analysis.md, figures to docs/images/analysis-*. What the page says about them
is for a person to write: the script prints the headline numbers. `--clips 0 --large 0` writes the tables of the
ablation study alone.
"""

import argparse
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2

from libranet.atomic import write_atomically
from libranet.evaluation.clips import open_dataset
from libranet.flow import DisFlow
from libranet.lab.analysis.headlines import headlines
from libranet.lab.analysis.run import analyze
from libranet.network import load_model
from libranet.synth.depth_estimators import LayoutPrior
from libranet.synth.sources import find_sources
from libranet.synth.synthesize import PRESETS, synthesize

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "analysis.md"
IMAGES = ROOT / "docs" / "images"
SEED = 77
"""No training takes scenes from 770,000 on."""
CLIP_FRAMES = 5
LARGE_FRAMES = 3
"""Of the clip of 3840x2160."""
LARGEST_PNG = 200_000
WIDTH = 1400
"""Largest width of a figure on the page."""


def main() -> None:
    """Render, probe, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", nargs="?", help="without it, the weights of the package")
    parser.add_argument("--work", type=Path, default=Path("runs/analysis-docs"))
    parser.add_argument("--ablation", type=Path, help="folder of a study by `libranet ablate`")
    parser.add_argument("--frames", type=int, default=3, help="of each clip")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--images", type=Path, default=IMAGES)
    parser.add_argument("--clips", type=int, default=9, help="of 960x540")
    parser.add_argument("--large", type=int, default=1, help="clips of 3840x2160")
    options = parser.parse_args()

    text = options.page.read_text()
    if options.clips or options.large:
        text = fill_probes(text, options)
    if options.ablation is not None:
        study = (options.ablation / "ablation.md").read_text()
        text = fill(text, "ablation", study.partition("\n")[2].strip())
    options.page.write_text(text)
    print(f"{options.page} is made again: look at every figure, and at what the page says")


def fill_probes(text: str, options: argparse.Namespace) -> str:
    """Run every probe and put its numbers and figures on the page."""
    clips = []
    for folder, count, seed, config in (
        ("set", options.clips, SEED, replace(PRESETS["mini"], frames=CLIP_FRAMES)),
        ("large", options.large, SEED + 1, replace(PRESETS["uhv4k"], frames=LARGE_FRAMES)),
    ):
        if count:
            print(f"rendering {count} clips of {config.size[0]}x{config.size[1]}, or taking those there", flush=True)
            sources = find_sources(["procedural"], scenes=count, seed=seed)
            synthesize(sources, options.work / folder, config, depth=LayoutPrior, flow=DisFlow())
            clips += open_dataset(options.work / folder, split="all")
    result = options.work / "result"
    shutil.rmtree(result, ignore_errors=True)
    result.mkdir(parents=True)
    model = load_model(options.checkpoint)
    name = (
        f"procedural clips, {options.clips} of 960x540 and {options.large} of 3840x2160, {options.frames} frames each"
    )
    content = analyze(model, clips, result, frames=options.frames, dataset=name, report=show)
    figures = copy_figures(result, options.images)
    text = fill(text, "numbers", numbers_table(content))
    text = fill(text, "figures", "\n\n".join(f"![{Path(name).stem}](images/{name})" for name in figures))
    print(numbers_table(content))
    return text


def show(step: str, done: int, total: int) -> None:
    """Print progress."""
    print(f"{done}/{total} {step}", flush=True)


def numbers_table(content: dict[str, Any]) -> str:
    """The headline numbers as Markdown."""
    weights = f"{content['weights_name']} {content['weights_version']}"
    lines = [f"{weights} on {content['dataset']} ({content['created']}):", ""]
    lines += ["| probe | number | here | paper |", "|---|---|---|---|"]
    for probe, numbers in content["probes"].items():
        if "not_measured" in numbers:
            lines.append(f"| {probe} | not measured: {numbers['not_measured']} | – | – |")
            continue
        rows = ((name.replace("|M|", "norm of M"), here, paper) for name, here, paper in headlines(probe, numbers))
        lines += [f"| {probe} | {name} | {here} | {paper} |" for name, here, paper in rows]
    return "\n".join(lines)


def copy_figures(folder: Path, images: Path) -> list[str]:
    """Bring the figures to the page's size and return their file names; those with photos in them become JPEG."""
    names = []
    for path in sorted(folder.glob("*.png")):
        image = cv2.imread(str(path))
        assert image is not None
        if image.shape[1] > WIDTH:
            size = (WIDTH, round(image.shape[0] * WIDTH / image.shape[1]))
            image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        suffix, content = ".png", cv2.imencode(".png", image, [cv2.IMWRITE_PNG_COMPRESSION, 9])[1]
        if len(content) > LARGEST_PNG:
            suffix, content = ".jpg", cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 88])[1]
        names.append(f"analysis-{path.stem}{suffix}")
        write_atomically(images / names[-1], content.tobytes())
    return names


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between a pair of markers."""
    pattern = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"expected the markers '<!-- {name}: begin -->' and '<!-- {name}: end -->' in the page")
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


if __name__ == "__main__":
    main()
