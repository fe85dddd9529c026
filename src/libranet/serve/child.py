"""A process of ours that answers in lines of JSON, and can be replaced when it dies."""

import asyncio
import json
import logging
import sys
from contextlib import suppress
from typing import Any

from libranet.serve.confine import lower_priority

logger = logging.getLogger(__name__)

_LINE_LIMIT = 256 << 20
_GRACE_SECONDS = 3.0


class ChildDied(Exception):  # noqa: N818
    """The process ended while something was expected of it."""


class Child:
    """One running process. Closing its input ends it, and so does the end of the server."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str, *arguments: str, nice: int, quiet: bool = False) -> "Child":
        """Run `python -m module` with arguments.

        Args:
            module: What to run.
            arguments: Its arguments.
            nice: By how many steps its priority is below the server's, from its first instruction on: loading
                libraries is most of what a short process does.
            quiet: Throw away what it writes to standard error.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL if quiet else None,
            limit=_LINE_LIMIT,
            process_group=0,  # Ctrl-C is for the server, which ends it in order
        )
        lower_priority(process.pid, nice)
        return cls(process)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.returncode is None

    async def send(self, message: dict[str, Any]) -> None:
        """Write one line.

        Raises:
            ChildDied: Nobody reads it.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()
        except (OSError, RuntimeError):
            raise ChildDied from None

    async def receive(self) -> dict[str, Any]:
        """Read one line.

        Raises:
            ChildDied: There is no more.
        """
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
            if not line:
                raise ChildDied
            return json.loads(line)
        except ValueError:
            logger.warning("a worker wrote something else than JSON, and is ended")
            await self.stop()
            raise ChildDied from None

    async def stop(self) -> None:
        """End it: by closing its input, then by force."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _GRACE_SECONDS)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
