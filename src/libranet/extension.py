"""Ways to code outside of the product, found by name when a user asks for it: the laboratory, and a user's own.

No product module imports the laboratory by a statement, so `import libranet` and `libranet dehaze` load none of it.
"""

import re
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from libranet.errors import InputError

_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def lab(module: str) -> ModuleType:
    """Import a module of the laboratory."""
    return import_module(f"libranet.lab.{module}")


def is_own(name: str) -> bool:
    """Whether a name is that of a user's own code, `package.module:Name`."""
    return _OWN.fullmatch(name) is not None


def load_own(name: str) -> Any:
    """Import a user's own class or function.

    Args:
        name: `package.module:Name`. The module is looked for where Python looks, and in the current folder.
    """
    if not is_own(name):
        raise InputError(f"expected package.module:Name, such as my_networks:Net, got {name!r}")
    module, _, attribute = name.partition(":")
    here = "" in sys.path
    sys.path[:0] = [] if here else [""]  # as `python -m` has it; a console script does not
    try:
        found = import_module(module)
    except ImportError as error:
        raise InputError(
            f"could not import {module} for {name}: {error}; run in its folder, or install its package"
        ) from error
    finally:
        if not here:
            sys.path.remove("")
    if not hasattr(found, attribute):
        raise InputError(f"{module} ({found.__file__}) has no {attribute!r}: check the name after the colon")
    return getattr(found, attribute)
