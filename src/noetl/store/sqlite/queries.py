"""Named queries: SQL lives in queries.sql, each statement under a `-- name:` line."""

from __future__ import annotations

from pathlib import Path

_MARK = "-- name: "


def _read(text: str) -> dict[str, str]:
    named = {}
    for part in text.split(_MARK)[1:]:
        name, _, statement = part.partition("\n")
        named[name.strip()] = statement.strip()
    return named


QUERIES = _read(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"))
