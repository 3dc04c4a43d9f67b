"""Shapes of SQL with templates on real databases: bound, each gives what its text alone would have given."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.events.outcomes import Outcome
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
    found = []
    await outcome_of(tool, {"command": read(TABLES[database]), **auth})
    for shape in family:
        setup, text = read(ROWS[database]).statements, literal(shape, database)
        try:
            bound = bind(shape.sql, SCOPE)
        except Exception as problem:
            found.append(f"{shape.sql}\n    refused: {problem}")
            continue
        expected = await outcome_of(tool, {"command": _together(setup, read(text).statements), **auth})
        outcome = await outcome_of(tool, {"command": _together(setup, bound.statements), **auth})
        if expected.error is not None:
            found.append(f"{shape.sql}\n    its literal text fails: {text}\n    {expected.error.message}")
        elif _rows(outcome) != _rows(expected):
            found.append(f"{shape.sql}\n    gave {_rows(outcome)}\n    not  {_rows(expected)}")
    return found


def _together(*groups: tuple[Statement, ...]) -> Bound:
    return Bound(tuple(each for group in groups for each in group))


def _rows(outcome: Outcome) -> Any:
    return outcome.error.message if outcome.error is not None else outcome.result["data"]


@pytest.mark.req("TOOL-05", "O-23")
@pytest.mark.parametrize("family", [*FAMILIES, "postgres only"])
async def test_what_is_bound_on_postgres_gives_what_its_text_would(pg_auth: dict[str, Any], family: str) -> None:  # noqa: F811
    tool = PostgresTool()

    found = await differences(tool, "postgres", shapes("postgres")[family], auth=pg_auth)
    await tool.close()

    assert not found, "\n".join(found)


@pytest.mark.req("TOOL-06", "O-23")
@pytest.mark.parametrize("family", [*FAMILIES, "duckdb only"])
async def test_what_is_bound_on_duckdb_gives_what_its_text_would(family: str) -> None:
    tool = DuckdbTool()

    found = await differences(tool, "duckdb", shapes("duckdb")[family])
    await tool.close()

    assert not found, "\n".join(found)


@pytest.mark.parametrize("database", ["postgres", "duckdb"])
def test_the_matrix_holds_at_least_three_hundred_shapes(database: str) -> None:
    written = [shape.sql for family in shapes(database).values() for shape in family]

    assert len(set(written)) == len(written) >= 300
