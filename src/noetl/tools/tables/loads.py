"""Loads: a file of rows into a table, as `transfer` asks the tools of databases for it.

No playbook can write one: it is an object of ours among the inputs of a call, and never comes out of YAML.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from noetl.templates.sql.statements import Statement


class RowLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of `file` into `table` (a name as SQL), in one transaction with the statements `then`.

    The file is CSV without a header and NULL as `\\N` for PostgreSQL, lines of JSON for others. `binary` are columns of
    bytes, in hexadecimal digits. `key`: the columns that tell which rows are there already; they are updated.
    `empties`: all rows that were there go first."""

    table: str
    columns: tuple[str, ...]
    file: Path
    # Columns of bytes, in hexadecimal digits: neither CSV nor JSON can hold bytes.
    binary: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    empties: bool = False
    then: tuple[Statement, ...] = ()
