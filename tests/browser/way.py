"""A proxy to the server of a test: it can be cut, and it records what a browser sends."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit


class Way:
    """The way to a server through an address of its own, which can be cut and mended, and remembers what was sent."""

    def __init__(self, url: str) -> None:
        self._target = (str(urlsplit(url).hostname), int(urlsplit(url).port or 0))
        self._open: set[socket.socket] = set()
        self._changes = threading.Lock()  # of open connections: one accepted during a cut would stay connected
        self.sent = bytearray()  # by the caller, of all connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._accept()

    def _accept(self) -> None:
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._target)
                with self._changes:
                    if listener.fileno() < 0:
                        near.close()
                        far.close()
                        return
                    self._open |= {near, far}
                threading.Thread(target=self._copy, args=(near, far, self.sent), daemon=True).start()
                threading.Thread(target=self._copy, args=(far, near, bytearray()), daemon=True).start()

    @staticmethod
    def _copy(one: socket.socket, other: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                kept += data
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._changes:
            self._listener.close()
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._open.clear()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._accept()
