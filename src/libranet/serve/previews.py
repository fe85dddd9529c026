"""Single frames while the workers are busy: the queue before the one process that restores them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from libranet.serve.child import Child, ChildDied

_MOST_WAITING = 64


class Busy(Exception):  # noqa: N818
    """Too many wait already."""


class Gone(Exception):  # noqa: N818
    """The visitor does not wait any more."""


class Previews:
    """Asks one process for frames, one at a time."""

    def __init__(self, start: Callable[[], Awaitable[Child]], seconds: float) -> None:
        """Begin without a process.

        Args:
            start: Starts the process and waits until its network is loaded.
            seconds: The longest time for one frame.
        """
        self._start, self._seconds = start, seconds
        self._child: Child | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def ask(
        self, request: dict[str, Any], still_wanted: Callable[[], Awaitable[bool]] | None = None
    ) -> dict[str, Any]:
        """Have one frame decoded or restored.

        Args:
            request: As `previewer.py` takes it.
            still_wanted: Asked when the turn comes: a visitor who moves a slider leaves requests behind.

        Raises:
            Busy: Too many wait already.
            Gone: The visitor does not wait any more.
            TimeoutError: It takes too long.
            ChildDied: The decoder failed.
        """
        if self._waiting >= _MOST_WAITING:
            raise Busy
        self._waiting += 1
        try:
            async with self._turn:
                if still_wanted is not None and not await still_wanted():
                    raise Gone
                child = await self._ready()
                try:
                    await child.send(request)
                    return await asyncio.wait_for(child.receive(), self._seconds)
                except BaseException:  # the answer that is still to come must not be taken for the next one's
                    await child.kill()
                    raise
        finally:
            self._waiting -= 1

    async def warm_up(self) -> None:
        """Load the network before the first visitor needs it."""
        with suppress(ChildDied, TimeoutError):
            async with self._turn:
                await self._ready()

    async def stop(self) -> None:
        """End the process."""
        if self._child is not None:
            await self._child.stop()

    async def _ready(self) -> Child:
        if self._child is None or not self._child.alive:
            self._child = await self._start()
        return self._child
