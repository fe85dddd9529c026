"""The exceptions that a user's mistake raises. The command line prints them as one sentence, without a traceback."""

import re
from itertools import zip_longest

_COMMAND = re.compile(r"(`libranet [^`]*`|\(libranet [^)]*\))")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
_OUTPUT = re.compile(r"(?<![\w-])-o(?= )")
_SWITCHES = ("overwrite", "resume", "live", "deinterlace", "two-pass", "streaming")
_OTHER_NAMES = {"fps": "rate", "pix-fmt": "pixel_format", "encoder-option": "encoder_options"}


class LibraNetError(Exception):
    """Something the user can put right. The message states the rule, the value found, and what to do.

    It is written in the words of the command line, `--overwrite`. A program sees the words of Python, `overwrite=True`.
    """

    def __str__(self) -> str:
        return as_arguments(self.sentence)

    @property
    def sentence(self) -> str:
        """The message for users of the command line."""
        return super().__str__()


class InputError(LibraNetError, ValueError):
    """A frame, clip, option or file that cannot be used as it is."""


class CheckpointError(LibraNetError):
    """A weights file that is missing, damaged, of another kind, or does not fit the network."""


class MissingDependencyError(LibraNetError):
    """An optional package or model that the requested feature needs and that is not installed."""


def as_arguments(sentence: str) -> str:
    """Turn the options that a sentence names into arguments of Python. Whole commands stay as they are."""

    def argument(match: re.Match[str]) -> str:
        name = _OTHER_NAMES.get(match[1], match[1]).replace("-", "_")
        before = match.string[: match.start()]
        wanted = match[1] in _SWITCHES and not before.endswith(("leave out ", "without "))
        return f"{name}=True" if wanted else name

    parts = _COMMAND.split(sentence)
    words = (_OUTPUT.sub("output", _OPTION.sub(argument, part)) for part in parts[::2])
    return "".join(part for pair in zip_longest(words, parts[1::2], fillvalue="") for part in pair)


def install_command(extra: str) -> str:
    """Return the command that installs what an extra of this package needs.

    It names the packages themselves, so that it also works where libranet was installed from a clone or a wheel.
    """
    from importlib import metadata  # takes a while, and only a mistake needs it

    try:
        requirements = metadata.requires("libranet") or []
    except metadata.PackageNotFoundError:  # the sources alone are on the path
        requirements = []
    named = re.compile(rf"""extra == ['"]{extra}['"]""")
    packages = [text.partition(";")[0].strip() for text in requirements if named.search(text)]
    return "pip install " + " ".join(f"'{package}'" for package in packages or [f"libranet[{extra}]"])
