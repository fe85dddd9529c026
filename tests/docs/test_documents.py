"""The documentation holds together: links, command lines, API pages, lengths, words."""

import ast
import importlib
import re
import runpy
import shlex

import pytest
import typer.main

from libranet.cli.main import build_app
from markdown_blocks import ALL_BLOCKS, DOCUMENTS, ROOT, SHELL, heading_anchors, read_links

LAYERING = runpy.run_path(str(ROOT / "tests" / "test_layering.py"))
PACKAGES = ROOT / "src" / "libranet"
COMMANDS = [
    (block, line)
    for block in ALL_BLOCKS
    if block.language in SHELL
    for line in re.sub(r"\\\n", " ", block.text).splitlines()
]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path):
    for target in read_links(path):
        name, _, anchor = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        assert linked.exists(), f"{path.name} links to {target}"
        if anchor and linked.suffix == ".md" and "libranet." not in anchor:
            assert anchor in heading_anchors(linked), f"{path.name} links to {target}"


@pytest.mark.parametrize("block", ALL_BLOCKS, ids=lambda block: block.place)
def test_blocks_name_their_language(block):
    commands = ("libranet ", "python ", "pip ", "make ", "torchrun ")
    if block.language not in SHELL:
        assert not block.text.startswith(commands), f"{block.place}: mark it as sh, so that a test runs it"
    if block.language == "python":
        ast.parse(block.text)


def _libranet_commands() -> list[tuple[str, list[str]]]:
    found = []
    for block, line in COMMANDS:
        for part in re.split(r"[|;&]+", line):
            words = shlex.split(part, comments=True)
            if words[:1] == ["libranet"]:
                found.append((block.place, words[1:]))
    return found


@pytest.mark.parametrize(("place", "words"), _libranet_commands(), ids=str)
def test_command_lines_parse(place, words):
    """Every command and option in the docs exists, also of those commands that no test can run."""
    name, *arguments = words
    command = typer.main.get_command(build_app()).get_command(None, name)
    command.make_context(name, arguments)


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "api").glob("*.md")), ids=lambda path: path.name)
def test_api_pages_name_things_that_exist(path):
    for identifier in re.findall(r"^::: (\S+)$", path.read_text(), flags=re.MULTILINE):
        parts = identifier.split(".")
        for split in range(len(parts), 0, -1):
            try:
                thing = importlib.import_module(".".join(parts[:split]))
            except ModuleNotFoundError:
                continue
            for name in parts[split:]:
                thing = getattr(thing, name)
            assert thing.__doc__, f"{identifier} has no docstring"
            break


def test_architecture_lists_every_package_and_folder():
    text = (ROOT / "docs" / "architecture.md").read_text()
    files = [path for path in PACKAGES.glob("*/**/*") if path.is_file() and "__pycache__" not in path.parts]
    packages = {path.relative_to(PACKAGES).parts[0] + "/" for path in files}
    modules = {path.name for path in PACKAGES.glob("*.py") if not path.name.startswith("__")}
    assert {name for name in packages | modules if f"| `{name}` |" not in text} == set()


def test_architecture_shows_the_import_table():
    text = (ROOT / "docs" / "architecture.md").read_text().split("## Which package may import which")[1]
    table = {}
    for left, right in re.findall(r"^\| (`.+`) \| (.+) \|$", text, flags=re.MULTILINE):
        table |= {package: set(re.findall(r"`(\w+)`", right)) for package in re.findall(r"`(\w+)`", left)}
    held = {name: allowed for name, allowed in LAYERING["MAY_IMPORT"].items() if not name.startswith("__")}
    assert (table.pop("cli"), table.pop("lab")) == (set(), set())
    assert table == {name: held[name] for name in held if name not in {"cli", "lab", *LAYERING["SHARED"]}}
