"""Pages of values: people browse a large result part by part; it is never sent as a whole (RES-05, SRV-09).

A JSON pointer names the part. The size of an answer is bounded, for any value: at most `limit` entries of a list or an
object, each whole if it is small, otherwise only its kind, size and first characters.
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
from noetl.base.redaction import Redactor
from noetl.operations.api_shapes import PageColumn, TablePage
from noetl.store.contract import ResultStore
from noetl.store.results.files import schema_hint

if TYPE_CHECKING:
    from noetl.tools.table_files import TableFiles


MOST_ENTRIES = 1_000  # of a page
TEXT_CHARS = 20_000  # of a page of one long text
# A value up to this size is sent as it is: about as much as an event may contain.
_WHOLE_BYTES = 64_000
_ENTRY_BYTES = 4_000
_PAGE_BYTES = 512_000  # of all entries of a page that are sent whole
_PREVIEW_CHARS = 200
_MOST_COLUMNS = 200
_encode = msgspec.json.Encoder().encode


class ValueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a list or an object, and its pointer. It has `value` if `is_whole`, else `preview`, its first
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
    """A part of a value. It has `value` if `is_whole`; else the `entries` of a list or an object from `offset` on, or
    `text`, a part of a long text. `count` counts all entries or characters. `columns` are the keys of the rows in this
    page, for a list of rows."""

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
    """A page of the part that `pointer` names. RefusedError if there is no such part."""
    part = part_at(value, pointer)
    size = len(_encode(part))
    summary: dict[str, Any] = {"pointer": pointer, "kind": kind_of(part), "count": count_of(part), "size_bytes": size}
    # A request with an offset continues a list of entries, so it gets entries even of a small value. Other scalars have
    # no second page.
    if (size <= _WHOLE_BYTES and offset == 0) or not isinstance(part, dict | list | str):
        return ValuePage(**summary, is_whole=True, value=part, columns=_columns(part))
    if isinstance(part, str):
        return ValuePage(**summary, is_whole=False, offset=offset, text=part[offset : offset + TEXT_CHARS])
    entries = _entries(part, offset, limit)
    columns = _columns([entry for _, entry in entries]) if isinstance(part, list) else []
    return ValuePage(**summary, is_whole=False, offset=offset, entries=_entry_views(entries, pointer), columns=columns)


def _columns(part: Any) -> list[str]:
    """The keys of a list of rows, in the order of their first appearance."""
    if not isinstance(part, list) or not all(isinstance(row, dict) for row in part):
        return []
    return list(dict.fromkeys(key for row in part for key in row))[:_MOST_COLUMNS]


def part_at(value: Any, pointer: str) -> Any:
    """The part of a value that an RFC 6901 pointer names."""
    if pointer and not pointer.startswith("/"):
        raise RefusedError(f'pointer "{pointer}": it begins with /, as in /orders/0')
    for segment in pointer.split("/")[1:]:
        key = segment.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            raise RefusedError(f'pointer "{pointer}": there is no "{key}" in this {kind_of(value)}')
    return value


def kind_of(value: Any) -> str:
    """The JSON type of a value."""
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
    return [(str(at), entry) for at, entry in enumerate(part[offset : offset + limit], start=offset)]


def _entry_views(entries: list[tuple[str, Any]], parent_pointer: str) -> list[ValueEntry]:
    views, bytes_left = [], _PAGE_BYTES
    for key, value in entries:
        body = _encode(value)
        # Many small entries may be too large together: those that no longer fit get a preview.
        is_whole = len(body) <= min(_ENTRY_BYTES, bytes_left)
        bytes_left -= len(body) if is_whole else 0
        entry = ValueEntry(
            key=key,
            pointer=f"{parent_pointer}/{key.replace('~', '~0').replace('/', '~1')}",
            kind=kind_of(value),
            count=count_of(value),
            size_bytes=len(body),
            is_whole=is_whole,
            value=value if is_whole else None,
            # Cut the bytes first (a character has at most four): decoding a large value as a whole would be slow.
            preview="" if is_whole else body[: 4 * _PREVIEW_CHARS].decode("utf-8", "ignore")[:_PREVIEW_CHARS],
        )
        views.append(entry)
    return views


class WrittenValue(msgspec.Struct, frozen=True):
    """The kind of value in encoded bytes, and whether the encoding is ours."""

    schema_hint: str
    is_shortest: bool


def written_value(body: bytes) -> WrittenValue:
    """MsgspecError or RecursionError if the bytes are no value."""
    value = msgspec.json.decode(body)
    return WrittenValue(schema_hint(value), msgspec.json.encode(value) == body)


def masked_value(body: bytes, redactor: Redactor) -> bytes:
    """An encoded value without the secrets of a redactor."""
    return _encode(redactor.data(msgspec.json.decode(body)))


def serve() -> None:
    """The program of a process that a server starts for a value that is too large to decode in its own."""
    from noetl.tools.child_pipes import serve_calls

    serve_calls(lambda asked: _encode(_answer(Path(asked["file"]), asked)))


def _answer(file: Path, asked: dict[str, Any]) -> dict[str, Any]:
    body = file.read_bytes()
    try:
        if "searched" in asked:
            # In place: the server reads the file again, and decodes nothing.
            redactor = Redactor((), searched=asked["searched"], wholes=asked["wholes"])
            file.write_bytes(masked_value(body, redactor))
            return {"masked": True}
        if "pointer" not in asked:
            return {"written": written_value(body)}
        value = msgspec.json.decode(body)
        return {"page": value_page(value, asked["pointer"], offset=asked["offset"], limit=asked["limit"])}
    except RefusedError as problem:
        return {"refused": str(problem)}
    except (msgspec.MsgspecError, RecursionError) as problem:
        return {"wrong": str(problem)}


# Pages of stored tables (RES-05). A table on this machine is read in place; one in a remote store is fetched into a
# temporary folder for the page. The code that reads tables imports SQL and DuckDB, so it is loaded with the first page
# and not at the start of a server.
_OWNER = "pages"


def recorded_table(result: Any) -> str | None:
    """The checksum of the table that a recorded result refers to; None if it refers to none."""
    from noetl.tools.table_files import table_in

    reference = table_in(result)
    return reference.checksum if reference is not None else None


@asynccontextmanager
async def opened_tables() -> AsyncIterator[tuple[TableFiles, Path]]:
    """DuckDB and a temporary folder for the files it needs, for the length of the block."""
    from noetl.tools.table_files import TableFiles

    tables = TableFiles()
    with tempfile.TemporaryDirectory(prefix="noetl-table-", ignore_cleanup_errors=True) as folder:
        try:
            yield tables, Path(folder)
        finally:
            await tables.close()


async def table_page(results: ResultStore, checksum: str, *, offset: int, limit: int) -> TablePage:
    """Some rows of a stored table. ToolError `result.missing` for an unknown table, `tool.unknown_kind` without
    DuckDB."""
    async with opened_tables() as (tables, folder):
        file = results.table_file(checksum)
        if file is None:
            file = folder / "fetched.parquet"
            await results.fetch_file(checksum, file)
        shape = await tables.shape(_OWNER, file)
        page = await tables.rows(_OWNER, file, offset=offset, limit=limit)
    columns = [PageColumn(name=column.name, type=column.type) for column in shape.columns]
    return TablePage(row_count=shape.row_count, columns=columns, offset=offset, rows=page.rows)
