"""Computations of requests that would block the event loop: checks and drawings of texts, replays of logs, pages of
large values.

Computations run in a few threads of their own. Those of `asyncio.to_thread` store and load the results of executions:
24 checks of one large text once took all of them, and every execution waited for a minute. Reading and starting have
separate threads, so that a series of checks delays no start.

Decoding or encoding tens of megabytes is one call that holds up the event loop, in a thread too. So a large value is
sent on in the form it is stored in, and where a part of it is wanted, a process of its own decodes it, and takes its
memory along when it ends.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar

import msgspec

from noetl.base.errors import RefusedError
from noetl.base.redaction import Redactor
from noetl.control.commit.result_cache import ResultCache
from noetl.control.commit.sharing import NEAR_BYTES
from noetl.engine.scopes import payload_of
from noetl.events.large_values import Load
from noetl.events.outcomes import TaskResult
from noetl.operations.value_pages import WrittenValue, masked_value, value_page, written_value
from noetl.tools.child_process import Child, Program

Parameters = ParamSpec("Parameters")
Found = TypeVar("Found")
# Two: one long replay does not hold up a short one. More would only share one processor among them.
_VIEWS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="view")
_STARTS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="start")


async def computed(
    compute: Callable[Parameters, Found], /, *arguments: Parameters.args, **named: Parameters.kwargs
) -> Found:
    """The result of `compute`, for a reading request."""
    return await asyncio.get_running_loop().run_in_executor(_VIEWS, partial(compute, *arguments, **named))


async def computed_for_start(compute: Callable[[], Found]) -> Found:
    """The result of `compute`, for a request that starts or registers something."""
    return await asyncio.get_running_loop().run_in_executor(_STARTS, compute)


Value = TypeVar("Value")
_PROGRAM = Program(module="noetl.operations.value_pages", name="pages of values", error="result.unreadable")
_PROCESSES = asyncio.Semaphore(2)  # at once: each of them may take many times the memory of the value


class _Envelope(msgspec.Struct):
    """The result of a tool whose payload is a member of it; everything else in it is skipped."""

    data: msgspec.Raw = msgspec.Raw()


class EncodedValues:
    """Stored values for answers (`operations.results.ResultValues`)."""

    def __init__(self, cache: ResultCache) -> None:
        self._cache = cache

    async def read(self, compute: Callable[[Load], Value]) -> Value:
        return await self._cache.read(compute)

    async def payload(self, result: TaskResult) -> Any:
        value = await self._cache.read(lambda load: load(result.ref) if result.ref else result.result, encoded=True)
        if not isinstance(value, msgspec.Raw):
            return payload_of(result, lambda _: value)
        return await computed(_data_of, value) if result.wrapped else value


def _data_of(value: msgspec.Raw) -> msgspec.Raw:
    # Only objects are searched: a list is its own payload.
    data = msgspec.json.decode(value, type=_Envelope).data if bytes(memoryview(value)[:1]) == b"{" else msgspec.Raw()
    return data if memoryview(data).nbytes else value


async def encoded_page(body: bytes, pointer: str, offset: int, limit: int) -> Any:
    """A page of an encoded value. RefusedError if it has no such part."""
    if len(body) <= NEAR_BYTES:
        return await computed(lambda: value_page(msgspec.json.decode(body), pointer, offset=offset, limit=limit))
    answer = await _post_and_read(body, {"pointer": pointer, "offset": offset, "limit": limit})
    if "refused" in answer:
        raise RefusedError(answer["refused"])
    return answer["page"]


async def written_as(body: bytes) -> WrittenValue:
    """How an encoded value is written. MsgspecError or RecursionError if it is no value."""
    if len(body) <= NEAR_BYTES:
        return await computed(written_value, body)
    answer = await _post_and_read(body, {})
    if "wrong" in answer:
        raise msgspec.DecodeError(answer["wrong"])
    return msgspec.convert(answer["written"], WrittenValue)


async def masked_body(body: bytes, redactor: Redactor) -> bytes:
    """An encoded value without the secrets of an execution."""
    if len(body) <= NEAR_BYTES:
        return await computed(masked_value, body, redactor)
    # Most values hold none, and then nothing has to be decoded.
    if not await computed(redactor.may_be_in, body):
        return body
    async with _asked_of_process(body, {"searched": redactor.searched, "wholes": redactor.wholes}) as (_, file):
        return await computed(file.read_bytes)


async def _post_and_read(body: bytes, asked: dict[str, Any]) -> dict[str, Any]:
    async with _asked_of_process(body, asked) as (answer, _):
        return answer


@asynccontextmanager
async def _asked_of_process(body: bytes, asked: dict[str, Any]) -> AsyncIterator[tuple[dict[str, Any], Path]]:
    """The answer of a process of its own about a value, and the file that it has read."""
    async with _PROCESSES:
        # A file, and a thread that writes it: this process copies nothing, and others are served meanwhile.
        with tempfile.NamedTemporaryFile() as file:
            await computed(_write, file, body)
            child = await Child.start(_PROGRAM)
            try:
                yield await child.call({**asked, "file": file.name}), Path(file.name)
            finally:
                await child.kill()


def _write(file: IO[bytes], body: bytes) -> None:
    file.write(body)
    file.flush()
