"""Shapes of SQL with templates, as people write them, and what the same text would say if values were just written
into it. A shape is one statement, or several; what it means is what the literal text means.

In `sql_shapes_data` a shape is a line; after `|||` stands its literal text, where that is not plain to see. `Q` stands
for a template in quotes, `E` for one that escapes its quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from noetl.templates.expression import parse

DATA = Path(__file__).parent / "sql_shapes_data"

SCOPE: dict[str, Any] = {
    "x": "O'Reilly",
    "plain": "Ann",
    "two": "it's ''twice''",
    "odd": '; --"q" \\ %s $1 :n',
    "uni": "žluťoučký 🐎",
    "empty": "",
    "n": 3,
    "neg": -2,
    "zero": 0,
    "one": 1,
    "amt": 12.5,
    "big": 5_000_000_000,
    "yes": True,
    "no": False,
    "nul": None,
    "ids": [1, 3],
    "names": ["Ann", "O'Reilly"],
    "single": [2],
    "nothing": [],
    "obj": {"k": "it's", "n": [1, None]},
    "row": [9, "it's"],
    "rows": [[8, "a'b"], [9, "c"]],
    "records": [{"name": "a'b", "id": 8}, {"id": 9, "name": "c"}],
    "day": "2024-02-29",
    "at": "2024-02-29T10:00:00Z",
    "unit": "month",
    "mood": "sad",
    "uid": "00000000-0000-0000-0000-000000000001",
    "digits": "42",
}


class Shape(NamedTuple):
    """`literal` is what the text alone would be, where it is not plain to see."""

    sql: str
    literal: str | None = None


_TABLES = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE o (id int, user_id int, amount numeric(10,2), name text, v varchar(20), ts timestamptz, data JSONTYPE,
tags text[], nums int[], ok bool, d date, kind mood, u uuid, big bigint, f float8);
CREATE TABLE t (id int, name text);
CREATE TABLE g (tags text[]);
"""
_ROWS = """
INSERT INTO o VALUES
(1, 7, 12.5, 'O''Reilly', 'Ann', '2024-02-29T10:00:00Z', '{"k": "it''s"}', ARRAY['Ann', 'O''Reilly'], ARRAY[1, 2],
 true, '2024-02-29', 'sad', '00000000-0000-0000-0000-000000000001', 5000000000, 0.5),
(2, 7, 1, 'Ann', 'x', '2024-03-01T00:00:00Z', '{"k": "v"}', ARRAY['b'], ARRAY[3], false, '2024-03-01', 'ok',
 '00000000-0000-0000-0000-000000000002', 1, 1.5),
(3, 8, -2, 'it''s ''''twice''''', 'Ann', '2025-01-01T00:00:00Z', '{"k": "42"}', ARRAY['42'], ARRAY[42], NULL,
 '2025-01-01', 'ok', '00000000-0000-0000-0000-000000000003', 2, 2.5),
(4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
"""
# PostgreSQL keeps its tables from shape to shape; DuckDB forgets them with each task, and a task has many shapes.
_DROPS = "DROP TABLE IF EXISTS o; DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS g; DROP TYPE IF EXISTS mood;"
TABLES = {"postgres": _TABLES.replace("JSONTYPE", "jsonb"), "duckdb": "SELECT 1"}
ROWS = {"postgres": "TRUNCATE o, t, g;" + _ROWS, "duckdb": _DROPS + _TABLES.replace("JSONTYPE", "json") + _ROWS}

_TEXT_VALUES = ["x", "odd"]

# How people escape what they put between quotes.
_ESCAPES = [
    """'{{ x | replace("'", "''") }}'""",
    """'{{x|replace("'","''")}}'""",
    """'{{ x | replace('\\'', '\\'\\'') }}'""",
    """'{{ x | string | replace("'", "''") }}'""",
    """'{{ x | replace("'", "''") | string }}'""",
    """'{{ x | default("") | replace("'", "''") }}'""",
    """'{{ (x or "") | replace("'", "''") }}'""",
    """'{{ (x | string) | replace("'", "''") }}'""",
    """'{{ x.replace("'", "''") }}'""",
    """'{{ x | string | trim | replace("'", "''") | trim }}'""",
    """'{{ x | replace("'", "''") if x else "" }}'""",
    """'{{ "" if not x else x | replace("'", "''") }}'""",
    """'{{ x | replace("'", "''") ~ "!" }}'""",
    """'{{ "<" ~ x.replace("'", "''") ~ ">" }}'""",
    """'by {{ x | replace("'", "''") }}, {{ plain | replace("'", "''") }}'""",
    """'{{- x | replace("'", "''") -}}'""",
    """'{{ x | upper | replace("'", "''") }}'""",
    """'{{ x | replace("'", "''") | upper }}'""",
    """'{{ names | join(", ") | replace("'", "''") }}'""",
    """'{{ obj.k | replace("'", "''") }}'""",
    """'{{ obj["k"] | replace("'", "''") }}'""",
    """'{{ two | replace("'", "''") }}'""",
    """'{{ x | replace("'", "''") | replace("R", "r") }}'""",
    """'{{ x | replace("'", "''", ) }}'""",
]
_JSON_ESCAPES = [
    """'{{ obj | tojson | replace("'", "''") }}'""",
    """'{{ obj|tojson|replace("'","''") }}'""",
    """'{{ (obj | tojson) | replace("'", "''") }}'""",
    """'{{ (obj | tojson).replace("'", "''") }}'""",
    """'{{ obj | tojson | string | replace("'", "''") }}'""",
    """'{{ {"k": x, "n": n} | tojson | replace("'", "''") }}'""",
    """'{{ names | tojson | replace("'", "''") }}'""",
]


