"""The child process of the `storage` tool: reads requests, does them, writes answers, as JSON over pipes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from noetl.base.addresses.guard import AddressGuard
from noetl.base.errors import ToolError
from noetl.tools.child_pipes import serve_calls
from noetl.tools.guarded_proxy import guarded_proxy
from noetl.tools.storage.failures import failure
from noetl.tools.storage.operations import perform
from noetl.tools.storage.request import StorageRequest


def serve() -> None:
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    try:
        result = asyncio.run(_done(msgspec.convert(call, StorageRequest)))
    except ToolError as problem:
        told = {"kind": problem.kind, "message": problem.message, "retryable": problem.retryable, **problem.details}
        return msgspec.json.encode({"error": told})
    except Exception as problem:
        # The class alone: the driver's text may hold a signed address.
        return msgspec.json.encode({"error": {"kind": "storage.error", "message": f"{type(problem).__name__}"}})
    return msgspec.json.encode({"result": result})


async def _done(request: StorageRequest) -> dict[str, Any]:
    async with guarded_proxy(AddressGuard(request.policy)) as proxy:
        try:
            return await perform(request, proxy.url)
        except ToolError:
            raise
        except Exception as problem:
            if proxy.refusal is not None:  # what the driver says is only that it got no connection
                raise proxy.refusal from problem
            raise failure(problem, f"{request.op} of {request.source.location}") from problem
