"""The program that runs where dlt is installed: one pipeline, then the loaded rows. It imports nothing of NoETL.

It is started with the file for its answer, and a request as JSON on its standard input.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any


def _loaded(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    try:
        import dlt
    except ImportError as problem:
        return {"error": {"kind": "missing", "message": f"this interpreter has no dlt: {problem}"}}
    # State that matters is kept in the destination, and restored from there: the folder goes with the task.
    pipeline = dlt.pipeline(
        pipeline_name=request["pipeline"],
        destination=dlt.destination(request["destination"], **_credentials(request)),
        dataset_name=request["dataset"],
        pipelines_dir=str(folder / "pipelines"),
        progress=None,
    )
    if request.get("checks"):
        return _connection_check(pipeline)
    how = {name: request[name] for name in ("table_name", "write_disposition", "primary_key") if request.get(name)}
    try:
        info = pipeline.run(_data(request), **how)
    except Exception as problem:
        return {"error": _failure(problem)}
    failed = [job for package in info.load_packages for job in package.jobs["failed_jobs"]]
    if failed:
        return {"error": {"kind": "failed", "message": str(failed[0].failed_message), "code": "failed_jobs"}}
    return _summary(pipeline, info)


def _connection_check(pipeline: Any) -> dict[str, Any]:
    """Whether the destination can be opened. Asking for the dataset connects, and makes nothing."""
    try:
        with pipeline.destination_client() as client:
            client.is_storage_initialized()
    except Exception as problem:
        return {"error": _failure(problem)}
    return {"reached": True}


def _credentials(request: dict[str, Any]) -> dict[str, Any]:
    return {"credentials": request["credentials"]} if request.get("credentials") is not None else {}


def _data(request: dict[str, Any]) -> Any:
    if request.get("script") is None:
        return request["data"]
    found = runpy.run_path(request["script"], run_name="noetl_pipeline")
    name = request["resource"]
    if name not in found:
        raise LookupError(f'the script has no "{name}"')
    resource = found[name]
    return resource(**request["args"]) if callable(resource) else resource


def _failure(problem: BaseException) -> dict[str, Any]:
    """The error below the wrappers of dlt, which only name the step that failed."""
    code = type(problem).__name__
    cause: BaseException = problem
    # The driver raised the innermost one; dlt has wrapped it once for each step.
    while cause.__cause__ is not None:
        cause = cause.__cause__
    reason = str(cause) if cause is problem else f"{type(cause).__name__}: {cause}"
    return {"message": f"{code}: {reason}", "code": type(cause).__name__, "retryable": _is_lost_line(cause)}


def _is_lost_line(cause: BaseException) -> bool:
    """Whether a connection broke, or could not be made. Drivers of databases raise OperationalError for that, and for a
    refused login too. PostgreSQL's driver has no code for a refused login; the message of the server has FATAL then."""
    if isinstance(cause, ConnectionError | TimeoutError):
        return True
    names = {one.__name__ for one in type(cause).__mro__}
    if not names & {"OperationalError", "InterfaceError", "ConnectionError", "Timeout"}:
        return False
    code = getattr(cause, "pgcode", None)
    return code.startswith(("08", "57P")) if isinstance(code, str) else "FATAL:" not in str(cause)


def _summary(pipeline: Any, info: Any) -> dict[str, Any]:
    normalized = pipeline.last_trace.last_normalize_info if pipeline.last_trace else None
    rows = dict(normalized.row_counts) if normalized is not None else {}
    tables = {
        name: {"rows": rows.get(name, 0), "columns": sorted(table.get("columns", {}))}
        for name, table in pipeline.default_schema.tables.items()
        if not name.startswith("_dlt")
    }
    return {
        "pipeline": pipeline.pipeline_name,
        "dataset": info.dataset_name,
        "destination": info.destination_name,
        "loads": list(info.loads_ids),
        "tables": tables,
        "rows": sum(table["rows"] for table in tables.values()),
    }


def main() -> None:
    file, request = Path(sys.argv[1]), json.load(sys.stdin)
    try:
        answer = _loaded(request, file.parent)
    except Exception as problem:
        answer = {"error": _failure(problem)}
    file.write_text(json.dumps(answer, default=str))


if __name__ == "__main__":
    main()
