"""Errors of database drivers, as error outcomes: the database's own code and words, never the SQL or its values."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError

_RETRYABLE = frozenset(
    {"1205", "1213", "40001", "40P01", "ORA-00060", "SQLITE_BUSY", "SQLITE_LOCKED", "2006", "2013", "2003"}
)
_TELLING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
_LONGEST = 500


def driver_error(problem: Exception, *, blocked: str | None = None) -> dict[str, Any]:
    """The error of a call."""
    if blocked is not None:  # whatever the driver made of it
        return {"kind": "tool.not_allowed", "message": blocked, "retryable": False, "code": "blocked"}
    if isinstance(problem, ImportError | NoSuchModuleError):
        return {"kind": "tool.unknown_kind", "message": f"the driver of this database is not installed: {problem}"}
    cause = problem.orig if isinstance(problem, DBAPIError) and problem.orig is not None else problem
    code = _code(cause)
    lost = isinstance(problem, DBAPIError) and problem.connection_invalidated
    network = isinstance(problem, OperationalError | OSError) and isinstance(cause.__cause__ or cause, OSError)
    return {
        "kind": "sql.error",
        "message": _message(cause),
        "retryable": bool(lost or network or code in _RETRYABLE),
        "code": code,
    }


def _code(cause: BaseException) -> str | None:
    """Each driver has its own place for it."""
    first = cause.args[0] if cause.args else None
    if isinstance(first, int) and not isinstance(first, bool):
        return str(first)
    for name in ("sqlite_errorname", "sqlstate", "full_code", "errno", "number", "error_name", "code"):
        if (found := getattr(cause, name, None)) not in (None, "", -1):
            return str(found)
    return str(found) if (found := getattr(first, "full_code", None)) else None


def _message(cause: BaseException) -> str:
    told = cause.args[1] if len(cause.args) > 1 and isinstance(cause.args[0], int) else cause
    return _TELLING.sub(" ", str(told)).strip()[:_LONGEST] or type(cause).__name__
