"""The child process of the `archive` tool. It has little memory: the headers of an archive can ask for much."""

from __future__ import annotations

import resource
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.archive.packing import listed, packed, unpacked
from noetl.tools.archive.request import ArchiveAnswer, ArchiveRequest
from noetl.tools.child_pipes import serve_calls

_MEMORY_BYTES = 1 << 30
_OPERATIONS = {"pack": packed, "unpack": unpacked, "list": listed}


def serve() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or most > _MEMORY_BYTES:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, most))
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    request = msgspec.convert(call, ArchiveRequest)
    try:
        answer: ArchiveAnswer = _OPERATIONS[request.op](request)
    except ToolError as problem:
        return _refused(problem.kind, problem.message)
    except MemoryError:
        return _refused("archive.limit", f"{request.name} asks for more memory than {_MEMORY_BYTES >> 20} MiB")
    except OSError as problem:
        return _refused("archive.error", f"{request.name}: {problem.strerror or type(problem).__name__}")
    # Broad: an archive is hostile input to half a dozen parsers, and each has its own errors.
    except Exception as problem:
        return _refused("archive.error", f"{request.name}: {type(problem).__name__}")
    return msgspec.json.encode({"result": answer})


def _refused(kind: str, message: str) -> bytes:
    return msgspec.json.encode({"error": {"kind": kind, "message": message}})
