"""Connections that stay silent are closed: uvicorn itself waits for a request's head without end."""

import asyncio
import logging

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_SECONDS = 20.0


def is_no_cancellation(record: logging.LogRecord) -> bool:
    """Return whether a record of uvicorn is worth showing: a request that the server's end cancelled is no error."""
    kind = record.exc_info[0] if record.exc_info else None
    cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
    return not (cancelled or "timeout graceful shutdown exceeded" in str(record.msg))


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

    def shutdown(self) -> None:
        """Send away who only listens for events when the server ends: it would wait for them."""
        super().shutdown()
        if self.cycle is not None and not self.cycle.response_complete and self.cycle.scope["path"].endswith("/events"):
            self.transport.close()

    def _watch(self) -> None:
        """Close the connection if it was idle at the last look, and no request has come since."""
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self._was_idle and self.cycle is self._last:
            self.transport.close()
            return
        self._was_idle, self._last = idle, self.cycle
        self._timer = self.loop.call_later(_SECONDS, self._watch)
