"""JSON before DuckDB sees it: how deep it is nested, and the records of a path within a document."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.convert.problems import DATA
from noetl.tools.convert.request import TableFile

MAX_DEPTH = 100
_CHUNK = 1 << 20
_DOCUMENT_BYTES = 256 << 20  # a document that is taken apart is in memory
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_TEXT = re.compile(rb'"[^"]*"')
_KEPT = bytes(byte for byte in range(256) if byte not in b'"[]{}')
_STEPS = bytes({ord("["): 2, ord("{"): 2}.get(byte, 0) for byte in range(256))


def check_depth(path: Path, name: str) -> None:
    """Refuse what is nested deeper than anybody needs: its reader would end with its process. Brackets are counted
    outside of texts; nothing is parsed."""
    depth, rest = 0, b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            brackets, rest = _brackets(rest + chunk)
            steps = [step - 1 for step in brackets.translate(_STEPS)]
            depths = list(accumulate(steps, initial=depth))
            if max(depths) > MAX_DEPTH:
                raise ToolError(DATA, f"{name} is nested more than {MAX_DEPTH} levels deep")
            depth = depths[-1]


def _brackets(text: bytes) -> tuple[bytes, bytes]:
    """The brackets outside of texts, and the beginning of a text that goes on in the next chunk."""
    odd = len(text) - len(text.rstrip(b"\\"))
    held = b"\\" if odd % 2 else b""  # an escape whose second half is not here yet
    marks = _ESCAPED.sub(b"", text[: len(text) - len(held)]).translate(None, _KEPT)
    marks = _TEXT.sub(b"", marks)
    inside = marks.find(b'"')
    if inside < 0:
        return marks, held
    return marks[:inside], b'"' + held  # whatever it holds so far, it is text


def stage_records(path: Path, file: TableFile, folder: Path) -> Path:
    """The records at a path within one document, as lines."""
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
            there = f"it has {', '.join(list(value)[:20])}" if isinstance(value, dict) else f"there is a {_kind(value)}"
            raise ToolError(DATA, f'{file.name} has no "{part}" of the path {file.record}: {there}')
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
