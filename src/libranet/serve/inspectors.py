"""Looking at uploads in processes of their own: one file each, and the next process is ready before the next file."""

import asyncio
from pathlib import Path

from libranet.serve.child import Child, ChildDied
from libranet.serve.media import Media
from libranet.serve.settings import Limits

_AT_ONCE = 2
_NICE = 5
"""A visitor waits for it: it goes before the jobs and after the server."""


class Inspectors:
    """Finds out what files are. A process serves one file, so that a bad file harms no other."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._spare: Child | None = None

    async def prepare(self) -> None:
        """Have one process load its libraries, which takes longer than most files."""
        if self._spare is None:
            self._spare = await self._start()

    async def inspect(self, path: Path) -> Media | str:
        """Return the facts of a file, or why it is refused."""
        async with self._free:
            spare, self._spare = self._spare, None
            child = spare if spare is not None and spare.alive else await self._start()
            try:
                await child.send({"path": str(path)})
                # Twice the processor time: others may go first.
                answer = await asyncio.wait_for(child.receive(), 2 * self._limits.inspect_seconds)
            except (TimeoutError, ChildDied):
                return "the file takes too much time or memory to decode, or makes the decoder fail"
            finally:
                await child.kill()
                await self.prepare()
        return str(answer["refused"]) if "refused" in answer else Media(**answer)

    async def stop(self) -> None:
        """End the process that waits."""
        if self._spare is not None:
            await self._spare.kill()

    async def _start(self) -> Child:
        limits = self._limits
        return await Child.start(
            "libranet.serve.media",
            *(str(limits.pixels), str(limits.seconds), str(limits.inspect_seconds)),
            nice=_NICE,
            quiet=True,
        )
