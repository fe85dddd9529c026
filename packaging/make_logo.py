"""Draw the logo and the image that others show beside a link to us.

    python packaging/make_logo.py docs/images

Ridges stand at growing distances. Left of the line their colours are mixed with the light of the air by the scattering
model, J exp(-b d) + A (1 - exp(-b d)); right of it they are clear. Chromium renders the PNG files.
"""

import math
import subprocess
import sys
from pathlib import Path

AIR = (216, 225, 226)
SKY_TOP, SKY_LOW = (58, 160, 190), (190, 226, 222)
SUN = (255, 206, 112)
NEAR, FAR = (11, 61, 66), (96, 178, 168)
RIDGES = 5
DENSITY = 0.55


def mix(first: tuple, second: tuple, share: float) -> tuple:
    """A colour between two others."""
    return tuple(a + (b - a) * share for a, b in zip(first, second, strict=True))


def css(colour: tuple) -> str:
    """A colour as SVG writes it."""
    return "#" + "".join(f"{round(value):02x}" for value in colour)


def hazy(colour: tuple, distance: float) -> tuple:
    """A colour behind haze."""
    return mix(AIR, colour, math.exp(-DENSITY * distance))


def ridge(number: int, width: float, height: float) -> str:
    """The outline of a ridge, the farthest first: a sum of waves that grow rougher towards the viewer."""
    depth = number / (RIDGES - 1)
    base = height * (0.44 + 0.42 * depth)
    points = []
    for step in range(97):
        x = step / 96
        waves = math.sin(2.1 * math.pi * x + 1.9 * number) + 0.45 * math.sin(5.3 * math.pi * x + 0.7 * number)
        teeth = 0.16 * math.sin(17 * math.pi * x + 2.3 * number)
        points.append((width * x, base - height * (0.085 - 0.02 * depth) * (waves + teeth)))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f"M0,{height} L{line} L{width},{height} Z"


def scene(width: float, height: float, *, haze: bool) -> str:
    """Sky, sun and ridges."""
    top, low = (hazy(colour, 2.6) if haze else colour for colour in (SKY_TOP, SKY_LOW))
    name = "hazy" if haze else "clear"
    parts = [
        f'<linearGradient id="sky-{name}" x2="0" y2="1"><stop stop-color="{css(top)}"/>'
        f'<stop offset="0.7" stop-color="{css(low)}"/></linearGradient>',
        f'<rect width="{width}" height="{height}" fill="url(#sky-{name})"/>',
        f'<circle cx="{0.72 * width:.1f}" cy="{0.24 * height:.1f}" r="{0.085 * height:.1f}" '
        f'fill="{css(hazy(SUN, 2.4) if haze else SUN)}"/>',
    ]
    for number in range(RIDGES):
        distance = RIDGES - 0.6 - number
        colour = mix(FAR, NEAR, number / (RIDGES - 1))
        fill = css(hazy(colour, distance) if haze else colour)
        parts.append(f'<path d="{ridge(number, width, height)}" fill="{fill}"/>')
    return "".join(parts)


def both(width: float, height: float, at: float, slope: float) -> str:
    """The scene behind haze, and clear right of a line."""
    left, right = at + slope / 2, at - slope / 2
    return (
        f'<clipPath id="right"><path d="M{left},0 L{width},0 L{width},{height} L{right},{height} Z"/></clipPath>'
        f'<g>{scene(width, height, haze=True)}</g><g clip-path="url(#right)">{scene(width, height, haze=False)}</g>'
        f'<path d="M{left},0 L{right},{height}" stroke="#fff" stroke-width="{0.016 * height:.1f}"/>'
    )


def logo() -> str:
    """The mark: a round window."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 256 256" role="img" aria-label="LiBrA-Net">'
        '<clipPath id="round"><circle cx="128" cy="128" r="124"/></clipPath>'
        f'<g clip-path="url(#round)">{both(256, 256, 118, 44)}</g></svg>\n'
    )


def social() -> str:
    """The mark's scene, wide, with name and promise."""
    font = "font-family=\"'Inter','DejaVu Sans',sans-serif\""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1280 640" width="1280" height="640">'
        f"{both(1280, 640, 640, 120)}"
        f'<text x="72" y="150" {font} font-size="92" font-weight="700" fill="#12373b">LiBrA-Net</text>'
        f'<text x="76" y="208" {font} font-size="34" fill="#2f565a">Removes haze from video</text>'
        f'<text x="76" y="584" {font} font-size="28" fill="#eafffb">real-time 4K</text>'
        f'<text x="1208" y="584" {font} font-size="28" fill="#eafffb" text-anchor="end">'
        "everything else stays as it was</text>"
        "</svg>\n"
    )


def render(svg: str, path: Path, width: int, height: int) -> None:
    """Write an SVG as a PNG of this size."""
    page = path.with_suffix(".html")
    style = f"<style>*{{margin:0}}svg{{display:block;width:{width}px;height:{height}px}}</style>"
    page.write_text(f"<!doctype html>{style}{svg}", encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--default-background-color=00000000",
    ]
    size = [f"--window-size={width},{height}", f"--screenshot={path}"]
    subprocess.run(["chromium", *options, *size, page.resolve().as_uri()], check=True, capture_output=True)
    page.unlink()


def main(folder: Path) -> None:
    """Write all files."""
    (folder / "logo.svg").write_text(logo(), encoding="utf-8")
    render(logo(), folder / "logo.png", 512, 512)
    render(social(), folder / "social.png", 1280, 640)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
