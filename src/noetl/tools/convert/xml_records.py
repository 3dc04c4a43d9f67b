"""Records of XML, read as a stream and staged as lines of JSON; or written one by one.

The parser refuses document type declarations, so there are no entities to expand and nothing outside to fetch. An
attribute is `@name`, text beside children is `#text`, a child that repeats anywhere is a list everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.convert.tables import DATA, TableFile
from noetl.tools.sql.answers import plain

MAX_DEPTH = 100
_RECORD_BYTES = 8 << 20
_CHUNK = 1 << 16
_NIL = "http://www.w3.org/2001/XMLSchema-instance|nil"

ShapePath = tuple[str, ...]


class Shape:
    """The common structure of the records of a file: which of their parts repeat, and which have parts themselves."""

    def __init__(self, lists: list[str]) -> None:
        self.names = frozenset(lists)
        self.lists: set[ShapePath] = set()
        self.mappings: set[ShapePath] = set()

    def fitted(self, value: Any, path: ShapePath = ()) -> Any:
        """A record in the common shape of all records."""
        made = {}
        for name, item in value.items():
            own = (*path, name)
            items = [self._mapping(one, own) for one in (item if isinstance(item, list) else [item])]
            made[name] = items if own in self.lists or name in self.names else items[0]
        return made

    def _mapping(self, item: Any, path: ShapePath) -> Any:
        if isinstance(item, dict):
            return self.fitted(item, path)
        return {"#text": item} if path in self.mappings and item is not None else item


class _Element:
    __slots__ = ("children", "is_nil", "name", "text")

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.is_nil = attributes.pop(_NIL, "") in ("true", "1")
        self.children: dict[str, Any] = {f"@{_local(key)}": value for key, value in attributes.items()}
        self.text: list[str] = []


class _Records:
    """Handlers of the parser. Finished records are taken out of `found`."""

    def __init__(self, file: TableFile, shape: Shape) -> None:
        self._file, self._shape = file, shape
        self._wanted = [part for part in (file.record or "").split("/") if part]
        self._path: list[str] = []
        self._open: list[_Element] = []
        self._size = 0
        self.found: list[Any] = []

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(_local(name))
        if len(self._path) > MAX_DEPTH:
            raise ToolError(DATA, f"{self._file.name} is nested more than {MAX_DEPTH} levels deep")
        if self._open or self._is_record():
            self._count(len(name) + sum(len(key) + len(value) for key, value in attributes.items()))
            self._open.append(_Element(self._path[-1], dict(attributes)))

    def text(self, data: str) -> None:
        if self._open:
            self._count(len(data))
            self._open[-1].text.append(data)

    def end(self, name: str) -> None:
        self._path.pop()
        if not self._open:
            return
        element = self._open.pop()
        value = self._value(element)
        if not self._open:
            self.found.append(value if isinstance(value, dict) else {"#text": value} if value else {})
            self._size = 0
            return
        self._add(self._open[-1].children, element.name, value)

    def _is_record(self) -> bool:
        if not self._wanted:
            return len(self._path) == 2
        return self._path[-len(self._wanted) :] == self._wanted

    def _value(self, element: _Element) -> Any:
        text = "".join(element.text)
        if not element.children:
            return None if element.is_nil else text
        if text.strip():
            element.children["#text"] = text.strip()
        self._shape.mappings.add(self._place(element.name))
        return element.children

    def _add(self, children: dict[str, Any], name: str, value: Any) -> None:
        if name not in children:
            children[name] = value
            return
        if not isinstance(children[name], list):
            children[name] = [children[name]]
            self._shape.lists.add(self._place(name))
        children[name].append(value)

    def _place(self, name: str) -> ShapePath:
        """The path of an element within its record. The element itself is closed already."""
        return (*(one.name for one in self._open[1:]), name)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > _RECORD_BYTES:
            raise ToolError(
                DATA,
                f"a record of {self._file.name} has more than {_RECORD_BYTES >> 20} MiB: name the element that repeats "
                "in record, such as orders/order",
            )


def stage_xml(path: Path, file: TableFile, folder: Path) -> Path:
    """The records of a document as lines of JSON, all of one shape."""
    shape, raw, made = Shape(file.lists), folder / "records-raw", folder / "records"
    with raw.open("wb") as out:
        for record in _records(path, file, shape):
            out.write(msgspec.json.encode(record) + b"\n")
    # A second pass: only after the last record is it known which children repeat.
    with raw.open("rb") as lines, made.open("wb") as out:
        for line in lines:
            out.write(msgspec.json.encode(shape.fitted(msgspec.json.decode(line))) + b"\n")
    raw.unlink()
    return made


def _records(path: Path, file: TableFile, shape: Shape) -> Iterator[Any]:
    records = _Records(file, shape)
    parser = expat.ParserCreate(None if file.encoding == "utf-8" else file.encoding, namespace_separator="|")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = records.begin, records.end
    parser.CharacterDataHandler = records.text
    # Entities can only be declared in a document type: without one there is nothing that could expand or be fetched.
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.EntityDeclHandler = _refuse_doctype
    with path.open("rb") as source:
        while True:
            chunk = source.read(_CHUNK)
            try:
                parser.Parse(chunk, not chunk)
            except expat.ExpatError as problem:
                what = expat.errors.messages.get(problem.code, "it cannot be read")
                where = f"{file.name}, line {problem.lineno}, column {problem.offset + 1}"
                raise ToolError(DATA, f"{where}: {what}", line=problem.lineno) from None
            except _DoctypeError:
                raise ToolError(
                    DATA,
                    f"{file.name}, line {parser.CurrentLineNumber}: it has a document type (<!DOCTYPE), which may "
                    "define entities and is never read: remove it",
                    line=parser.CurrentLineNumber,
                ) from None
            yield from records.found
            records.found.clear()
            if not chunk:
                return


class _DoctypeError(Exception):
    pass


def _refuse_doctype(*_: Any) -> None:
    raise _DoctypeError


def _local(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition("|")[2]


# Rows as XML: an element for each row, with an element for each value. `@name` is an attribute and `#text` the text of
# its element, as in the records that the reader returns. A null value is left out; an empty text is an empty element.
_NAME = re.compile(r"[^\W\d][\w.-]*\Z")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def write_xml(path: Path, file: TableFile, names: list[str], rows: Iterable[tuple[Any, ...]]) -> int:
    """Write the rows. Returns their number. Raises ToolError, which names what XML cannot hold."""
    record = file.record or "row"
    for name in (file.root, record):
        _check_name(name, file)
    for name in names:
        _check_name(name.removeprefix("@") if name != "#text" else "text", file)
    count = 0
    with path.open("w", encoding="utf-8", newline="") as out:
        out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<{file.root}>\n')
        for count, row in enumerate(rows, 1):
            out.write("  ")
            _write(out, record, dict(zip(names, row, strict=True)), file, count)
            out.write("\n")
        out.write(f"</{file.root}>\n")
    return count


def _write(out: TextIO, name: str, value: Any, file: TableFile, row: int) -> None:
    if value is None:
        return
    if isinstance(value, list | tuple):
        for item in value:
            _write(out, name, "" if item is None else item, file, row)
        return
    if not isinstance(value, dict):
        out.write(f"<{name}>{escape(_text(value, name, file, row), {chr(13): '&#13;'})}</{name}>")
        return
    attributes = {key[1:]: item for key, item in value.items() if key.startswith("@") and item is not None}
    for key in value:
        _check_name(key.removeprefix("@") if key != "#text" else "text", file)
    attribute_text = "".join(f" {key}={quoteattr(_text(item, key, file, row))}" for key, item in attributes.items())
    out.write(f"<{name}{attribute_text}>")
    for key, item in value.items():
        if key == "#text":
            out.write(escape("" if item is None else _text(item, key, file, row)))
        elif not key.startswith("@"):
            _write(out, key, item, file, row)
    out.write(f"</{name}>")


def _text(value: Any, name: str, file: TableFile, row: int) -> str:
    made = f"{value:f}" if isinstance(value, Decimal) else plain(value)
    text = str(made).lower() if isinstance(made, bool) else str(made)
    if _FORBIDDEN.search(text):
        raise ToolError(
            DATA,
            f'row {row} of {file.name}, "{name}": the text has a control character, which XML cannot hold',
            row=row,
        )
    return text


def _check_name(name: str, file: TableFile) -> None:
    if not _NAME.match(name):
        raise ToolError(
            DATA,
            f'"{name}" is not a valid element name, which {file.name} needs: give the column another with '
            "columns: {new_name: {from: old name}}",
        )
