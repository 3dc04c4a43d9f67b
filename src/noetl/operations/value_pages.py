"""Pages of values, for people: a large result is looked into part by part, and never sent whole (RES-05, SRV-09).

A part is named by a JSON pointer. What comes out is bounded, whatever the value is: at most `limit` entries of a list
or an object, each whole where it is small and otherwise told by its kind, its size and its first characters.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.errors import RefusedError
from noetl.operations.api_shapes import PageColumn, TablePage
from noetl.store.contract import ResultStore

if TYPE_CHECKING:
    from noetl.tools.tables.files import TableFiles


MOST_ENTRIES = 1_000  # of a page
TEXT_CHARS = 20_000  # of a page of one long text
_WHOLE_BYTES = 64_000  # a value up to this is sent as it is: about what an event may carry itself
_ENTRY_BYTES = 4_000
_PAGE_BYTES = 512_000  # of all entries of a page that are sent whole
_PREVIEW_CHARS = 200
_MOST_COLUMNS = 200
_encode = msgspec.json.Encoder().encode


class ValueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a list or an object, and where it is. `value` is there where `is_whole`, else `preview`: its first
    characters."""

    key: str
    pointer: str
    kind: str
    count: int
    size_bytes: int
    is_whole: bool
    value: Any = None
    preview: str = ""


class ValuePage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a value: `value` where `is_whole`; else `entries` of a list or an object from `offset` on, or `text`, a
    part of a long text. `count` is of all entries or characters. `columns` are the keys of what is shown of a list of
    rows."""

    pointer: str
    kind: str
    count: int
    size_bytes: int
    is_whole: bool
    offset: int = 0
    value: Any = None
    entries: list[ValueEntry] = []
    columns: list[str] = []
    text: str = ""


def value_page(value: Any, pointer: str = "", *, offset: int = 0, limit: int = 100) -> ValuePage:
    """RefusedError where the pointer leads nowhere."""
    part = part_at(value, pointer)
    size = len(_encode(part))
    told: dict[str, Any] = {"pointer": pointer, "kind": kind_of(part), "count": count_of(part), "size_bytes": size}
    if size <= _WHOLE_BYTES and offset == 0:
        return ValuePage(**told, is_whole=True, value=part, columns=_columns(part))
    if isinstance(part, str):
        return ValuePage(**told, is_whole=False, offset=offset, text=part[offset : offset + TEXT_CHARS])
    found = _entries(part, offset, limit)
    columns = _columns([one for _, one in found]) if isinstance(part, list) else []
    return ValuePage(**told, is_whole=False, offset=offset, entries=_entry_views(found, pointer), columns=columns)


def _columns(part: Any) -> list[str]:
    """The keys of rows, in the order in which they are first met."""
    if not isinstance(part, list) or not all(isinstance(one, dict) for one in part):
        return []
    return list(dict.fromkeys(key for row in part for key in row))[:_MOST_COLUMNS]


def part_at(value: Any, pointer: str) -> Any:
    """What an RFC 6901 pointer leads to."""
    if pointer and not pointer.startswith("/"):
        raise RefusedError(f'pointer "{pointer}": it begins with /, as in /orders/0')
    for written in pointer.split("/")[1:]:
        key = written.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            raise RefusedError(f'pointer "{pointer}": there is no "{key}" in this {kind_of(value)}')
    return value


def kind_of(value: Any) -> str:
    """The name that JSON has for it."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def count_of(value: Any) -> int:
    return len(value) if isinstance(value, dict | list | str) else 1


def _entries(part: dict[str, Any] | list[Any], offset: int, limit: int) -> list[tuple[str, Any]]:
    if isinstance(part, dict):
        return list(islice(part.items(), offset, offset + limit))
    return [(str(at), one) for at, one in enumerate(part[offset : offset + limit], start=offset)]


def _entry_views(found: list[tuple[str, Any]], around: str) -> list[ValueEntry]:
    shown, left = [], _PAGE_BYTES
    for key, value in found:
        body = _encode(value)
        # Many entries that are small alone may be too much together: those that no longer fit are told by a preview.
        is_whole = len(body) <= min(_ENTRY_BYTES, left)
        left -= len(body) if is_whole else 0
        entry = ValueEntry(
            key=key,
            pointer=f"{around}/{key.replace('~', '~0').replace('/', '~1')}",
            kind=kind_of(value),
            count=count_of(value),
            size_bytes=len(body),
            is_whole=is_whole,
            value=value if is_whole else None,
            preview="" if is_whole else body[: 4 * _PREVIEW_CHARS].decode("utf-8", "ignore")[:_PREVIEW_CHARS],
        )
        shown.append(entry)
    return shown


# Pages of stored tables, for people: the first rows, or those from a row on (RES-05).
# A table on this machine is read where it lies. One in a store elsewhere is fetched first, to be gone with the page.
# What reads tables is loaded with the first of them: SQL and DuckDB come with it, and a server starts without.
_OWNER = "pages"


def recorded_table(result: Any) -> str | None:
    """The checksum of the table that a recorded result refers to; None where it refers to none."""
    from noetl.tools.tables.stored import table_in

    reference = table_in(result)
    return reference.checksum if reference is not None else None


@asynccontextmanager
async def opened_tables() -> AsyncIterator[tuple[TableFiles, Path]]:
    """DuckDB for some calls, and a folder for the files they need."""
    from noetl.tools.tables.files import TableFiles

    tables = TableFiles()
    with tempfile.TemporaryDirectory(prefix="noetl-table-", ignore_cleanup_errors=True) as folder:
        try:
            yield tables, Path(folder)
        finally:
            await tables.close()


async def table_page(results: ResultStore, checksum: str, *, offset: int, limit: int) -> TablePage:
    """ToolError `result.missing` where there is no such table, and `tool.unknown_kind` without DuckDB."""
    async with opened_tables() as (tables, folder):
        file = results.table_file(checksum)
        if file is None:
            file = folder / "fetched.parquet"
            await results.fetch_file(checksum, file)
        shape = await tables.shape(_OWNER, file)
        found = await tables.rows(_OWNER, file, offset=offset, limit=limit)
    columns = [PageColumn(name=one.name, type=one.type) for one in shape.columns]
    return TablePage(row_count=shape.row_count, columns=columns, offset=offset, rows=found.rows)
