"""What comes before a text can be read: expanding it, within limits, and turning its encoding into UTF-8."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from noetl.base.errors import ToolError
from noetl.tools.convert.request import DATA, ConvertRequest, TableFile

_CHUNK = 1 << 20
_OPENERS: dict[str, Callable[[Path, str], object]] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
_BROKEN = (EOFError, lzma.LZMAError, OSError, ValueError)


def expanded(path: Path, file: TableFile, request: ConvertRequest) -> Path:
    """The file without its compression; at most `max_bytes` of it are ever written."""
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
    """The text as UTF-8. ToolError `convert.data` says on which line it is not what it is said to be."""
    if file.encoding == "utf-8" or file.format == "xml":  # XML says itself what it is in
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
    """Write a text in the encoding of the target."""
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