def shapes(database: str) -> dict[str, list[Shape]]:
    """All shapes for a database, by family."""
    return {
        "quoted text": list(_quoted_texts()),
        "escaped text": list(_escaped_texts()),
        "quoted values": _listed("quoted_values"),
        "bare values": _listed("bare_values"),
        "repeated templates": _listed("repeated_templates"),
        "lists": _listed("lists"),
        "SQL words in templates": _listed("words_in_templates"),
        f"{database} only": _listed(f"{database}_only"),
    }


def _lines(name: str) -> list[str]:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def _listed(name: str) -> list[Shape]:
    found = (line.split(" ||| ") for line in _lines(name))
    return [Shape(parts[0], parts[1] if len(parts) > 1 else None) for parts in found]


def _always(text: str) -> Callable[[re.Match[str]], str]:
    """A replacement that is taken as it is, backslashes and all."""
    return lambda _: text


def _quoted_texts() -> Iterator[Shape]:
    for place in _lines("text_places"):
        for name in _TEXT_VALUES:
            yield Shape(re.sub(r"\bQ\b", _always(f"'{{{{ {name} }}}}'"), place))


def _escaped_texts() -> Iterator[Shape]:
    for place in _lines("escaped_places"):
        for escape in _ESCAPES:
            yield Shape(re.sub(r"\bE\b", _always(escape), place))
    for escape in _JSON_ESCAPES:
        yield Shape(f"INSERT INTO o (id, data) VALUES (9, {escape}); SELECT data FROM o WHERE id = 9")
        yield Shape(f"INSERT INTO t (id, name) VALUES (9, {escape}); SELECT name FROM t")


_TEMPLATE = re.compile(r"\{\{-?(?P<inside>.*?)-?\}\}(?!\})")
_ESCAPED = re.compile(r"""replace\((["'])\\?'\1, ?(["'])\\?'\\?'\2,? ?\)""")
_WORD = re.compile(r"NULL|TRUE|FALSE|CURRENT_DATE", re.IGNORECASE)


def literal(shape: Shape, database: str) -> str:
    """The shape with its values written into the text, as somebody would write them by hand."""
    if shape.literal is not None:
        return shape.literal
    written, at = "", 0
    for template in _TEMPLATE.finditer(shape.sql):
        before = shape.sql[at : template.start()]
        if template.group().startswith("{{-"):
            before = before.rstrip()
        written += before
        source = f"{{{{ {template['inside'].strip()} }}}}"
        written += _between_quotes(source) if written.count("'") % 2 else _bare(source, written, database)
        at = template.end()
        if template.group().endswith("-}}"):
            at += len(shape.sql[at:]) - len(shape.sql[at:].lstrip())
    return written + shape.sql[at:]


def _between_quotes(source: str) -> str:
    value = parse(source).evaluate(SCOPE)
    text = value if isinstance(value, str) else "true" if value is True else "false" if value is False else str(value)
    return text if _ESCAPED.search(source) else text.replace("'", "''")


def _bare(source: str, before: str, database: str) -> str:
    value = parse(source).evaluate(SCOPE)
    if isinstance(value, str) and ('"\'"' in source or ("'" in source and _WORD.fullmatch(value))):
        return value  # SQL that the author wrote
    if isinstance(value, str) and "join" in source:
        return value
    if isinstance(value, list):
        items = ", ".join(map(_constant, value))
        if re.search(r"(IN ?\( ?|\[)\Z", before):
            return items
        return f"ARRAY[{items}]" if database == "postgres" else f"[{items}]"
    return _constant(value)


def _constant(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case dict():
            return _constant(json.dumps(value))
        case _:
            return "'" + str(value).replace("'", "''") + "'"
