"""The packages, and which of them may import which. A new package needs a line here."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "libranet"

SHARED = {
    "errors",
    "atomic",
    "device",
    "extension",
    "images",
    "image_structure",
    "image_metadata",
    "sequences",
    "tiff_fields",
    "frames",
    "page",
    "typed",
}
"""Small modules that every package may import."""
MAY_IMPORT: dict[str, set[str]] = {
    "kernels": set(),
    "video": set(),
    "data": set(),
    "thirdparty": set(),
    "metrics": set(),
    "flow": set(),
    "haze": set(),
    "network": {"kernels"},
    "runtime": {"network", "kernels"},
    "engine": {"runtime", "network", "video", "kernels"},
    "export": {"network", "kernels"},
    "losses": {"network", "kernels"},
    "synth": {"haze", "data", "video", "flow"},
    "training": {"engine", "haze", "network", "losses", "data", "metrics", "runtime"},
    "evaluation": {"engine", "runtime", "network", "metrics", "flow", "data", "thirdparty"},
    "serve": {"engine", "network", "video"},
    "cluster": {"engine", "runtime", "network", "video", "data", "flow", "synth", "evaluation"},
    "web": {"export", "network", "thirdparty"},
}
PRODUCT = set(MAY_IMPORT) | SHARED | {"cli", "weights"}
EVERY_PACKAGE = PRODUCT | {"lab"}
MAY_IMPORT |= {module: SHARED - {module} for module in SHARED}
MAY_IMPORT |= {"cli": PRODUCT, "__init__": {"network", "engine"}, "__main__": {"cli"}, "lab": EVERY_PACKAGE}

WITHOUT_VIDEO = {"haze", "network", "kernels", "runtime", "losses", "training", "flow"}
"""These do without PyAV and typer: they run on GPU machines where those are not installed."""


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


def package_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("package", sorted({package_of(file) for file in FILES}))
def test_imports_go_one_way(package):
    assert package in MAY_IMPORT, f"{package} is a new package: add it to the table"
    for file in FILES:
        if package_of(file) != package:
            continue
        modules = imported_modules(file)
        known = {module.split(".")[1] for module in modules if module.startswith("libranet.")} & EVERY_PACKAGE
        foreign = known - {package} - SHARED - MAY_IMPORT[package]
        assert not foreign, f"{file.relative_to(SOURCE)} may not import {sorted(foreign)}"
        if package in WITHOUT_VIDEO:
            assert not {module.split(".")[0] for module in modules} & {"av", "typer"}, file


def test_no_file_is_a_dumping_ground():
    vague = {"utils", "util", "common", "helpers", "helper", "misc"}
    assert [f for f in FILES if f.stem in vague] == []


def test_no_file_is_too_long_to_read():
    root = SOURCE.parents[1]
    files = [f for folder in ("src", "tests", "benchmarks", "examples") for f in (root / folder).rglob("*.py")]
    long = {str(f.relative_to(root)): n for f in files if (n := len(f.read_text().splitlines())) > 450}
    assert long == {}


@pytest.mark.parametrize("program", ["import libranet, libranet.engine", "import libranet.cli.dehaze"])
def test_the_product_loads_nothing_of_the_laboratory(program):
    show = "import sys; print([name for name in sys.modules if name.startswith('libranet.lab')])"
    done = subprocess.run([sys.executable, "-c", f"{program}; {show}"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
