"""Sources: each format as a view of DuckDB. CSV, JSON and Parquet are read in place; Excel and XML are staged. Before
that a text is expanded, within limits, and converted to UTF-8."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted
from noetl.tools.convert.tables import DATA, ConvertRequest, TableFile, distinct_names, named

_CHUNK = 1 << 20
_OPENERS: dict[str, Callable[[Path, str], object]] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
_BROKEN = (EOFError, lzma.LZMAError, OSError, ValueError)


def expanded(path: Path, file: TableFile, request: ConvertRequest) -> Path:
    """The file, decompressed; at most `max_bytes` of it are ever written."""
    if file.compression == "none":
        if path.stat().st_size > request.max_bytes:
            raise _too_large(file, request)
        return path
    made, size = Path(request.folder) / "expanded", 0
    try:
        with cast(BinaryIO, _OPENERS[file.compression](path, "rb")) as source, made.open("wb") as target:
            while chunk := source.read(_CHUNK):
                size += len(chunk)
                if size > request.max_bytes:
                    raise _too_large(file, request)
                target.write(chunk)
    except _BROKEN as problem:
        raise ToolError(DATA, f"{file.name} is not whole, or no {file.compression}: {problem}") from None
    return made


def compressed(path: Path, target: Path, compression: str) -> None:
    """Write the file at `path` to `target`, compressed."""
    with path.open("rb") as source, cast(BinaryIO, _OPENERS[compression](target, "wb")) as file:
        while chunk := source.read(_CHUNK):
            file.write(chunk)


def as_utf8(path: Path, file: TableFile, request: ConvertRequest) -> Path:
    """The text as UTF-8. Raises ToolError `convert.data`, which names the line that is not in the declared encoding."""
    if file.encoding == "utf-8" or file.format == "xml":  # an XML document declares its own encoding
        return path
    made, line = Path(request.folder) / "utf-8", 1
    try:
        with (
            path.open(encoding=file.encoding, newline="") as source,
            made.open("w", encoding="utf-8", newline="") as out,
        ):
            while chunk := source.read(_CHUNK):
                line += chunk.count("\n")
                out.write(chunk)
    except UnicodeError as problem:
        reason = getattr(problem, "reason", "it cannot be read")
        raise ToolError(DATA, f"{file.name} is not {file.encoding} after line {line}: {reason}", line=line) from None
    return made


def from_utf8(path: Path, target: Path, file: TableFile) -> None:
    """Convert a text to the encoding of the target."""
    line = 1
    try:
        with (
            path.open(encoding="utf-8", newline="") as source,
            target.open("w", encoding=file.encoding, newline="") as out,
        ):
            for text in source:
                out.write(text)
                line += 1
    except UnicodeEncodeError as problem:
        sign = problem.object[problem.start]
        raise ToolError(
            DATA,
            f"line {line} of {file.name} has {sign!r}, which {file.encoding} has not: write it in utf-8",
            line=line,
        ) from None


def _too_large(file: TableFile, request: ConvertRequest) -> ToolError:
    return ToolError(
        DATA, f"{file.name} has more than {request.max_bytes} bytes when it is expanded: raise spec.max_bytes if it may"
    )


_LARGEST_RECORD = 16 << 20
_DELIMITERS = ",;\t|"
# Formats that no text matches: DuckDB would otherwise drop the zone of a time, and read dates where `types` says text.
_NO_MOMENTS = "dateformat='\x01%Y', timestampformat='\x01%Y'"
VIEW = "source"
_TOO_WIDE = {
    "JSON": ("count({0}) = 0", "VARCHAR"),
    "HUGEINT": ("max({0}) <= 9223372036854775807", "BIGINT"),
}


class SourceView(msgspec.Struct, frozen=True, kw_only=True):
    """A view, and its columns with the types of DuckDB. `detection` says which types to detect in columns of text:
    `all`, `moments` (dates and times), or none."""

    view: str = VIEW
    columns: list[tuple[str, str]]
    detection: str | None = None


def opened_source(connection: Any, request: ConvertRequest) -> SourceView:
    """The view of a source. Raises ToolError with the reason if it cannot be read."""
    file, path = request.source, Path(request.source.path)
    if file.format not in ("parquet", "excel"):
        path = as_utf8(expanded(path, file, request), file, request)
    path = _path_without_patterns(path, Path(request.folder))
    match file.format:
        case "csv":
            return _csv(connection, path, file)
        case "parquet":
            return _source_view(connection, f"SELECT * FROM read_parquet({_literal(path)})")  # noqa: S608  a path of ours, quoted
        case "excel":
            from noetl.tools.convert.excel_sheets import stage_sheet

            return _excel(connection, stage_sheet(file, Path(request.folder)))
        case "xml":
            from noetl.tools.convert.xml_records import stage_xml

            return _records(connection, stage_xml(path, file, Path(request.folder)), file, "all")
        case _:
            check_depth(path, file.name)
            if file.record is not None:
                path = stage_records(path, file, Path(request.folder))
            return _records(connection, path, file, "moments")


def _source_view(connection: Any, query: str, detection: str | None = None) -> SourceView:
    connection.execute(f"CREATE TEMP VIEW {VIEW} AS {query}")
    described = connection.execute(f"DESCRIBE {VIEW}").fetchall()
    return SourceView(columns=[(row[0], row[1]) for row in described], detection=detection)


def _csv(connection: Any, path: Path, file: TableFile) -> SourceView:
    """Only the delimiter is guessed. A line that does not fit is an error that names the line."""
    delimiter, first = _first_record(path, file)
    if not first:
        return _empty(file.header if isinstance(file.header, list) else [])
    names = [f"column{at}" for at in range(len(first))]
    if isinstance(file.header, list):
        names = file.header
    elif file.header:
        names = distinct_names([name or made for name, made in zip(first, names, strict=True)])
    columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in names)
    options = {
        "columns": f"{{{columns}}}",
        "header": str(file.header is True).lower(),
        "delim": quoted(delimiter),
        "skip": str(file.skip),
        "nullstr": quoted(file.null or ""),
        "max_line_size": str(_LARGEST_RECORD),
        "buffer_size": str(2 * _LARGEST_RECORD),
    }
    # A sample could mislead: a file whose first thousand rows are numbers may have text in the next.
    fixed = "auto_detect=false, quote='\"', escape='\"', strict_mode=true, allow_quoted_nulls=false"
    option_list = ", ".join(f"{name}={value}" for name, value in options.items())
    query = f"SELECT * FROM read_csv({_literal(path)}, {fixed}, {option_list})"  # noqa: S608
    return _source_view(connection, query, "all" if file.types == "detect" else None)


def _first_record(path: Path, file: TableFile) -> tuple[str, list[str]]:
    """The delimiter and the first record after skipped lines; the record is empty if there is none."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        for _ in range(file.skip):
            text.readline(_LARGEST_RECORD)
        start = text.read(_LARGEST_RECORD)
    delimiter = file.delimiter or _delimiter(start.partition("\n")[0])
    csv.field_size_limit(_LARGEST_RECORD)
    try:
        first = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error as problem:
        raise ToolError(DATA, f"{file.name}, line {file.skip + 1}: {problem}", line=file.skip + 1) from None
    if start and not first:
        raise ToolError(
            DATA, f"{file.name}, line {file.skip + 1} is empty: write skip: {file.skip + 1}", line=file.skip + 1
        )
    return delimiter, first


