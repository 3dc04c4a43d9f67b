"""Named queries: the SQL of a backend lives in one file, each statement under a `-- name:` line."""

from __future__ import annotations

from pathlib import Path

_MARK = "-- name: "


def named_queries(file: Path) -> dict[str, str]:
    named = {}
    for part in file.read_text(encoding="utf-8").split(_MARK)[1:]:
        name, _, statement = part.partition("\n")
        named[name.strip()] = statement.strip()
    return named
