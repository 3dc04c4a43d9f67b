"""Shapes of SQL with templates on real databases: bound, each gives what its text alone would have given."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from noetl.templates.sql.binding import bind, read
from noetl.templates.sql.statements import Bound, Statement
from noetl.tools.contract import Tool
from noetl.tools.duckdb.tool import DuckdbTool
from noetl.tools.postgres.tool import PostgresTool
from tests.servers.postgres import pg_auth  # noqa: F401  a fixture
from tests.tools.sql_shapes import ROWS, SCOPE, TABLES, Shape, literal, shapes
from tests.tools.sql_tasks import outcome_of

FAMILIES = list(shapes("postgres"))[:-1]


async def differences(tool: Tool, database: str, family: list[Shape], **auth: Any) -> list[str]:
    """The shapes that do not give the rows of their literal text, each with what they gave."""
    await outcome_of(tool, {"command": read(TABLES[database]), **auth})
    literals = [read(literal(shape, database)).statements for shape in family]
    bounds = [bind(shape.sql, SCOPE).statements for shape in family]
    expected, given = [await rows_of(tool, database, each, **auth) for each in (literals, bounds)]

    return [
        f"{shape.sql}\n    gave {after}\n    not  {before}"
        for shape, before, after in zip(family, expected, given, strict=True)
        if before != after or isinstance(before, str)
    ]


async def rows_of(tool: Tool, database: str, shapes: list[tuple[Statement, ...]], **auth: Any) -> list[Any]:
    """The rows that each shape gives on fresh tables, or its error. All run in one task, since most of what a task
    costs is to open its database; if one of them fails, each runs in its own to see which."""
    setup = read(ROWS[database]).statements
    outcome = await outcome_of(
        tool, {"command": _together(each for shape in shapes for each in (setup, shape)), **auth}
    )
    if outcome.error is None:
        ends = itertools.accumulate(len(setup) + len(shape) for shape in shapes)
        return [outcome.result[f"command_{end - 1}"]["rows"] for end in ends]
    alone = [await outcome_of(tool, {"command": _together([setup, shape]), **auth}) for shape in shapes]
    return [each.error.message if each.error is not None else each.result["data"] for each in alone]


def _together(groups: Iterable[tuple[Statement, ...]]) -> Bound:
    return Bound(tuple(itertools.chain.from_iterable(groups)))


@pytest.mark.req("TOOL-05", "O-23")
@pytest.mark.parametrize("family", [*FAMILIES, "postgres only"])
async def test_a_bound_value_on_postgres_equals_its_literal(pg_auth: dict[str, Any], family: str) -> None:  # noqa: F811
    tool = PostgresTool()

    found = await differences(tool, "postgres", shapes("postgres")[family], auth=pg_auth)
    await tool.close()

    assert not found, "\n".join(found)


@pytest.mark.req("TOOL-06", "O-23")
@pytest.mark.parametrize("family", [*FAMILIES, "duckdb only"])
async def test_a_bound_value_on_duckdb_equals_its_literal(family: str) -> None:
    tool = DuckdbTool()

    found = await differences(tool, "duckdb", shapes("duckdb")[family])
    await tool.close()

    assert not found, "\n".join(found)


@pytest.mark.parametrize("database", ["postgres", "duckdb"])
def test_the_matrix_contains_at_least_three_hundred_shapes(database: str) -> None:
    written = [shape.sql for family in shapes(database).values() for shape in family]

    assert len(set(written)) == len(written) >= 300
