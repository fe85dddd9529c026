"""Exceptions that nobody expected, as a sentence. `libranet -v` shows the traceback."""

import logging
import sys
import traceback
from pathlib import Path

import libranet

logger = logging.getLogger(__name__)


def explain(error: BaseException) -> tuple[str, bool]:
    """Log the traceback for `-v`. Return one sentence for the user, and whether it is about a bug."""
    logger.debug("unexpected error", exc_info=error)
    text = str(error).split("\n")[0]
    if "torch" in sys.modules:  # else nothing was there to fill memory, and `libranet --help` stays without it
        from libranet.device import ran_out_of_memory

        if ran_out_of_memory(error):
            return f"not enough memory ({text}): close other programs, or take a machine with more of it", False
    what = f"unexpected {type(error).__name__}{f' ({text})' if text else ''}"
    if place := _place_in_own_code(error):
        return f"{what} in your own code, {place}: `libranet -v` and the same command show the way there", True
    return (
        f"{what}: this is a bug in libranet, please report it "
        "with the output of `libranet doctor` and of the same command after `libranet -v`",
        True,
    )


def _place_in_own_code(error: BaseException) -> str:
    """File and line of the user's network, loss or data that the error came from, or nothing."""
    package = Path(libranet.__file__).parent
    stack = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    # What stands above our first call is the script that started the command.
    first = next((at for at, (path, _) in enumerate(stack) if path.is_relative_to(package)), len(stack))
    for path, line in reversed(stack[first:]):
        installed = {"site-packages", "dist-packages"} & set(path.parts) or path.is_relative_to(sys.base_prefix)
        if path.is_file() and not installed and not path.is_relative_to(package):
            return f"{path}:{line}"
    return ""
