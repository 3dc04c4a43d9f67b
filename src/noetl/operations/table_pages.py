"""Pages of stored tables, for people: the first rows, or those from a row on (RES-05).

A table on this machine is read where it lies. One in a store elsewhere is fetched first, to be gone with the page.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.operations.api_shapes import PageColumn, TablePage
from noetl.store.contract import ResultStore

if TYPE_CHECKING:
    from noetl.tools.tables.files import TableFiles

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
