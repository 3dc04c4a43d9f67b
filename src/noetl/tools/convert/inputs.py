"""Inputs: the two ends and the columns of a task, with formats by name."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext
from noetl.tools.convert.request import MAX_BYTES, MEMORY_BYTES, THREADS, Column
from noetl.tools.file_ends import FileEnd, end_of
from noetl.tools.kinds.files import COMPRESSIONS, FORMATS
from noetl.tools.python.limits import size_bytes

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
    """One end: a file or an object, or rows or a text of the task itself; and how it is read or written."""

    end: FileEnd | None = None
    rows: list[Any] | None = None
    text: str | None = None
    format: str
    compression: str = "none"
    options: dict[str, Any] = {}


def source_of(inputs: Mapping[str, Any]) -> ConvertEnd:
    """What is read. ToolError `convert.input` says what does not fit."""
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
    """What is written; none where the rows are the result."""
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
    """The columns of the target, as they are written."""
    match written:
        case None:
            return None
        case list() if all(isinstance(name, str) for name in written):
            columns = [Column(name=name, source=name) for name in written]
        case Mapping():
            columns = [_column(str(name), told) for name, told in written.items()]
        case _:
            raise ToolError(INPUT, "columns is a list of names, or a mapping of names to types")
    names = [column.name.lower() for column in columns]
    if twice := next((column.name for column in columns if names.count(column.name.lower()) > 1), None):
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
        "threads": _count(spec.get("threads"), "threads", 64) or THREADS,
        "max_bytes": _count(spec.get("max_bytes"), "max_bytes", 1 << 50) or MAX_BYTES,
        "max_rows": _count(spec.get("max_rows"), "max_rows", 1 << 50),
    }


def _column(name: str, told: Any) -> Column:
    if isinstance(told, Mapping):
        kind = told.get("type")
        return Column(name=name, source=str(told.get("from") or name), type=None if kind is None else str(kind))
    return Column(name=name, source=name, type=None if told is None else str(told))


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


def _count(written: Any, name: str, most: int) -> int | None:
    if written is None:
        return None
    if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= most:
        raise ToolError(INPUT, f'spec.{name} "{written}" is not a number from 1 to {most}')
    return written
