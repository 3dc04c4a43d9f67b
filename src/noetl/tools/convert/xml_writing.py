"""Rows as XML: an element for each row, with an element for each value that is there.

`@name` is an attribute and `#text` the text of its element, as the reader gives them. A value that is null is left out;
an empty text is an empty element.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO
from xml.sax.saxutils import escape, quoteattr

from noetl.base.errors import ToolError
from noetl.tools.convert.problems import DATA
from noetl.tools.convert.request import TableFile
from noetl.tools.sql.plain_values import plain

_NAME = re.compile(r"[^\W\d][\w.-]*\Z")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def write_xml(path: Path, file: TableFile, names: list[str], rows: Iterable[tuple[Any, ...]]) -> int:
    """The number of rows written. ToolError names what XML cannot hold."""
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
    told = "".join(f" {key}={quoteattr(_text(item, key, file, row))}" for key, item in attributes.items())
    out.write(f"<{name}{told}>")
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
            f'"{name}" is no name of an element, which {file.name} needs: give the column another with '
            "columns: {new_name: {from: old name}}",
        )
