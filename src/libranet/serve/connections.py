"""Who may keep a connection: visitors who say what they want. uvicorn itself waits for a slow one without end."""

import asyncio
import logging
from collections import Counter

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS = 512
_SECONDS = 20.0


def is_no_cancellation(record: logging.LogRecord) -> bool:
    """Return whether a record of uvicorn is worth showing: a request that the server's end cancelled is no error."""
    kind = record.exc_info[0] if record.exc_info else None
    cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
    return not (cancelled or "timeout graceful shutdown exceeded" in str(record.msg))


class PromptProtocol(H11Protocol):
    """HTTP/1.1 for visitors who say what they want within 20 to 40 seconds, with every request anew.

    Where there are too many connections, the address that keeps most of them waiting loses its oldest one: slow
    visitors, one or hundreds, never keep others out.
    """

    _last: RequestResponseCycle | None = None
    _was_idle = True
    _timer: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch, and make room where there is none."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._timer = self.loop.call_later(_SECONDS, self._watch)
        others = [other for other in self.connections if isinstance(other, PromptProtocol) and other is not self]
        others = [other for other in others if not other.transport.is_closing()]
        if len(others) >= MOST_CONNECTIONS:
            slow = [other for other in others if other.waits_for_visitor]
            counts = Counter(other.address for other in slow)
            oldest = max(slow, key=lambda other: (counts[other.address], -other._since), default=None)
            (oldest or self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Send away who only listens for events when the server ends: it would wait for them."""
        super().shutdown()
        if not self._idle and self.cycle.scope["path"].endswith("/events"):
            self.transport.close()

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def waits_for_visitor(self) -> bool:
        """Whether the visitor's next bytes are missing: a request, its body, or room for its answer."""
        return self._idle or self.cycle.more_body or self.flow.write_paused

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        """Close the connection if it was idle at the last look, and no request has come since."""
        idle = self._idle
        if idle and self._was_idle and self.cycle is self._last:
            self.transport.close()
            return
        self._was_idle, self._last = idle, self.cycle
        self._timer = self.loop.call_later(_SECONDS, self._watch)
