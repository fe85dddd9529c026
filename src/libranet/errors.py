"""The exceptions that a user's mistake raises. The command line prints them as one sentence, without a traceback."""

import re
from importlib import metadata


class LibraNetError(Exception):
    """Something the user can put right. The message states the rule, the value found, and what to do."""


class InputError(LibraNetError, ValueError):
    """A frame, clip, option or file that cannot be used as it is."""


class CheckpointError(LibraNetError):
    """A weights file that is missing, damaged, of another kind, or does not fit the network."""


class MissingDependencyError(LibraNetError):
    """An optional package or model that the requested feature needs and that is not installed."""


def install_command(extra: str) -> str:
    """Return the command that installs what an extra of this package needs.

    It names the packages themselves, so that it also works where libranet was installed from a clone or a wheel.
    """
    try:
        requirements = metadata.requires("libranet") or []
    except metadata.PackageNotFoundError:  # the sources alone are on the path
        requirements = []
    named = re.compile(rf"""extra == ['"]{extra}['"]""")
    packages = [text.partition(";")[0].strip() for text in requirements if named.search(text)]
    return "pip install " + " ".join(f"'{package}'" for package in packages or [f"libranet[{extra}]"])
