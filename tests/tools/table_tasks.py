"""Tasks that hand tables to each other, with a results store and all tools around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from noetl.base.errors import ToolError
from noetl.base.redaction import Redactor
from noetl.events.outcomes import Outcome, Reference
from noetl.store.results.files import MemoryResults, table_reference
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.registry import Registry
from noetl.tools.transfer.tool import TransferTool
from noetl.worker.remote_values import RemoteTables
from tests.servers.postgres import server
from tests.tools.sql_tasks import outcome_of

# One row with most of the types of PostgreSQL.
TYPES = """
SELECT true AS yes, 1::int2 AS small, 2::int4 AS whole, 9007199254740993::int8 AS large, 1.5::float8 AS float,
  12345678901234567890.12::numeric AS money, -1.5::numeric AS price,
  'a "quoted", text' || chr(10) || 'ä' AS words, '' AS empty,
  NULL::text AS nothing, date '2026-01-31' AS day, timestamp '2026-01-31 08:00:00.5' AS moment,
  timestamptz '2026-01-31 08:00:00+02' AS zoned, 'c0ffee00-0000-4000-8000-000000000000'::uuid AS id,
  '{"a": [1]}'::jsonb AS doc, '\\x00ff'::bytea AS raw, ARRAY[1, 2] AS list, '\\N' AS backslash
"""


class SharedTools:
    """All tools, with the child processes that they have started."""

    def __init__(self) -> None:
        self.registry, self.transfer = Registry(), TransferTool()

    async def close(self) -> None:
        await self.transfer.close()
        await self.registry.close()


class TableTasks:
    """`secrets` are what the execution has read so far."""

    def __init__(self, folder: Path, tools: SharedTools) -> None:
        self.folder, self.results, self.tools = folder, MemoryResults(), tools.registry
        self.secrets: list[str] = []

    async def outcome(self, kind: str, inputs: dict[str, Any], **spec: Any) -> Outcome:
        return await outcome_of(
            self.tools.tool(kind),
            inputs,
            spec,
            keep=self.results.put,
            load=self.results.load,
            keep_table=self.keep,
            fetch_table=self.fetch,
            secret_forms=lambda: Redactor(self.secrets).forms,
            tool=self.tools.tool,
            data_folders=(str(self.folder),),
        )

    async def run(self, kind: str, inputs: dict[str, Any], **spec: Any) -> Any:
        outcome = await self.outcome(kind, inputs, **spec)
        assert outcome.error is None, outcome.error
        return outcome.result

    async def error(self, kind: str, inputs: dict[str, Any], **spec: Any) -> Any:
        outcome = await self.outcome(kind, inputs, **spec)
        assert outcome.error is not None, outcome.result
        return outcome.error

    async def rows(self, ref: Any, query: str = "SELECT * FROM t") -> Any:
        """Rows of a table, as the next task reads them."""
        return (await self.run("duckdb", {"query": query, "tables": {"t": ref}}))["data"]

    async def keep(self, file: Path) -> Reference:
        return table_reference("memory", await self.results.send_file(file), file.stat().st_size)

    async def fetch(self, reference: Reference, into: Path) -> None:
        await self.results.fetch_file(reference.checksum, into)

    def close(self) -> None:
        self.results.close()


class Breaking:
    """A tool that loses its line at the n-th call, after it has done its work or before."""

    def __init__(self, tool: Any, at: int, *, after: bool) -> None:
        self._tool, self._left, self._after = tool, at, after

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise ToolError("sql.error", "the network is gone", retryable=True)
        result: ToolResult = await self._tool.run(inputs, context)
        if self._left == 0:
            raise ToolError("sql.error", "the network is gone", retryable=True)
        return result


class Transfers(TableTasks):
    """Transfers from and to a PostgreSQL database, and other ends that a test names."""

    def __init__(self, folder: Path, tools: SharedTools, auth: dict[str, Any]) -> None:
        super().__init__(folder, tools)
        self.auth, self.table, self.transfer = auth, f"t_{uuid4().hex[:10]}", tools.transfer

    async def moved(
        self,
        source: Any,
        target: Any,
        *,
        run: str = "",
        tool: Callable[[str], Any] | None = None,
        tables: RemoteTables | None = None,
        execution_id: str = "exec",
        **inputs: Any,
    ) -> Outcome:
        """`tables` are those of a server, as a worker elsewhere has them, and `execution_id` names an execution that it
        knows; without them they are in this process."""
        return await outcome_of(
            self.transfer,
            {"source": source, "target": target, **inputs},
            key=f"{self.table} {run}",
            keep=self.results.put,
            load=self.results.load,
            keep_table=self.keep if tables is None else lambda file: tables.keep(file, execution_id),
            fetch_table=self.fetch if tables is None else tables.fetch,
            tool=tool or self.tools.tool,
            data_folders=(str(self.folder),),
        )

    async def result(self, source: Any, target: Any, **inputs: Any) -> Any:
        outcome = await self.moved(source, target, **inputs)
        assert outcome.error is None, outcome.error
        return outcome.result

    def sql(self, text: str) -> str:
        return server().ask(text, self.auth["database"])

    def postgres(self, **more: Any) -> dict[str, Any]:
        return {"kind": "postgres", "auth": self.auth, **more}

    def numbers(self, count: int, **more: Any) -> dict[str, Any]:
        query = f"SELECT n AS id, 'row ' || n AS name, n / 4.0 AS price FROM generate_series(1, {count}) AS n"
        return self.postgres(query=query, **more)

    def created(self, columns: str = "id int, name text, price numeric(12, 2)") -> dict[str, Any]:
        self.sql(f"CREATE TABLE {self.table} ({columns})")
        return self.postgres(table=self.table)

    def count(self) -> list[str]:
        return self.sql(f"SELECT count(*), count(DISTINCT id) FROM {self.table}").split("|")
