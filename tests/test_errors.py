"""Errors speak to whoever meets them: options on the command line, arguments in a program."""

import ast
import re
from pathlib import Path

import pytest

from libranet.errors import InputError, as_arguments, install_command

SOURCES = Path(__file__).parents[1] / "src" / "libranet"


def messages() -> list[str]:
    """Every text of the library that an exception is raised with and that names an option."""
    found = []
    for file in SOURCES.rglob("*.py"):
        if "cli" in file.parts or file.name == "__main__.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and node.exc is not None:
                texts = [part.value for part in ast.walk(node.exc) if isinstance(part, ast.Constant)]
                found += [text for text in texts if isinstance(text, str) and re.search(r"--[a-z]", text)]
    return found


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("x.mp4 exists: add --overwrite to replace it", "x.mp4 exists: add overwrite=True to replace it"),
        ("it is damaged: leave out --resume to start over", "it is damaged: leave out resume to start over"),
        ("got --start 3 --end 1", "got start 3 end 1"),
        ("expected --fps above 0, got 0", "expected rate above 0, got 0"),
        ("add --pix-fmt yuv420p", "add pixel_format yuv420p"),
        ("give -o a name such as record.mkv", "give output a name such as record.mkv"),
        ("my--clip.mp4 and a--b exist", "my--clip.mp4 and a--b exist"),
        ("run `libranet x --from PATH`, add --live", "run `libranet x --from PATH`, add live=True"),
    ],
)
def test_a_program_reads_arguments(sentence, words):
    assert str(InputError(sentence)) == as_arguments(sentence) == words
    assert InputError(sentence).sentence == sentence


def test_no_exception_of_the_library_names_an_option():
    named = messages()
    assert len(named) > 40
    outside = [re.sub(r"`libranet [^`]*`|\(libranet [^)]*\)?", "", as_arguments(text)) for text in named]
    assert [text for text in outside if re.search(r"(?<!\w)--[a-z]", text)] == []


def test_a_hint_names_packages_that_an_index_has():
    command = install_command("cluster")
    assert "ray" in command
    assert "libranet" not in command
    assert install_command("nothing") == "pip install 'libranet[nothing]'"
