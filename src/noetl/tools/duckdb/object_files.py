"""Objects of a bucket as files of DuckDB, in its confined process: another process reads and writes them for it
(`tools.storage.file_service`), over connections that were opened before. No credential is in this process.

DuckDB takes file systems of Python that have the shape of fsspec's.
"""

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.duckdb.attachments import ObjectFolder

_BUFFER_BYTES = 1 << 20  # written at once
_SPARE = 2  # connections besides one per thread


def files_of(folder: ObjectFolder, threads: int) -> ObjectFiles:
    """The files of a bucket. Its connections are open."""
    if "fsspec" not in sys.modules:
        # DuckDB imports the package to compare with its class, and uses nothing of it.
        module: Any = ModuleType("fsspec")
        module.AbstractFileSystem = type("AbstractFileSystem", (), {})
        sys.modules["fsspec"] = module
    base = sys.modules["fsspec"].AbstractFileSystem
    files: ObjectFiles = type("ObjectFiles", (ObjectFiles, base), {})(folder, threads + _SPARE)
    return files


class ObjectFiles:
    """The file system. `problem` is the first error: DuckDB passes on no more than its text."""

    def __init__(self, folder: ObjectFolder, connections: int) -> None:
        self.protocol = folder.schemes
        self._prefix = ""
        if folder.folder:
            self._prefix = f"{folder.folder}/"
            self.protocol = (*folder.schemes, *(self._prefix + scheme for scheme in folder.schemes))
        self.problem: ToolError | None = None
        self._found: dict[str, dict[str, Any]] = {}
        self._lines: SimpleQueue[socket.socket] = SimpleQueue()
        for _ in range(connections):
            line = socket.socket(socket.AF_UNIX)
            line.connect(folder.socket)
            self._lines.put(line)

    def call(self, op: str, data: bytes = b"", **asked: Any) -> tuple[dict[str, Any], bytes]:
        """The answer of the other process. Raises ToolError, and notes it."""
        line = self._lines.get()
        try:
            head = msgspec.json.encode({"op": op, "size": len(data), **asked})
            line.sendall(b"%08x" % len(head) + head + data)
            answer = msgspec.json.decode(_receive_bytes(line, int(_receive_bytes(line, 8), 16)))
            body = _receive_bytes(line, answer["size"])
        except OSError:
            answer, body = {"error": _LOST}, b""
        finally:
            self._lines.put(line)
        if (error := answer.get("error")) is not None:
            problem = ToolError(error.pop("kind"), error.pop("message"), **error)
            self.problem = self.problem or problem
            raise problem
        return answer, body

    def _stat(self, path: str) -> dict[str, Any] | None:
        path = path.removeprefix(self._prefix)
        if (found := self._found.get(path)) is None:  # DuckDB asks several times for each file that it opens
            found = self.call("stat", path=path)[0]["found"]
            if found is not None:
                self._found[path] = found
        return found

    # The functions that DuckDB calls, by fsspec's names.

    def open(self, path: str, mode: str = "rb", **_: Any) -> _Reading | _Writing:
        if "r" not in mode:
            path = path.removeprefix(self._prefix)
            return _Writing(self.call, path, lambda: self._found.pop(path, None))
        if (found := self._stat(path)) is None:
            raise FileNotFoundError(f"there is no object {path.removeprefix(self._prefix)}")
        return _Reading(self.call, path.removeprefix(self._prefix), found["length"])

    def exists(self, path: str, **_: Any) -> bool:
        return self._stat(path) is not None

    isfile = exists

    def isdir(self, path: str) -> bool:
        return False  # an object store has no folders: none need be created

    def mkdir(self, path: str, **_: Any) -> None:
        return None

    def size(self, path: str) -> int:
        return int((self._stat(path) or {"length": 0})["length"])

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp((self._stat(path) or {"modified": 0})["modified"], UTC)

    def glob(self, path: str, **_: Any) -> list[str]:
        path = path.removeprefix(self._prefix)
        if not re.search(r"[*?\[]", path):
            return [path] if self.exists(path) else []
        root = "/".join(path.split("/")[:3])
        folder = re.split(r"[*?\[]", path, maxsplit=1)[0].rpartition("/")[0]
        pattern = re.compile(_regular(path.removeprefix(f"{root}/")))
        return [f"{root}/{key}" for key in self.call("list", path=folder)[0]["keys"] if pattern.fullmatch(key)]

    def rm(self, path: str, **_: Any) -> None:
        self._found.pop(path, None)
        self.call("delete", path=path)

    rm_file = delete = rm

    def unstrip_protocol(self, path: str) -> str:
        return path


class _Reading:
    """An object opened for reading, at any position."""

    def __init__(self, call: Callable[..., tuple[dict[str, Any], bytes]], path: str, length: int) -> None:
        self._call, self._path, self._length = call, path, length
        self._at = 0
        # Threads of DuckDB share a file: each must read at the position that it has just set.
        self._places: dict[int, int] = {}

    def seek(self, place: int, *_: Any) -> int:
        self._at = self._places[threading.get_ident()] = place
        return place

    def _position(self) -> int:
        return self._at

    tell = _position  # by the name that files of Python have

    def seekable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        first = self._places.pop(threading.get_ident(), self._at)
        end = self._length if count < 0 else min(first + count, self._length)
        self._at = end
        return self._call("read", path=self._path, first=first, end=end)[1] if end > first else b""

    def close(self) -> None:
        return None


class _Writing:
    """An object opened for writing, from beginning to end. It exists once it is closed."""

    def __init__(
        self, call: Callable[..., tuple[dict[str, Any], bytes]], path: str, changed: Callable[[], object]
    ) -> None:
        self._call, self._changed = call, changed
        self._upload = call("open", path=path)[0]["upload"]
        self._buffer, self._at = bytearray(), 0
        self._is_open = True

    def write(self, data: bytes) -> int:
        self._buffer += data
        self._at += len(data)
        if len(self._buffer) >= _BUFFER_BYTES:
            self._send()
        return len(data)

    def _send(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        self._call("write", data, upload=self._upload)

    def seek(self, place: int, *_: Any) -> int:
        return place

    def _position(self) -> int:
        return self._at

    tell = _position  # by the name that files of Python have

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        return None

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._send()
            self._call("close", upload=self._upload)
            self._changed()


_LOST = {"kind": "storage.error", "message": "the process that reads the object store has ended", "retryable": True}


def _receive_bytes(line: socket.socket, size: int) -> bytes:
    body = bytearray()
    while len(body) < size:
        part = line.recv(min(size - len(body), 1 << 20))
        if not part:
            raise ConnectionError("the other process has ended")
        body += part
    return bytes(body)


def _regular(pattern: str) -> str:
    """A file name pattern as a regular expression: `**` also matches slashes."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^]/]*\])", pattern)
    known = {"*": "[^/]*", "?": "[^/]", "**": ".*", "**/": "(?:.*/)?"}
    return "".join(
        known.get(part) or (part.replace("[!", "[^") if part[:1] == "[" else re.escape(part)) for part in parts
    )
