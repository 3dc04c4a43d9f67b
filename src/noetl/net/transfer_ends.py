"""The ends of a transfer: SQL in `source` and `target` is bound like that of the kinds that run it (design.md §8)."""

from __future__ import annotations

from typing import Any

import msgspec

KIND = "transfer"
ENDS = ("source", "target")
SQL_KEYS = ("command", "query")


class EndsSql(msgspec.Struct, frozen=True):
    """`sql` by end and key, and the ends without it, `plain`; both empty for other kinds."""

    plain: dict[str, Any] = {}
    sql: dict[str, dict[str, Any]] = {}


def ends_sql(kind: str, written: dict[str, Any]) -> EndsSql:
    """What is SQL in the inputs of a transfer, apart from what is rendered."""
    if kind != KIND:
        return EndsSql()
    sql = {end: _sql(written.get(end)) for end in ENDS}
    sql = {end: texts for end, texts in sql.items() if texts}
    plain = {end: {key: value for key, value in written[end].items() if key not in sql[end]} for end in sql}
    return EndsSql(plain, sql)


def _sql(end: Any) -> dict[str, Any]:
    return {key: end[key] for key in SQL_KEYS if key in end} if isinstance(end, dict) else {}
