"""Prints, as JSON, what each dialect makes of the same statement. Run by an interpreter that has every driver."""

from __future__ import annotations

import json
from typing import Any

from noetl.tools.sql.child import insertions
from noetl.tools.sql.dialects import DIALECTS, Connection
from noetl.tools.sql.engines import engine_of, rendered

_PARTS: list[Any] = [
    "SELECT '100%' AS a, ",
    {"value": "x"},
    " AS b FROM t WHERE n ",
    {"list": "any"},
    {"value": [1, 2]},
    ")",
]
_ROW: dict[str, Any] = {"table": "shop.orders", "groups": [[{"id": 1, "Group": "a b"}]], "key": ["id"]}


def texts(name: str) -> dict[str, Any]:
    login: dict[str, Any] = {"host": "db.example.com", "user": "ada", "password": "secret", "database": "shop"}
    connection = Connection(dialect=name, **(login if name != "sqlite" else {}))
    engine = engine_of(connection)  # with the driver's own style of parameters; nothing is connected
    url, dialect = engine.url, engine.dialect
    text, values = rendered(_PARTS, dialect)
    try:
        ((insertion, rows),) = insertions(_ROW, dialect)
    except Exception as problem:
        insertion, rows = str(problem), []
    shown = url.render_as_string(hide_password=True)
    return {"url": shown, "select": text, "values": values, "upsert": insertion, "rows": rows}


if __name__ == "__main__":
    found = {name: texts(name) for name in DIALECTS}
    print(json.dumps(found, indent=1, ensure_ascii=False, default=list))
