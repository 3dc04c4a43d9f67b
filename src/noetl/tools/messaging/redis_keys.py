"""Redis, in the child: keys, hashes, lists, channels and streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from noetl.base.errors import ToolError
from noetl.tools.contents import decode
from noetl.tools.messaging.tool import MessagingRequest

_FIELD = "data"


async def perform(request: MessagingRequest) -> dict[str, Any]:
    operation = _OPERATIONS.get(request.op)
    if operation is None:
        raise ToolError("redis.input", f'op "{request.op}" is not known: write {", ".join(_OPERATIONS)}')
    broker = request.broker
    if broker.database and not broker.database.isdecimal():
        raise ToolError("keychain.unresolved", 'the "database" of a redis credential is a number')
    tls: dict[str, Any] = {"ssl": True, "ssl_ca_data": broker.ca or None} if broker.tls else {}
    client = Redis(
        host=broker.host,
        port=broker.port,
        db=int(broker.database or 0),
        username=broker.user or None,
        password=broker.password or None,
        socket_connect_timeout=10,
        client_name="noetl",
        retry=Retry(NoBackoff(), 0),  # the policy of the task decides: an INCR that is sent again counts twice
        **tls,
    )
    async with client:
        return await operation(client, request)


def read_error(problem: Exception) -> tuple[str, str | None, bool]:
    """The kind of an error, its code (the first word of Redis's message), and whether a retry may help."""
    if isinstance(problem, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return "denied", _error_word(problem), False
    if isinstance(problem, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        return "error", "connection", True
    busy = isinstance(problem, exceptions.BusyLoadingError | exceptions.TryAgainError | exceptions.ReadOnlyError)
    return "error", _error_word(problem), busy


def _error_word(problem: Exception) -> str | None:
    code = getattr(problem, "status_code", None) or str(problem).partition(" ")[0]
    return str(code) if str(code).isupper() else None


async def _check(client: Any, request: MessagingRequest) -> dict[str, Any]:
    await client.ping()
    return {}


async def _get(client: Any, request: MessagingRequest) -> dict[str, Any]:
    key = request.text("key")
    found = await client.get(key)
    if found is None:
        raise ToolError("redis.missing", f'there is no key "{key}"')
    return {"key": key, "value": _value(found, request)}


async def _set(client: Any, request: MessagingRequest) -> dict[str, Any]:
    key, expires = request.text("key"), request.inputs.get("expires")
    # Redis refuses a lifetime of zero.
    lifetime = {"px": max(int(_seconds(expires) * 1000), 1)} if expires is not None else {}
    done = await client.set(key, request.body, nx=request.inputs.get("if_absent") is True, **lifetime)
    if not done:
        raise ToolError("redis.conflict", f'the key "{key}" exists already')
    return {"key": key, "size": len(request.body)}


async def _delete(client: Any, request: MessagingRequest) -> dict[str, Any]:
    key = request.text("key")
    return {"key": key, "deleted": int(await client.delete(key))}


async def _increment(client: Any, request: MessagingRequest) -> dict[str, Any]:
    key = request.text("key")
    return {"key": key, "value": int(await client.incrby(key, int(request.inputs.get("amount") or 1)))}


async def _keys(client: Any, request: MessagingRequest) -> dict[str, Any]:
    """Keys are read in steps, with SCAN: KEYS would block the server for all other clients."""
    found: list[str] = []
    async for key in client.scan_iter(match=request.text("key"), count=500):
        found.append(key.decode("utf-8", "replace"))
        if len(found) > request.limit:
            return {"keys": sorted(found[: request.limit]), "more": True}
    # SCAN may return a key more than once.
    return {"keys": sorted(set(found)), "more": False}


async def _hash_get(client: Any, request: MessagingRequest) -> dict[str, Any]:
    key, field = request.text("key"), request.inputs.get("field")
    if field is not None:
        found = await client.hget(key, str(field))
        if found is None:
            raise ToolError("redis.missing", f'the hash "{key}" has no field "{field}"')
        return {"key": key, "value": _value(found, request)}
    whole = await client.hgetall(key)
    return {"key": key, "value": {name.decode("utf-8", "replace"): _value(one, request) for name, one in whole.items()}}


async def _hash_set(client: Any, request: MessagingRequest) -> dict[str, Any]:
    key, field = request.text("key"), request.text("field")
    await client.hset(key, field, request.body)
    return {"key": key, "field": field, "size": len(request.body)}


async def _push(client: Any, request: MessagingRequest) -> dict[str, Any]:
    key = request.text("key")
    return {"key": key, "length": int(await client.rpush(key, request.body))}


async def _pop(client: Any, request: MessagingRequest) -> dict[str, Any]:
    """Values are taken from the other end of the list, so that it is a queue."""
    key = request.text("key")
    if request.wait_s:
        # BLPOP takes one value. Further values are taken without waiting.
        first = await client.blpop([key], timeout=request.wait_s)
        found = [first[1]] if first else []
        found += (await client.lpop(key, request.limit - 1) or []) if found and request.limit > 1 else []
    else:
        found = await client.lpop(key, request.limit) or []
    return {"key": key, "values": [_value(one, request) for one in found], "count": len(found)}


async def _publish(client: Any, request: MessagingRequest) -> dict[str, Any]:
    channel = request.text("key")
    return {"key": channel, "receivers": int(await client.publish(channel, request.body))}


async def _stream_add(client: Any, request: MessagingRequest) -> dict[str, Any]:
    key = request.text("key")
    return {"key": key, "id": (await client.xadd(key, {_FIELD: request.body})).decode()}


async def _stream_read(client: Any, request: MessagingRequest) -> dict[str, Any]:
    """Messages after the cursor. The caller stores the new cursor together with the results of the messages."""
    key, after = request.text("key"), str(request.inputs.get("cursor") or "0")
    # BLOCK 0 would wait for ever.
    block = {"block": max(int(request.wait_s * 1000), 1)} if request.wait_s else {}
    found = await client.xread({key: after}, count=request.limit, **block)
    streams = list(found.values()) if isinstance(found, dict) else [entries for _, entries in found or []]
    entries = [entry for stream in streams for entry in _flat(stream)]
    messages = [{"id": one.decode(), "value": _fields(fields, request)} for one, fields in entries]
    return {
        "key": key,
        "messages": messages,
        "count": len(messages),
        "cursor": messages[-1]["id"] if messages else after,
    }


def _flat(stream: Any) -> list[Any]:
    """The client returns entries as pairs or inside one more list, depending on the version of the protocol."""
    return stream[0] if stream and isinstance(stream[0], list) else stream


def _fields(fields: dict[bytes, bytes], request: MessagingRequest) -> Any:
    """A message of ours has one field; others come as a mapping."""
    if set(fields) == {_FIELD.encode()}:
        return _value(fields[_FIELD.encode()], request)
    return {name.decode("utf-8", "replace"): _value(value, request) for name, value in fields.items()}


def _value(body: bytes, request: MessagingRequest) -> Any:
    return decode(body, request.inputs.get("format"), kind="redis")


def _seconds(written: Any) -> float:
    from noetl.base.durations import seconds

    try:
        return seconds(written)
    except ValueError as problem:
        raise ToolError("redis.input", f"expires: {problem}") from None


_OPERATIONS: dict[str, Callable[[Any, MessagingRequest], Awaitable[dict[str, Any]]]] = {
    "check": _check,
    "get": _get,
    "set": _set,
    "delete": _delete,
    "increment": _increment,
    "keys": _keys,
    "hash_get": _hash_get,
    "hash_set": _hash_set,
    "push": _push,
    "pop": _pop,
    "publish": _publish,
    "stream_add": _stream_add,
    "stream_read": _stream_read,
}
