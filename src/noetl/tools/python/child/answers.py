"""The answer to one call, as JSON; whatever the code does, there is one."""

from __future__ import annotations

import json
import sys

from .bounds import limit  # noqa: TID252
from .capture import Captured, flush  # noqa: TID252
from .code import CODE, run  # noqa: TID252

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def outcome_of(call: dict[str, Any], captured: Captured) -> dict[str, Any]:
    captured.begin(live=bool(call.get("live")))
    sys.stdout = sys.stderr = captured
    try:
        limit(call["limits"])
        return {"ok": True, "result": result_of(call)}
    except BaseException as problem:  # the code may raise anything, SystemExit and KeyboardInterrupt included
        return {"ok": False, **exception_data(problem, call)}
    finally:
        flush()


def result_of(call: dict[str, Any]) -> Any:
    """What the code gives; with `rows_file`, what it has written there as a table."""
    if not call.get("tables") and not call.get("rows_file"):
        return run(call)
    from . import tables  # noqa: TID252, few tasks need it

    names = {**call["names"], **tables.opened(call["tables"], call["tables_as"])}
    value = run({**call, "names": names})
    return tables.write(value, call["rows_file"]) if call.get("rows_file") else value


def encoded(outcome: dict[str, Any], **more: Any) -> bytes:
    """JSON proper: NaN, infinities, half characters and anything but plain data are refused (O-11)."""
    try:
        return json.dumps({**outcome, **more}, allow_nan=False, ensure_ascii=False).encode()
    # NaN is refused too (`allow_nan`): no other program could read it as JSON.
    except (TypeError, ValueError, RecursionError) as problem:
        kind = type(outcome.get("result")).__name__
        refused = {"ok": False, "kind": "py.result", "message": f"the result ({kind}) is not JSON: {problem}"}
        return json.dumps({**refused, **more}).encode()


def exception_data(problem: BaseException, call: dict[str, Any]) -> dict[str, Any]:
    """An exception as data: its type, its words, and the traceback through the author's code."""
    from .traces import trace_of  # noqa: TID252, slow to import; the template has most of it

    return {
        "kind": "py.exception",
        "exception": type(problem).__name__,
        "message": f"{type(problem).__name__}: {words_of(problem)}"[:4000],
        "trace": trace_of(problem, call["code"], call.get("file", CODE)),
    }


def words_of(problem: BaseException) -> str:
    """What an exception says of itself; its class is the author's, so even that may fail."""
    try:
        return str(problem)
    # The author's `__str__` may do anything, exit included.
    except BaseException:
        return "(it does not say)"
