"""What pyproject.toml, CITATION.cff and the CHANGELOG say about the package is true."""

import ast
import importlib
import re
import runpy
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import libranet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULE_OF = {
    "opentelemetry-sdk": "opentelemetry.sdk",
    "opencv-contrib-python-headless": "cv2",
    "tensorboard": "torch.utils.tensorboard",
    "scikit-learn": "sklearn",
}
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
    # coremltools has no wheels for the newest Python, so nobody gets it unasked.
    assert named == extras.keys() - {"all", "dev", "docs", "coreml"}


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_every_python_is_declared(minor):
    assert PROJECT["requires-python"] == ">=3.11"
    assert f"Programming Language :: Python :: 3.{minor}" in PROJECT["classifiers"]


def test_workflows_run_every_python():
    workflows = {file.stem: yaml.safe_load(file.read_text()) for file in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert workflows.keys() == {"tests", "nightly", "docs", "release"}
    declared = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert workflows["tests"]["jobs"]["tests"]["strategy"]["matrix"]["python"] == declared
    release = workflows["release"]["jobs"]
    assert release["publish"]["permissions"] == {"id-token": "write"}
    assert set(release["release"]["needs"]) == {"kernels", "build", "files", "image"}
    steps = "\n".join(step.get("run", "") for job in release.values() for step in job["steps"])
    for product in ("python -m build", "libranet export", "libranet web", "gh release create"):
        assert product in steps


def test_templates_ask_for_what_helps():
    for file in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(file.read_text())
        if file.name != "config.yml":
            assert form.keys() >= {"name", "description", "body"}
            assert any(part.get("validations", {}).get("required") for part in form["body"])


def test_links_of_the_readme_work_on_a_package_index(tmp_path, monkeypatch):
    """Which shows the README alone: no link may be relative. The release workflow prepares it so."""
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "packaging" / "for_index.py"))["main"]("Some-One/haze", "v9.9")
    text = (tmp_path / "README.md").read_text()
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
    assert len(targets) > 15
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert "pip install libranet " in text
    assert "pip install 'libranet[gpu]'" in text
    assert re.search(r"pip install(?: --\S+)* '?\.|--from \.|clone", text) is None
    ours = "https://raw.githubusercontent.com/Some-One/haze/v9.9/"
    images = [target.removeprefix(ours) for target in targets if target.startswith(ours)]
    assert images
    assert all((ROOT / image).is_file() for image in images)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Documentation"] == "https://some-one.github.io/haze/"
    assert project["urls"]["Source"] == "https://github.com/Some-One/haze"
    assert project["dependencies"] == PROJECT["dependencies"]


def test_the_citation_names_software_and_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["cff-version"], citation["type"], citation["license"]) == ("1.2.0", "software", "Apache-2.0")
    paper = citation["preferred-citation"]
    assert paper["title"].startswith("LiBrA-Net: Lie-Algebraic Bilateral Affine Fields")
    assert paper["authors"][-1]["family-names"] == "Zheng"


def test_every_module_can_be_imported():
    failed = {}
    for file in sorted((ROOT / "src").rglob("*.py")):
        name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        try:
            importlib.import_module(name)
        except Exception as error:  # one broken module must not hide the others
            failed[name] = repr(error)
    assert failed == {}


def test_licence_files_exist():
    assert PROJECT["license-files"] == ["LICENSE", "LICENSE-WEIGHTS.md"]
    for name in PROJECT["license-files"]:
        assert (ROOT / name).stat().st_size > 0
