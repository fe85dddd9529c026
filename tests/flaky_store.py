"""moto's S3 server behind a proxy with faults of its own: answers of 503, broken connections, half answers.

Faults are drawn per request from a seed. Every write that a client was told of is counted by its key.
"""

import http.client
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}
SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


@dataclass
class FlakyStore:
    """A proxy at `address` in front of the store at `upstream`."""

    upstream: str
    share: float
    """Of the requests that fail."""
    host: str = "127.0.0.1"
    seed: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    """By method."""
    written: Counter[str] = field(default_factory=Counter)
    """By key: how often a client was told that the whole object is written."""
    ranges: list[tuple[str, str]] = field(default_factory=list)
    """Key and range of each read of a part of an object."""
    down: bool = False
    """Everything fails."""

    def __enter__(self) -> "FlakyStore":
        self._random, self._lock = random.Random(self.seed), threading.Lock()
        handler = type("Handler", (_Handler,), {"store": self})
        self._server = ThreadingHTTPServer((self.host, 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self._server.server_port}"

    def draw(self, method: str) -> str:
        """The fate of a request."""
        with self._lock:
            self.requests[method] += 1
            if not self.down and self._random.random() >= self.share:
                return ""
            fault = "503" if self.down else self._random.choice(["503", "cut", "half", "500 after"])
            self.faults[fault] += 1
            return fault

    def note(self, method: str, path: str, headers: dict[str, str]) -> None:
        """Note a request that succeeded."""
        parts = urlsplit(path)
        query = parse_qs(parts.query, keep_blank_values=True)
        with self._lock:
            if (method == "PUT" and "partNumber" not in query) or (method == "POST" and "uploadId" in query):
                self.written[parts.path.lstrip("/")] += 1
            if method == "GET" and "range" in headers:
                self.ranges.append((parts.path.lstrip("/"), headers["range"]))


class _Handler(BaseHTTPRequestHandler):
    store: FlakyStore
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        store, fault = self.store, self.store.draw(self.command)
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else self._chunks()
        if fault == "503":
            self._answer(503, {"content-type": "application/xml"}, SLOW_DOWN)
            return
        if fault == "cut":
            self.close_connection = True
            return
        sent = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        if body:
            sent["content-length"] = str(len(body))
        host, _, port = store.upstream.rpartition("//")[2].partition(":")
        there = http.client.HTTPConnection(host, int(port), timeout=60)
        there.request(self.command, self.path, body=body or None, headers=sent)
        answer = there.getresponse()
        data, headers = answer.read(), {k: v for k, v in answer.getheaders() if k.lower() not in _HOP}
        size = answer.getheader("content-length") if self.command == "HEAD" else None
        there.close()
        if fault == "500 after":  # done, but the client is not told
            self._answer(500, {}, b"")
            return
        if answer.status < 300 and not (fault == "half" and len(data) > 1):
            store.note(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        self._answer(answer.status, headers, data, cut=fault == "half", size=size)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815

    def _chunks(self) -> bytes:
        """A body without a length."""
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return b""
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, headers: dict[str, str], data: bytes, *, cut: bool = False, size=None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", size or str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = cut or self.close_connection

    def log_message(self, *_: object) -> None:
        pass
