"""The rooms of the house and which of them may know which. A new room needs a line here."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "libranet"

MAY_KNOW: dict[str, set[str]] = {
    "errors": set(),
    "whole_file": set(),
    "ops": set(),
    "video": set(),
    "data": set(),
    "metrics": set(),
    "baselines": set(),
    "thirdparty": set(),
    "models": {"ops"},
    "cuda": {"ops", "models"},
    "losses": {"ops", "models"},
    "haze": {"data", "video"},
    "training": {"models", "cuda", "losses", "data", "metrics", "haze"},
    "engine": {"models", "cuda", "video"},
    "evaluation": {"models", "metrics", "data", "baselines", "thirdparty"},
}
"""Everyone may know `errors` and `whole_file`; the command line knows all; the package shows models and engine."""
EVERYONE = set(MAY_KNOW) | {"cli", "weights"}
MAY_KNOW |= {"cli": EVERYONE, "__init__": {"models", "engine"}}

WITHOUT = {
    "models": {"av", "typer"},
    "cuda": {"av", "typer"},
    "ops": {"av", "typer"},
    "losses": {"av", "typer"},
    "training": {"av", "typer"},
}
"""Packages that these rooms do without: they run on GPU machines where those are not installed."""


def imported_modules(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} uses a relative import"
            found.add(node.module or "")
            if node.module == "libranet":
                found |= {f"libranet.{alias.name}" for alias in node.names}
    return found


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_imports_go_one_way(file):
    room = room_of(file)
    assert room in MAY_KNOW, f"{room} is a new room: add it to the table"
    modules = imported_modules(file)
    known = {module.split(".")[1] for module in modules if module.startswith("libranet.")} & EVERYONE
    foreign = known - {room, "errors", "whole_file"} - MAY_KNOW[room]
    assert not foreign, f"{room} may not import {sorted(foreign)}"
    top_level = {module.split(".")[0] for module in modules}
    assert not top_level & WITHOUT.get(room, set())


def test_no_file_is_a_dumping_ground():
    vague = {"utils", "util", "common", "helpers", "helper", "misc"}
    assert [f for f in FILES if f.stem in vague] == []


def test_no_file_is_too_long_to_read():
    root = SOURCE.parents[1]
    files = [f for folder in ("src", "tests", "benchmarks", "examples") for f in (root / folder).rglob("*.py")]
    long = {str(f.relative_to(root)): n for f in files if (n := len(f.read_text().splitlines())) > 450}
    assert long == {}
