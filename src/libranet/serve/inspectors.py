"""Looking at uploads in other processes. They load their libraries once; every file gets a copy of its own (a fork)."""

import asyncio

from libranet.serve.child import Child, ChildDied
from libranet.serve.media import Media
from libranet.serve.settings import Limits

_AT_ONCE = 2
_NICE = 2
"""A visitor waits for it: it goes before the jobs and after the server."""
_REFUSED = "the file takes too much time or memory to decode, or makes the decoder fail"


class Inspectors:
    """Finds out what files are, a few at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free: asyncio.LifoQueue[Child | None] = asyncio.LifoQueue()
        for _ in range(_AT_ONCE):
            self._free.put_nowait(None)

    async def prepare(self) -> None:
        """Have one process load its libraries before the first file comes."""
        child = await self._free.get()
        try:
            child = await self._alive(child)
        finally:
            self._free.put_nowait(child)

    async def inspect(self, path: str) -> Media | str:
        """Return the facts of a file, or why it is refused."""
        child = await self._free.get()
        try:
            for _ in range(2):
                child = await self._alive(child)
                try:
                    await child.send({"path": path})
                    # The copy ends by itself after twice its processor time; this is for the process itself.
                    answer = await asyncio.wait_for(child.receive(), 3 * self._limits.inspect_seconds + 10)
                    return str(answer["refused"]) if "refused" in answer else Media(**answer)
                except ChildDied:  # nothing that a file does; try another process
                    await child.kill()
                except BaseException:  # the answer that is still to come must not be taken for the next one's
                    await child.kill()
                    raise
            return _REFUSED
        except TimeoutError:
            return _REFUSED
        finally:
            self._free.put_nowait(child)

    async def stop(self) -> None:
        """End the processes."""
        while not self._free.empty():
            child = self._free.get_nowait()
            if child is not None:
                await child.kill()

    async def _alive(self, child: Child | None) -> Child:
        if child is not None and child.alive:
            return child
        limits = self._limits
        arguments = (str(limits.pixels), str(limits.seconds), str(limits.inspect_seconds))
        return await Child.start("libranet.serve.media", *arguments, nice=_NICE, quiet=True)
