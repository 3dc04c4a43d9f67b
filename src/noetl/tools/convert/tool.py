"""`convert`: reads a table in one format and writes it in another (CSV, JSON, Parquet, Excel, XML).

The work is done by a child process that opens only the files it is given and ends when the task is cancelled. Rows
stream through it; the target appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.convert.inputs import ConvertEnd, columns_of, limits_of, source_of, target_of
from noetl.tools.convert.request import Converted, ConvertRequest, TableFile
from noetl.tools.file_ends import NewFile, Workplace, brief_errors
from noetl.tools.sql.answers import MAX_RESULT_BYTES

for _needed in ("duckdb", "openpyxl", "defusedxml"):  # the child imports them; say so before there is one
    if find_spec(_needed) is None:
        raise ImportError(f"{_needed} is not installed")

_PROGRAM = Program(module="noetl.tools.convert.child", name="convert", error="convert.error")
_TEXT = "text-written"


class ConvertTool:
    def __init__(self) -> None:
        self._children = ChildPool(_PROGRAM)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        with brief_errors(context):
            return await self._converted(inputs, context)

    async def _converted(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        source, target = source_of(inputs), target_of(inputs)
        columns, limits = columns_of(inputs.get("columns")), limits_of(context)
        with Workplace("convert", context) as place:
            new = _begun(target, place)
            request = ConvertRequest(
                source=await _source_file(source, place),
                target=_target_file(target, new, place),
                columns=columns,
                folder=str(place.folder),
                **limits,
            )
            answer = await self._children.call(context.execution_id, msgspec.to_builtins(request))
            done = msgspec.convert(answer["result"], Converted)
            return ToolResult(result=await _result(done, target, new, place, if_absent=inputs.get("if_absent") is True))

    def release(self, execution_id: str) -> None:
        self._children.release(execution_id)

    async def close(self) -> None:
        await self._children.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


async def _source_file(source: ConvertEnd, place: Workplace) -> TableFile:
    if source.end is not None:
        path, name = await place.fetched(source.end), source.end.written
    elif source.rows is not None:
        path, name = place.folder / "rows", "rows"
        path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in source.rows))
    else:
        path, name = place.folder / "text", "text"
        path.write_bytes((source.text or "").encode("utf-8", "surrogatepass"))
    return _table_file(source, path, name)


def _begun(target: ConvertEnd | None, place: Workplace) -> NewFile | None:
    return place.begun(target.end) if target is not None and target.end is not None else None


def _target_file(target: ConvertEnd | None, new: NewFile | None, place: Workplace) -> TableFile | None:
    if target is None:
        return None
    if new is None:
        return _table_file(target, place.folder / _TEXT, "the text")
    return _table_file(target, new.part, new.end.written)


def _table_file(wanted: ConvertEnd, path: Path, name: str) -> TableFile:
    told = {"path": str(path), "name": name, "format": wanted.format, "compression": wanted.compression}
    try:
        return msgspec.convert({**told, **wanted.options}, TableFile)
    except msgspec.ValidationError as problem:
        raise ToolError("convert.input", f"{name}: {problem}") from None


async def _result(
    done: Converted, target: ConvertEnd | None, new: NewFile | None, place: Workplace, *, if_absent: bool
) -> dict[str, Any]:
    told: dict[str, Any] = {"row_count": done.row_count, "columns": done.columns}
    if target is None:
        return {"rows": done.rows, **told}
    told |= {"format": target.format, "size": done.size, "checksum": done.checksum}
    if new is None:
        return {"text": _text(place.folder / _TEXT), **told}
    await place.finished(new, if_absent=if_absent)
    return {"url": new.end.written, **told}


def _text(path: Path) -> str:
    if (size := path.stat().st_size) > MAX_RESULT_BYTES:
        raise ToolError(
            "result.too_large",
            f"the text has {size} bytes, at most {MAX_RESULT_BYTES} fit into a result: give the target a url",
        )
    return path.read_bytes().decode("utf-8")