def _delimiter(line: str) -> str:
    """The delimiter that occurs most in the first line, outside of quotes; a comma if none occurs."""
    outside = "".join(line.split('"')[::2])
    return max(_DELIMITERS, key=outside.count)


def _records(connection: Any, path: Path, file: TableFile, detection: str) -> SourceView:
    if _is_empty(path):
        return _empty([])
    form = "newline_delimited" if file.format != "json" or file.record is not None else "auto"
    # `sample_size=-1` reads all records for their types; `map_inference_threshold=-1` keeps records as structs, however
    # many different keys they have.
    options = f"format='{form}', maximum_object_size={_LARGEST_RECORD}, sample_size=-1, map_inference_threshold=-1"
    query = f"SELECT * FROM read_json({_literal(path)}, {options}, records=true, {_NO_MOMENTS})"  # noqa: S608
    found = _source_view(connection, query, detection if file.types == "detect" else None)
    return _narrowed_types(connection, found)


def _narrowed_types(connection: Any, found: SourceView) -> SourceView:
    """Narrow the types that DuckDB makes too wide: a field that is null in every record becomes text, and whole numbers
    of both signs that fit into 64 bits do not become 128 bits wide."""
    wide = [(name, kind) for name, kind in found.columns if kind in _TOO_WIDE]
    if not wide:
        return found
    tests = ", ".join(_TOO_WIDE[kind][0].format(named(name)) for name, kind in wide)
    fits = connection.execute(f"SELECT {tests} FROM {VIEW}").fetchone()  # noqa: S608
    narrow = {name: _TOO_WIDE[kind][1] for (name, kind), fit in zip(wide, fits, strict=True) if fit}
    columns = ", ".join(f"CAST({named(name)} AS {kind}) AS {named(name)}" for name, kind in narrow.items())
    if not narrow:
        return found
    connection.execute(f"ALTER VIEW {VIEW} RENAME TO wide")
    return _source_view(connection, f"SELECT * REPLACE ({columns}) FROM wide", found.detection)  # noqa: S608


