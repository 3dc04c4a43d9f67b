"""An object store for tests that speaks as much of S3 as results need, from a thread, and may be held: then it takes
requests and answers none of them until it is let go."""

from __future__ import annotations

import hashlib
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

import pytest


class ObjectServer:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self._open = threading.Event()
        self._open.set()
        self.came = threading.Event()  # a request waits, or was answered
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def named(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """The URL of a bucket here, with what the driver reads from its environment."""
        headers = {
            "ENDPOINT": self.url,
            "ALLOW_HTTP": "true",
            "REGION": "x",
            "ACCESS_KEY_ID": "k",
            "SECRET_ACCESS_KEY": "s",
        }
        for name, value in headers.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        return "s3://bucket"

    def hold(self) -> None:
        self.came.clear()
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    def wait(self) -> None:
        self.came.set()
        self._open.wait(60)

    def __enter__(self) -> ObjectServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self.let_go()
        self._server.shutdown()
        self._server.server_close()


def _handler(store: ObjectServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            store.asked.append(f"PUT {self.path}")
            store.wait()
            if self.headers.get("if-none-match") == "*" and self.path in store.objects:
                return self._answer(412)
            store.objects[self.path] = body
            return self._answer(200)

        def do_GET(self) -> None:
            self._found(is_head=False)

        def do_HEAD(self) -> None:
            self._found(is_head=True)

        def do_DELETE(self) -> None:
            store.objects.pop(self.path, None)
            self._answer(204)

        def _found(self, *, is_head: bool) -> None:
            store.asked.append(f"{self.command} {self.path}")
            store.wait()
            body = store.objects.get(self.path)
            if body is None:
                return self._answer(404)
            return self._answer(200, body, is_head=is_head)

        def _answer(self, status: int, body: bytes = b"", *, is_head: bool = False) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("etag", f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"')
            self.send_header("last-modified", formatdate(usegmt=True))
            self.end_headers()
            if not is_head:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The log is not read."""

    return Handler
