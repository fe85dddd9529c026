"""The page and its look: shared by the server, the static site and the HTML reports. No build step, no other host."""

from html import escape
from pathlib import Path

_SCRIPTS = ("page", "wipe", "zoom", "player", "camera", "confirm", "drop", "header", "history", "histogram", "presets")
ASSETS = {"page.css": "text/css", **{f"{name}.js": "text/javascript" for name in _SCRIPTS}, "icon.svg": "image/svg+xml"}
ASSETS |= dict.fromkeys(("welcome-before.jpg", "welcome-after.jpg"), "image/jpeg")
"""The files of the page beside index.html and its engine, and their types."""
EXAMPLE_NAME = "foggy.mp4"
"""Two seconds of real mist, CC BY-SA 3.0: see NOTICE.md."""


def asset_path(name: str) -> Path:
    return Path(__file__).with_name(name)


def read_asset(name: str) -> str:
    return asset_path(name).read_text(encoding="utf-8")


def example_path() -> Path:
    return asset_path(EXAMPLE_NAME)


def make_page(title: str, body: str, *, links: str | None = None) -> str:
    """Make an HTML page in our look.

    Args:
        links: Where page.css is, with a slash at the end; None puts everything into the page, which then needs no other
            file.
    """
    if links is None:
        head = f"<style>{read_asset('page.css')}</style>"
        script = f'<script type="module">{read_asset("wipe.js")}{read_asset("report.js")}</script>'
    else:
        head, script = f'<link rel="stylesheet" href="{links}page.css">', ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{head}</head>'
        f'<body class="report"><main>{body}</main>{script}</body></html>\n'
    )
