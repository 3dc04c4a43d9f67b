"""`convert`: reads a table in one format and writes it in another (CSV, JSON, Parquet, Excel, XML).

A child process that can open only the given files does the work; it ends when the task is cancelled. Rows stream
through it; the target appears complete or not at all.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import OwningTool, ToolContext, ToolResult
from noetl.tools.convert.tables import MAX_BYTES, MEMORY_BYTES, THREADS, Column, Converted, ConvertRequest, TableFile
from noetl.tools.files import FileEnd, NewFile, TaskFolder, brief_errors, end_of
from noetl.tools.input_shapes import whole_number
from noetl.tools.kinds.files import COMPRESSIONS, FORMATS
from noetl.tools.sandbox import size_bytes
from noetl.tools.sql.answers import MAX_RESULT_BYTES

for _needed in ("duckdb", "openpyxl", "defusedxml"):  # the child imports them; fail here, before a child starts
    if find_spec(_needed) is None:
        raise ImportError(f"{_needed} is not installed")

INPUT = "convert.input"
_BY_ENDING = {
    **dict.fromkeys(("csv", "tsv", "tab"), "csv"),
    "json": "json",
    **dict.fromkeys(("jsonl", "ndjson"), "jsonl"),
    **dict.fromkeys(("parquet", "pq"), "parquet"),
    **dict.fromkeys(("xlsx", "xlsm"), "excel"),
    "xml": "xml",
}
_COMPRESSED = {"gz": "gzip", "bz2": "bzip2", "xz": "xz"}
_OPTIONS = ("record", "sheet", "header", "skip", "types", "null", "lists", "cell_errors", "root")
_SHAPES = {"skip": int, "types": str, "null": str, "lists": list, "root": str, "record": str, "cell_errors": str}


class ConvertEnd(msgspec.Struct, frozen=True, kw_only=True):
    """One end: a file, an object, or rows or a text of the task itself, and the options for reading or writing it."""

    end: FileEnd | None = None
    rows: list[Any] | None = None
    text: str | None = None
    format: str
    compression: str = "none"
    options: dict[str, Any] = {}


def source_of(inputs: Mapping[str, Any]) -> ConvertEnd:
    """The source of a task. Raises ToolError `convert.input` for inputs that do not fit."""
    written = inputs.get("source")
    written = {"rows": written} if isinstance(written, list) else written
    given = written if isinstance(written, Mapping) else {"url": written}
    ways = [name for name in ("url", "rows", "text") if given.get(name) is not None]
    if len(ways) != 1:
        found = f"it has {' and '.join(ways)}" if ways else "it has none of them"
        raise ToolError(INPUT, f'"source" is a file or URL, a list of rows, or {{text, format}}: {found}')
    if ways == ["rows"]:
        return ConvertEnd(rows=_rows(given["rows"]), format="jsonl", options=_options(given))
    if ways == ["text"]:
        return ConvertEnd(text=str(given["text"]), format=_format(given, ""), options=_options(given))
    return _file(given, inputs.get("auth"), "source")


def target_of(inputs: Mapping[str, Any]) -> ConvertEnd | None:
    """The target of a task; None if the rows are the result."""
    written = inputs.get("target")
    if written is None:
        return None
    given = written if isinstance(written, Mapping) else {"url": written}
    if given.get("url") is not None:
        return _file(given, inputs.get("auth"), "target")
    form = _format(given, "")
    if form in ("parquet", "excel"):
        raise ToolError(INPUT, f"{form} is no text: give the target a url, a file in a data folder or an object")
    return ConvertEnd(format=form, options=_options(given))


def columns_of(written: Any) -> list[Column] | None:
    """The columns of the target, from the inputs of the task."""
    match written:
        case None:
            return None
        case list() if all(isinstance(name, str) for name in written):
            columns = [Column(name=name, source=name) for name in written]
        case Mapping():
            columns = [_column(str(name), spelling) for name, spelling in written.items()]
        case _:
            raise ToolError(INPUT, "columns is a list of names, or a mapping of names to types")
    often = Counter(column.name.lower() for column in columns)
    if twice := next((column.name for column in columns if often[column.name.lower()] > 1), None):
        raise ToolError(INPUT, f'columns has "{twice}" twice; upper and lower case are the same name')
    return columns


def limits_of(context: ToolContext) -> dict[str, Any]:
    """Limits of the child, from the task's spec."""
    spec = context.spec
    memory = (spec.get("resources") or {}).get("memory")
    try:
        memory_bytes = size_bytes(memory) if memory is not None else MEMORY_BYTES
    except ToolError as problem:
        raise ToolError(INPUT, f"spec.resources.memory: {problem.message}") from None
    return {
        "memory_bytes": memory_bytes,
        "threads": whole_number(spec.get("threads"), "spec.threads", THREADS, error=INPUT, most=64),
        "max_bytes": whole_number(spec.get("max_bytes"), "spec.max_bytes", MAX_BYTES, error=INPUT, most=1 << 50),
        "max_rows": whole_number(spec.get("max_rows"), "spec.max_rows", None, error=INPUT, most=1 << 50),
    }


def _column(name: str, spelling: Any) -> Column:
    if isinstance(spelling, Mapping):
        kind = spelling.get("type")
        return Column(name=name, source=str(spelling.get("from") or name), type=None if kind is None else str(kind))
    return Column(name=name, source=name, type=None if spelling is None else str(spelling))


