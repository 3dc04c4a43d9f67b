"""Schemas of results by name and version, kept on the key-value table (RES-07). What is registered stays as it was."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from noetl.base.errors import RefusedError
from noetl.engine.pipeline.result_schemas import refusal
from noetl.store.key_values import KeyValue, KeyValues

KIND = "result_schema"
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,99}")
_NAMED = re.compile(r"([A-Za-z_][\w.-]{0,99})(?:@(\d{1,6}))?")


class ResultSchema(msgspec.Struct, frozen=True, kw_only=True):
    """`version` counts from one for each name."""

    name: str
    version: int
    schema: Any
    registered_at: float


async def register_schema(key_values: KeyValues, name: str, schema: Any, *, at: float) -> ResultSchema:
    """A new version, durably, unless the newest one says the same: then that one. RefusedError for what is none."""
    if not _NAME.fullmatch(name):
        raise RefusedError(f'"{name}" is no name of a schema: letters, digits, ".", "_" and "-" are allowed')
    if problem := refusal(schema):
        raise RefusedError(problem)
    body = msgspec.json.encode(schema)
    while True:
        newest = await find_schema(key_values, name)
        if newest is not None and newest.schema == schema:
            return newest
        version = newest.version + 1 if newest is not None else 1
        if thing := await key_values.put(KIND, _key(name, version), body, over=0, at=at):
            return _read(thing)  # else somebody else was quicker, and this is the one after


async def find_schema(key_values: KeyValues, named: str) -> ResultSchema | None:
    """The newest of a name, or that of a version: `orders`, `orders@2`."""
    found = _NAMED.fullmatch(named)
    if found is None:
        return None
    if found[2] is not None:
        thing = await key_values.get(KIND, _key(found[1], int(found[2])))
        return _read(thing) if thing is not None else None
    things = await key_values.list(KIND, prefix=f"{found[1]}@")
    return _read(things[-1]) if things else None


async def newest_schemas(key_values: KeyValues) -> list[ResultSchema]:
    """The newest version of each, by name."""
    rows = {one.name: one for one in map(_read, await key_values.list(KIND))}
    return list(rows.values())


def _key(name: str, version: int) -> str:
    return f"{name}@{version:06}"


def _read(thing: KeyValue) -> ResultSchema:
    name, _, version = thing.name.partition("@")
    schema = msgspec.json.decode(thing.body)
    return ResultSchema(name=name, version=int(version), schema=schema, registered_at=thing.updated_at)
