"""The child process of the broker tools: performs requests and answers them as JSON over pipes."""

from __future__ import annotations

import asyncio
import logging
import resource
from importlib import import_module
from typing import Any

import msgspec

from noetl.base.addresses.policy import AddressPolicy
from noetl.base.errors import ToolError
from noetl.tools.child_pipes import error_answer, serve_calls
from noetl.tools.guarded_sockets import GuardedSockets
from noetl.tools.messaging.tool import MessagingRequest

_MAX_RECEIVED_BYTES = 128 << 20  # of one operation: twice the largest result
# The second line of defence: what a broker sends may grow when it is decompressed and decoded.
_MEMORY_BYTES = 2 << 30
_sockets = GuardedSockets(AddressPolicy())
# Imported on first use: a child needs the client library of its own kind only.
_MODULES = {
    "redis": "noetl.tools.messaging.redis_keys",
    "mqtt": "noetl.tools.messaging.mqtt_messages",
    "kafka": "noetl.tools.messaging.kafka_records",
}


def serve() -> None:
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    _sockets.install()
    _sockets.limit_received()
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    request = msgspec.convert(call, MessagingRequest)
    _sockets.policy, _sockets.refusal, _sockets.left = request.policy, None, _MAX_RECEIVED_BYTES
    module = import_module(_MODULES[request.kind])
    try:
        return msgspec.json.encode({"result": asyncio.run(module.perform(request))})
    except ToolError as problem:
        return error_answer(problem)
    # Broad: three libraries with errors of their own, and the parent must get an answer for each.
    except Exception as problem:
        return msgspec.json.encode({"error": _failure(module, problem, request)})


def _failure(module: Any, problem: Exception, request: MessagingRequest) -> dict[str, Any]:
    """The error answer, as the module of the kind reads errors of its client. A refusal by the policy comes first."""
    if _sockets.refusal is not None:
        return {"kind": "tool.not_allowed", "message": _sockets.refusal, "code": "blocked", "retryable": False}
    if _sockets.is_used_up or isinstance(problem, MemoryError):
        most = f"{_MAX_RECEIVED_BYTES >> 20} MiB" if _sockets.is_used_up else f"fits into {_MEMORY_BYTES >> 20} MiB"
        message = f"{request.op} on {request.kind} at {request.broker}: the broker sent more than {most}; ask for less"
        return {"kind": "result.too_large", "message": message, "retryable": False}
    what, code, retryable = module.read_error(problem)
    text = "".join(char if char.isprintable() else " " for char in str(problem))[:300] or type(problem).__name__
    where = f"{request.op} on {request.kind} at {request.broker}"
    return {"kind": f"{request.kind}.{what}", "message": f"{where}: {text}", "code": code, "retryable": retryable}
