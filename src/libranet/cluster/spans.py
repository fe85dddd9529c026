"""What an attempt spent its time on: stages with their begin and end, noted where they happen."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from libranet.cluster.tasks import Span

_notes: ContextVar[list[Span] | None] = ContextVar("spans", default=None)


@contextmanager
def collected() -> Iterator[list[Span]]:
    """Collect the spans of an attempt. Those of code that nobody asks for them are forgotten."""
    spans: list[Span] = []
    token = _notes.set(spans)
    try:
        yield spans
    finally:
        _notes.reset(token)


@contextmanager
def span(name: str) -> Iterator[dict[str, Any]]:
    """Note a stage; what the caller writes into the dictionary are its facts. A stage that fails is noted, too."""
    begin, facts = time.time(), dict[str, Any]()
    try:
        yield facts
    except BaseException as error:
        facts["error"] = type(error).__name__
        raise
    finally:
        note(Span(name, begin, time.time(), facts))


def note(one: Span) -> None:
    spans = _notes.get()
    if spans is not None:
        spans.append(one)
