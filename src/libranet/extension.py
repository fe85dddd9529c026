"""The one way from the product to the laboratory: a module is found by its name when a user asks for it.

No product module imports the laboratory by a statement, so `import libranet` and `libranet dehaze` load none of it.
"""

from importlib import import_module
from types import ModuleType


def lab(module: str) -> ModuleType:
    """Import a module of the laboratory.

    Args:
        module: Its name below `libranet.lab`, such as `peers.table`.
    """
    return import_module(f"libranet.lab.{module}")
