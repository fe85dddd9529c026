"""Processes of ours that answer requests in lines of JSON: the server's end. `protocol.py` is the other one.

There is one way to end such a process: by force. Nothing is lost, since unfinished runs are safe on disk at any moment.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from libranet.serve.confine import lower_priority

logger = logging.getLogger(__name__)

Message = dict[str, Any]

_LINE_LIMIT = 256 << 20
_START_SECONDS = 300.0


class ChildDied(Exception):  # noqa: N818
    """The process ended while something was expected of it."""


class Child:
    """A process that is started when it is needed, and again when it has died. The end of the server ends it."""

    def __init__(self, module: str, *arguments: object, nice: int) -> None:
        """Say what to run.

        Args:
            nice: By how many steps its priority is below the server's, from its first instruction on: loading
                libraries is most of what a short process does.
        """
        self._command = (sys.executable, "-m", module, *map(str, arguments))
        self._nice = nice
        self._process: asyncio.subprocess.Process | None = None
        self.hello: Message = {}
        """What it said when it was ready; empty before that."""

    @property
    def pid(self) -> int | None:
        """Its number, or None where it does not run."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    async def start(self) -> None:
        """Start it unless it runs, and wait until it is ready. Raises as `ask` does."""
        if self.pid is not None:
            return
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_LIMIT,
            process_group=0,  # Ctrl-C is for the server, which ends it in order
        )
        lower_priority(self._process.pid, self._nice)
        try:
            self.hello = await asyncio.wait_for(self._receive(), _START_SECONDS)
        except BaseException:
            await self.kill()
            raise

    async def ask(
        self, request: Message, seconds: float, on_progress: Callable[[Message], None] | None = None
    ) -> Message:
        """Send a request and return its answer. The process is ended where that does not succeed.

        Args:
            seconds: The longest time without a line.
            on_progress: Called with what the lines before the answer have as `progress`.

        Raises:
            ChildDied: It ended.
            TimeoutError: It took too long.
        """
        await self.start()
        try:
            await self.send(request)
            while "progress" in (answer := await asyncio.wait_for(self._receive(), seconds)):
                if on_progress is not None:
                    on_progress(answer["progress"])
            return answer
        except BaseException:  # the answer that is still to come must not be taken for the next one's
            await self.kill()
            raise

    async def send(self, request: Message) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()
        except (OSError, RuntimeError):
            raise ChildDied from None

    async def _receive(self) -> Message:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
            if line:
                return json.loads(line)
        except ValueError:
            logger.warning("a worker wrote something else than JSON, and is ended")
        raise ChildDied

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class Pool:
    """Processes that do the same, and the visitors who wait for one of them."""

    def __init__(self, *children: Child) -> None:
        self._free: asyncio.LifoQueue[Child] = asyncio.LifoQueue()  # the one that was used last is loaded
        for child in children:
            self._free.put_nowait(child)
        self.waiting = 0
        """Visitors who wait or are served."""

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Child]:
        """Wait for a free process, in order."""
        self.waiting += 1
        try:
            child = await self._free.get()
            try:
                yield child
            finally:
                self._free.put_nowait(child)
        finally:
            self.waiting -= 1

    async def warm_up(self) -> None:
        """Have one process load its libraries before the first visitor needs it."""
        with suppress(ChildDied, TimeoutError):
            async with self.take() as child:
                await child.start()
