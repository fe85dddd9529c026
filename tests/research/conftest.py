"""What the tests of the tools in research/ share."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

RESEARCH = Path(__file__).parents[2] / "research"


@pytest.fixture
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script that a module names in TOOL, found with its neighbours the way Python finds them when it is run."""
    monkeypatch.syspath_prepend(str(RESEARCH))
    before = set(sys.modules)
    yield importlib.import_module(request.module.TOOL)
    for name in set(sys.modules) - before:
        if (RESEARCH / f"{name}.py").exists():
            del sys.modules[name]
