"""Failures: what the driver raises, as error outcomes with their SQLSTATE (OUT-02, OUT-03)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from noetl.base.errors import ToolError

HELPER = "pg"
# Serialisation failure, deadlock, too many connections, lock not available, and the shutdown or start of a server: the
# same statement may well succeed later.
_RETRYABLE = frozenset({"40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03"})
_DETAILS = ("detail", "hint", "constraint_name", "schema_name", "table_name", "column_name", "position")
_HINTS = {
    "25001": "spec.transaction: false runs each statement by itself",
    "42P18": "say its type, as in {{ … }}::text",
}


@contextmanager
def as_tool_errors() -> Iterator[None]:
    """Whatever the driver raises inside, as a ToolError."""
    try:
        yield
    except asyncpg.PostgresError as problem:
        raise of_server(problem) from problem
    except asyncpg.InterfaceError as problem:
        # a rollback on a connection that is gone hides why it is gone
        if isinstance(behind := problem.__context__, asyncpg.PostgresError):
            raise of_server(behind) from behind
        raise pg_error(f"the driver cannot do this: {problem}", retryable=False) from problem
    except OSError as problem:
        raise pg_error(f"the connection to PostgreSQL was lost: {problem}", retryable=True) from problem


def of_server(problem: Any) -> ToolError:
    """An error that the server reported."""
    code, said = problem.sqlstate, _server_message(problem)
    if code == "57014":
        error = ToolError("timeout", f"PostgreSQL ended the statement: {said}", retryable=True, code=code)
        error.details["message"] = said
        return error
    details = {name: found for name in _DETAILS if (found := getattr(problem, name, None)) is not None}
    if (hint := _HINTS.get(code)) is not None:
        details["hint"] = f"{details['hint']}; {hint}" if "hint" in details else hint
    message = f"{said} ({code})"
    if "hint" in details:
        message += f"; {details['hint']}"
    return pg_error(message, code, said, details)


def _server_message(problem: Any) -> str:
    """The server's words; of the driver's own only the beginning, for they go on to show the value."""
    return getattr(problem, "message", None) or str(problem).split(":")[0]


def of_connecting(problem: Exception, target: object) -> ToolError:
    """Why no connection could be made."""
    code = getattr(problem, "sqlstate", None)
    what = "it did not answer in time" if isinstance(problem, TimeoutError) else str(problem) or type(problem).__name__
    refused = code is not None and not _is_retryable(code)
    return pg_error(f"cannot connect to {target}: {what}", code, what, retryable=not refused)


def pg_error(
    message: str,
    code: str | None = None,
    said: str | None = None,
    details: dict[str, Any] | None = None,
    *,
    retryable: bool | None = None,
) -> ToolError:
    again = _is_retryable(code) if retryable is None else retryable
    error = ToolError("pg.error", message, retryable=again, code=code, **(details or {}))
    error.details["message"] = said or message  # `outcome.pg.message`
    return error


def _is_retryable(code: str | None) -> bool:
    return code is not None and (code in _RETRYABLE or code.startswith("08"))
