"""Exceptions that nobody expected, as a sentence. `libranet -v` shows the traceback."""

import logging

logger = logging.getLogger(__name__)


def bug_sentence(error: BaseException) -> str:
    """Log the traceback for `-v`, and return one sentence for the user."""
    logger.debug("unexpected error", exc_info=error)
    text = str(error).split("\n")[0]
    return (
        f"unexpected {type(error).__name__}{f' ({text})' if text else ''}: this is a bug in libranet, please report it "
        "with the output of `libranet doctor` and of the same command after `libranet -v`"
    )
