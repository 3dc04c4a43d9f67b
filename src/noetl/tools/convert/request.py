"""Requests: what the tool asks its child process to convert. Everything is a file by now."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_BYTES = 10 << 30
MEMORY_BYTES = 1 << 30
THREADS = 2


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with a table. `name` is what people know it by."""

    path: str
    name: str
    format: str
    compression: str = "none"
    encoding: str = "utf-8"
    delimiter: str | None = None
    record: str | None = None
    sheet: str | int | None = None
    header: bool | list[str] = True
    skip: int = 0
    types: str = "detect"
    null: str | None = None
    lists: list[str] = []
    cell_errors: str = "fail"
    root: str = "rows"


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the target, the source's that it comes from, and the type that the task gave it."""

    name: str
    source: str
    type: str | None = None


class ConvertRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One conversion. Without `target` the rows are the answer. `folder` is for files of its own."""

    source: TableFile
    target: TableFile | None = None
    columns: list[Column] | None = None
    folder: str
    max_bytes: int = MAX_BYTES
    max_rows: int | None = None
    memory_bytes: int = MEMORY_BYTES
    threads: int = THREADS


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `rows` are there where there is no target."""

    row_count: int
    columns: list[dict[str, str]]
    rows: list[dict[str, Any]] | None = None
    size: int | None = None
    checksum: str | None = None
