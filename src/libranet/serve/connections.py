"""Connections that stay silent are closed: uvicorn itself waits for a request's head without end."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_SECONDS = 20.0


class PromptProtocol(H11Protocol):
    """HTTP/1.1 for visitors who say what they want within 20 to 40 seconds, with every request anew."""

    _last: RequestResponseCycle | None = None
    _was_idle = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(_SECONDS, self._watch)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Close the connection if it was idle at the last look, and no request has come since."""
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self._was_idle and self.cycle is self._last:
            self.transport.close()
            return
        self._was_idle, self._last = idle, self.cycle
        self._timer = self.loop.call_later(_SECONDS, self._watch)
