"""What pyproject.toml, CITATION.cff and the CHANGELOG say about the package is true."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import libranet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULE_OF = {"opencv-contrib-python-headless": "cv2", "tensorboard": "torch.utils.tensorboard"}
"""Distributions whose module has another name."""
BY_THE_USER = {"ultralytics"}
"""Imported where it is installed, and never asked for: its licence is AGPL-3.0."""


def distribution(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9_-]+", requirement)[0]


def imported_modules(folder: Path) -> set[str]:
    found: set[str] = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module or "")
    return found


def test_one_version():
    assert "version" in PROJECT["dynamic"]
    assert f"\nversion: {libranet.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## \[?{re.escape(libranet.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_requirements_are_what_the_package_imports():
    extras = PROJECT["optional-dependencies"]
    declared = {distribution(text) for text in PROJECT["dependencies"]}
    for name, requirements in extras.items():
        if name not in ("all", "dev", "docs"):
            declared |= {distribution(text) for text in requirements}
    modules = {MODULE_OF.get(name, name) for name in declared}
    imports = imported_modules(ROOT / "src")
    assert {module for module in modules if not any(f"{i}.".startswith(f"{module}.") for i in imports)} == set()
    foreign = {name.split(".")[0] for name in imports} - set(sys.stdlib_module_names) - {"libranet", "_typeshed"}
    assert foreign - {module.split(".")[0] for module in modules} == BY_THE_USER


def test_all_means_every_extra_of_the_product():
    extras = PROJECT["optional-dependencies"]
    (text,) = extras["all"]
    named = set(re.fullmatch(r"libranet\[(.*)\]", text)[1].split(","))
    assert named == extras.keys() - {"all", "dev", "docs"}


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_every_python_is_declared(minor):
    assert PROJECT["requires-python"] == ">=3.11"
    assert f"Programming Language :: Python :: 3.{minor}" in PROJECT["classifiers"]


def test_licence_files_exist():
    assert PROJECT["license-files"] == ["LICENSE", "LICENSE-WEIGHTS.md"]
    for name in PROJECT["license-files"]:
        assert (ROOT / name).stat().st_size > 0
