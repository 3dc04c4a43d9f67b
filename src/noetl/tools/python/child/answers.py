"""The answer to one call, as JSON; every call gets one, for any code. Also tables as input and result."""

from __future__ import annotations

import json
import sys

from .capture import Captured, flush  # noqa: TID252
from .code import CODE, run  # noqa: TID252
from .condition import limit  # noqa: TID252

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def call_outcome(call: dict[str, Any], captured: Captured) -> dict[str, Any]:
    """Run the code of a call. The outcome is its result or its exception, as data."""
    captured.begin(live=bool(call.get("live")))
    sys.stdout = sys.stderr = captured
    try:
        limit(call["limits"], final=call.get("limits_are_final", False))
        return {"ok": True, "result": call_result(call)}
    except BaseException as problem:  # the code may raise anything, SystemExit and KeyboardInterrupt included
        return {"ok": False, **exception_data(problem, call)}
    finally:
        flush()


def call_result(call: dict[str, Any]) -> Any:
    """The result of the code; with `rows_file`, the format of the table that was written there."""
    if not call.get("tables") and not call.get("rows_file"):
        return run(call)
    names = {**call["names"], **opened_tables(call["tables"], call["tables_as"])}
    value = run({**call, "names": names})
    return write_table(value, call["rows_file"]) if call.get("rows_file") else value


def encoded_answer(outcome: dict[str, Any], **more: Any) -> bytes:
    """The answer as strict JSON. NaN, infinities, lone surrogates and anything but plain data are refused (O-11)."""
    try:
        return json.dumps({**outcome, **more}, allow_nan=False, ensure_ascii=False).encode()
    # ValueError includes NaN (`allow_nan`), which other programs cannot read as JSON, and lone surrogates.
    except (TypeError, ValueError, RecursionError) as problem:
        result = outcome.get("result")
        where, value = not_json(result, "result")
        wrong = (
            f"{where} is a {type(value).__name__}: {_PLAIN.get(type(value).__name__, _CONVERT)}" if where else problem
        )
        message = f"the result ({type(result).__name__}) is not JSON: {wrong}"
        return json.dumps({"ok": False, "kind": "py.result", "message": message, **more}).encode()


_CONVERT = "return text, numbers, true, false, null, and lists and mappings of them"
# Common results that are not plain data, and how to convert them.
_PLAIN = {
    **dict.fromkeys(("date", "datetime", "time"), "write it as text with .isoformat()"),
    **dict.fromkeys(("Decimal", "UUID", "Path", "PosixPath"), "write it as text with str(…)"),
    **dict.fromkeys(("set", "frozenset", "generator", "map", "filter", "dict_keys", "dict_values"), "use list(…)"),
    **dict.fromkeys(("bytes", "bytearray"), "write it as text with .decode()"),
    "DataFrame": 'use .to_dict("records")',
    **dict.fromkeys(("Series", "ndarray"), "use .tolist()"),
    **dict.fromkeys(("int64", "int32", "float32", "bool_"), "use .item()"),
}


# A value may be a million others, or ten thousand lists within each other.
_MOST_LOOKED_AT = 10_000


def not_json(value: Any, where: str) -> tuple[str, Any]:
    """The first value that JSON does not have, with its place; no place where something else is wrong."""
    waiting, seen = [(where, value)], 0
    while waiting and seen < _MOST_LOOKED_AT:
        where, value = waiting.pop()
        seen += 1
        if isinstance(value, dict):
            waiting.extend((f"{where}[{key!r}]", inner) for key, inner in reversed(value.items()))
        elif isinstance(value, list | tuple):
            waiting.extend((f"{where}[{at}]", inner) for at, inner in reversed(list(enumerate(value))))
        elif value is not None and not isinstance(value, str | int | float):
            return where[:200], value
    return "", None


def exception_data(problem: BaseException, call: dict[str, Any]) -> dict[str, Any]:
    """An exception as data: its type, its message, and the traceback through the author's code."""
    from .traces import trace_of  # noqa: TID252, slow to import; the template has most of it

    return {
        "kind": "py.exception",
        "exception": type(problem).__name__,
        "message": f"{type(problem).__name__}: {exception_message(problem)}"[:4000],
        "trace": trace_of(problem, call["code"], call.get("file", CODE)),
    }


def exception_message(problem: BaseException) -> str:
    """The message of an exception. Its class may be the author's, so even `str` may fail."""
    try:
        return str(problem)
    # The author's `__str__` may do anything, exit included.
    except BaseException:
        return "(its message cannot be read)"


def opened_tables(tables: dict[str, str], kind: str) -> dict[str, Any]:
    """The Parquet files as the code wants them: paths, or tables of a library that is installed here."""
    if kind == "arrow":
        from pyarrow import parquet  # type: ignore[import-not-found, unused-ignore]

        return {name: parquet.read_table(path) for name, path in tables.items()}
    if kind == "pandas":
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]

        return {name: pandas.read_parquet(path) for name, path in tables.items()}
    return dict(tables)


def write_table(value: Any, path: str) -> str:
    """Write the value that the code returned (`spec.rows: parquet`) as Parquet, or as lines of JSON. Returns which."""
    if hasattr(value, "write_parquet"):  # polars, and relations of DuckDB
        # In a sandbox only this one file can be written, and DuckDB would write another one and rename it.
        own = {"use_tmp_file": False} if "duckdb" in type(value).__module__ else {}
        value.write_parquet(path, **own)
    elif hasattr(value, "to_parquet"):  # pandas
        value.to_parquet(path, index=False)
    elif hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_batches"):
        write_arrow(value, path)
    elif isinstance(value, dict):
        raise TypeError("spec.rows: parquet needs a table or rows; the result is one mapping")
    else:
        with open(path, "w", encoding="utf-8") as file:
            # A generator yields row by row, so that they are never all in memory.
            for row in value:
                file.write(json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n")
        return "json"
    return "parquet"


def write_arrow(value: Any, path: str) -> None:
    """Write an Arrow table or stream batch by batch."""
    import pyarrow  # type: ignore[import-not-found, unused-ignore]
    from pyarrow import parquet

    reader = value if hasattr(value, "read_next_batch") else pyarrow.table(value).to_reader()
    with parquet.ParquetWriter(path, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