def _file(given: Mapping[str, Any], auth: Any, name: str) -> ConvertEnd:
    end = end_of(given, auth, kind="convert", name=name)
    stem, _, ending = end.name.lower().rpartition(".")
    found = given.get("compression")
    compression = str(found) if found is not None else _COMPRESSED.get(ending, "none")
    if compression not in COMPRESSIONS:
        raise ToolError(INPUT, f'compression "{compression}" is not known: write {", ".join(COMPRESSIONS)}')
    ending = stem.rpartition(".")[2] if ending in _COMPRESSED else ending
    form = _format(given, ending)
    if compression != "none" and form in ("parquet", "excel"):
        raise ToolError(INPUT, f"{form} is compressed by itself: leave compression out, and end its name otherwise")
    more = {"delimiter": "\t"} if ending in ("tsv", "tab") else {}
    return ConvertEnd(end=end, format=form, compression=compression, options={**more, **_options(given)})


def _format(given: Mapping[str, Any], ending: str) -> str:
    form = str(given.get("format") or _BY_ENDING.get(ending) or "")
    if form in FORMATS:
        return form
    what = f'"{form}" is not known' if form else f'no format ends with ".{ending}"' if ending else "format is missing"
    raise ToolError(INPUT, f"{what}: write format: {', '.join(FORMATS)}")


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: given[name] for name in _OPTIONS if given.get(name) is not None}
    for name, shape in _SHAPES.items():
        if name in options and (not isinstance(options[name], shape) or isinstance(options[name], bool)):
            raise ToolError(INPUT, f'{name} "{options[name]}" is no {shape.__name__}')
    if (delimiter := given.get("delimiter")) is not None:
        options["delimiter"] = _delimiter(delimiter)
    if (encoding := given.get("encoding")) is not None:
        if given.get("url") is None:
            raise ToolError(INPUT, "encoding is for files: a text of a task is text already")
        options["encoding"] = _encoding(str(encoding))
    return options


def _delimiter(written: Any) -> str:
    text = {"tab": "\t", "\\t": "\t"}.get(str(written), str(written))
    if len(text) != 1 or text in '"\r\n' or ord(text) > 127:
        raise ToolError(INPUT, f'delimiter "{written}" is not one sign such as "," or ";", or tab')
    return text


def _encoding(written: str) -> str:
    try:
        found = codecs.lookup(written)
        "".encode(written)  # codecs that turn bytes into bytes have names too
    except (LookupError, ValueError):
        raise ToolError(INPUT, f'encoding "{written}" is not known: write utf-8, latin-1, cp1252, utf-16, …') from None
    return found.name


def _rows(written: Any) -> list[Any]:
    rows = [written] if isinstance(written, Mapping) else written
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ToolError(INPUT, "rows is a list of mappings, one for each row")
    return rows


_PROGRAM = Program(module="noetl.tools.convert.child", name="convert", error="convert.error")
_TEXT = "text-written"


class ConvertTool(OwningTool):
    def __init__(self) -> None:
        self._children = ChildPool(_PROGRAM)
        super().__init__(self._children)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        with brief_errors(context):
            return await self._converted(inputs, context)

    async def _converted(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        source, target = source_of(inputs), target_of(inputs)
        columns, limits = columns_of(inputs.get("columns")), limits_of(context)
        with TaskFolder("convert", context) as place:
            new = _begun(target, place)
            request = ConvertRequest(
                source=await _source_file(source, place),
                target=_target_file(target, new, place),
                columns=columns,
                folder=str(place.folder),
                **limits,
            )
            answer = await self._children.call(context.task_run.execution_id, msgspec.to_builtins(request))
            done = msgspec.convert(answer["result"], Converted)
            return ToolResult(result=await _result(done, target, new, place, if_absent=inputs.get("if_absent") is True))


async def _source_file(source: ConvertEnd, place: TaskFolder) -> TableFile:
    if source.end is not None:
        path, name = await place.fetched(source.end), source.end.written
    elif source.rows is not None:
        path, name = place.folder / "rows", "rows"
        path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in source.rows))
    else:
        path, name = place.folder / "text", "text"
        # surrogatepass: half a character must become an error of the data, not an exception of this tool.
        path.write_bytes((source.text or "").encode("utf-8", "surrogatepass"))
    return _table_file(source, path, name)


def _begun(target: ConvertEnd | None, place: TaskFolder) -> NewFile | None:
    return place.begin(target.end) if target is not None and target.end is not None else None


def _target_file(target: ConvertEnd | None, new: NewFile | None, place: TaskFolder) -> TableFile | None:
    if target is None:
        return None
    if new is None:
        return _table_file(target, place.folder / _TEXT, "the text")
    return _table_file(target, new.part, new.end.written)


def _table_file(wanted: ConvertEnd, path: Path, name: str) -> TableFile:
    fields = {"path": str(path), "name": name, "format": wanted.format, "compression": wanted.compression}
    try:
        return msgspec.convert({**fields, **wanted.options}, TableFile)
    except msgspec.ValidationError as problem:
        raise ToolError("convert.input", f"{name}: {problem}") from None


async def _result(
    done: Converted, target: ConvertEnd | None, new: NewFile | None, place: TaskFolder, *, if_absent: bool
) -> dict[str, Any]:
    fields: dict[str, Any] = {"row_count": done.row_count, "columns": done.columns}
    if target is None:
        return {"rows": done.rows, **fields}
    fields |= {"format": target.format, "size": done.size, "checksum": done.checksum}
    if new is None:
        return {"text": _text(place.folder / _TEXT), **fields}
    await place.finish(new, if_absent=if_absent)
    return {"url": new.end.written, **fields}


def _text(path: Path) -> str:
    if (size := path.stat().st_size) > MAX_RESULT_BYTES:
        raise ToolError(
            "result.too_large",
            f"the text has {size} bytes, at most {MAX_RESULT_BYTES} fit into a result: give the target a url",
        )
    return path.read_bytes().decode("utf-8")