def _is_empty(path: Path) -> bool:
    """Whether the file has no record: it is empty, or has an empty list."""
    with path.open("rb") as file:
        start = file.read(1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n")
    return not start or (start[:1] == b"[" and start[1:].lstrip()[:1] == b"]")


def _excel(connection: Any, staged: tuple[Path, list[tuple[str, str]]]) -> SourceView:
    path, columns = staged
    if not columns:
        return _empty([])
    texts = ", ".join(f"'{index}': 'VARCHAR'" for index in range(len(columns)))
    casts = ", ".join(f'CAST("{at}" AS {kind}) AS {named(name)}' for at, (name, kind) in enumerate(columns))
    # Without `records`, DuckDB takes each line for one value if most rows of a single column are empty.
    options = f"format='newline_delimited', records=true, columns={{{texts}}}, maximum_object_size={_LARGEST_RECORD}"
    return _source_view(connection, f"SELECT {casts} FROM read_json({_literal(path)}, {options})")  # noqa: S608


def _empty(names: list[str]) -> SourceView:
    return SourceView(view="(SELECT 1 WHERE false)", columns=[(name, "VARCHAR") for name in names])


def _literal(path: Path) -> str:
    return quoted(str(path))


def _path_without_patterns(path: Path, folder: Path) -> Path:
    """A path to the file without the characters that DuckDB takes for a pattern."""
    if not set("*?[") & set(str(path)):
        return path
    link = folder / "source"
    # A link, since the file may be large, and must not be renamed.
    link.symlink_to(path)
    return link


# JSON before DuckDB reads it: the depth of its nesting, and the records at a path within a document.
MAX_DEPTH = 100
_DOCUMENT_BYTES = 256 << 20  # a document from which records are taken is in memory
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_TEXT = re.compile(rb'"[^"]*"')
_KEPT = bytes(byte for byte in range(256) if byte not in b'"[]{}')
_STEPS = bytes({ord("["): 2, ord("{"): 2}.get(byte, 0) for byte in range(256))


def check_depth(path: Path, name: str) -> None:
    """Refuse excessively nested text: its reader would crash with its process. Brackets are counted outside of
    texts; nothing is parsed."""
    depth, rest = 0, b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            brackets, rest = _brackets(rest + chunk)
            # Opening brackets translate to 2 and closing ones to 0: minus one, each is its step in depth.
            steps = [step - 1 for step in brackets.translate(_STEPS)]
            depths = list(accumulate(steps, initial=depth))
            if max(depths) > MAX_DEPTH:
                raise ToolError(DATA, f"{name} is nested more than {MAX_DEPTH} levels deep")
            depth = depths[-1]


def _brackets(text: bytes) -> tuple[bytes, bytes]:
    """The brackets outside of texts, and the beginning of a text that continues in the next chunk."""
    # Backslashes at the end of a chunk: an odd number means that the last one escapes a character of the next chunk.
    odd = len(text) - len(text.rstrip(b"\\"))
    held = b"\\" if odd % 2 else b""  # an escape whose second half is in the next chunk
    marks = _ESCAPED.sub(b"", text[: len(text) - len(held)]).translate(None, _KEPT)
    marks = _TEXT.sub(b"", marks)
    inside = marks.find(b'"')
    if inside < 0:
        return marks, held
    return marks[:inside], b'"' + held  # a text that has not ended; its contents do not matter


def stage_records(path: Path, file: TableFile, folder: Path) -> Path:
    """Write the records at a path within one document, as lines."""
    if path.stat().st_size > _DOCUMENT_BYTES:
        raise ToolError(
            DATA,
            f"{file.name} has more than {_DOCUMENT_BYTES >> 20} MiB, too much to take {file.record} out of it: "
            "read it with duckdb, or without record",
        )
    try:
        value: Any = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise ToolError(DATA, f"{file.name} is not JSON: {problem}") from None
    for part in (file.record or "").removeprefix("$.").split("."):
        if not isinstance(value, dict) or part not in value:
            found = f"it has {', '.join(list(value)[:20])}" if isinstance(value, dict) else f"there is a {_kind(value)}"
            raise ToolError(DATA, f'{file.name} has no "{part}" of the path {file.record}: {found}')
        value = value[part]
    records = [value] if isinstance(value, dict) else value
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise ToolError(DATA, f"{file.name}: {file.record} is no list of records but a {_kind(value)}")
    made = folder / "records"
    with made.open("wb") as out:
        for one in records:
            out.write(msgspec.json.encode(one) + b"\n")
    return made


def _kind(value: Any) -> str:
    words = {list: "list", str: "text", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return words.get(type(value), "mapping")
