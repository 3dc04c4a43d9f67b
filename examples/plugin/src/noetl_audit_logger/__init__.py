"""`audit_logger`: appends records to a file, as lines of JSON, each one once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.tools.plugin import Input, ToolContext, ToolError, ToolKind, ToolResult

LEVELS = ["debug", "info", "warning", "error"]


class AuditLogger:
    kind = ToolKind(
        name="audit_logger",
        doc="Appends a record to an audit file.",
        inputs=(
            Input(name="message", schema={"type": "string"}, doc="What happened.", required=True),
            Input(name="level", schema={"type": "string", "enum": LEVELS}, doc="How bad it is; info when left out."),
            Input(name="data", doc="Anything that belongs to it."),
            Input(name="file", schema={"type": "string"}, doc="File of a data folder; audit.jsonl when left out."),
        ),
        error_kinds=("audit.file", "audit.input"),
        defaults={"timeout": 10},
    )

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        level = inputs.get("level") or "info"
        if level not in LEVELS:
            raise ToolError("audit.input", f'level "{level}" is not known: write {", ".join(LEVELS)}')
        record = {
            "key": context.task_run.idempotency_key,
            "execution_id": context.task_run.execution_id,
            "step": context.task_run.step,
            "level": level,
            "message": inputs["message"],
            "data": inputs.get("data"),
        }
        path = _path(str(inputs.get("file") or "audit.jsonl"), context.permissions.data_folders)
        try:
            line = _append_once(path, record)
        except OSError as problem:
            raise ToolError("audit.file", f"{path} cannot be written: {problem.strerror}", retryable=True) from problem
        return ToolResult(result={"file": str(path), "line": line}, helpers={"audit": {"line": line}})

    async def close(self) -> None:
        """Nothing is open between tasks."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {"audit": {"line": None}}


def _path(name: str, folders: tuple[str, ...]) -> Path:
    """The file, if it is in a folder that the operator has opened, with every link followed."""
    roots = [Path(folder).resolve() for folder in folders]
    path = (roots[0] / name).resolve() if roots else Path(name)
    if not any(path.is_relative_to(root) for root in roots):
        raise ToolError("audit.input", f'"{name}" is outside of the folders that are open here')
    return path


def _append_once(path: Path, record: dict[str, Any]) -> int:
    """The number of the record's line: a new one, or that of the attempt that came this far and was not heard of."""
    with path.open("a+", encoding="utf-8") as file:
        file.seek(0)
        written = [json.loads(line)["key"] for line in file]
        if record["key"] not in written:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
            written.append(record["key"])
    return written.index(record["key"]) + 1
