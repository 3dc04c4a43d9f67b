"""Blocks in SQL: they choose and repeat the author's text, and values in it are bound as anywhere (design.md §8)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.errors import TemplateError, ToolError
from noetl.templates.sql.binding import bind

EVIL = "x'; DROP TABLE t; --"


def bound(sql: str, **scope: Any) -> list[tuple[str, list[Any]]]:
    """Each statement, its blanks made single, and its parameters."""
    return [(" ".join(each.text.split()), list(each.params)) for each in bind(sql, scope).statements]


@pytest.mark.req("TOOL-05")
@pytest.mark.parametrize(
    ("sql", "scope", "statements"),
    [
        (
            "SELECT * FROM t WHERE a = {{ x }}{% if day %} AND day = '{{ day }}'{% endif %}",
            {"x": EVIL, "day": EVIL},
            [("SELECT * FROM t WHERE a = $1 AND day = $2", [EVIL, EVIL])],
        ),
        (
            "SELECT * FROM t WHERE a = {{ x }}{% if day %} AND day = '{{ day }}'{% endif %}",
            {"x": 1},
            [("SELECT * FROM t WHERE a = $1", [1])],
        ),
        (
            "INSERT INTO t VALUES {% for r in all %}({{ r.id }}, '{{ r.name }}'){{ ',' if not loop.last }}{% endfor %}",
            {"all": [{"id": 1, "name": "a"}, {"id": 2, "name": EVIL}]},
            [("INSERT INTO t VALUES ($1, $2),($3, $4)", [1, "a", 2, EVIL])],
        ),
        (
            "SELECT a FROM t WHERE a IN ({% for i in ids %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %})",
            {"ids": [1, EVIL]},
            [("SELECT a FROM t WHERE a IN ($1, $2)", [1, EVIL])],
        ),
        (
            "SELECT 1 WHERE {% for k in f %}{{ 'AND' if k != 'a' }} {{ k | identifier }} = {{ f[k] }} {% endfor %}",
            {"f": {"a": True, 'b"': EVIL}},
            [('SELECT 1 WHERE "a" = $1 AND "b""" = $2', [True, EVIL])],
        ),
        (
            "{% set cols = columns | join(', ') %}SELECT {{ cols }} FROM {{ schema }}.orders_{{ year }}",
            {"columns": ["a", "b"], "schema": "s", "year": 2024},
            [('SELECT "a", "b" FROM s . orders_2024', [])],
        ),
        (
            "{% for t in tables %}DELETE FROM {{ t }} WHERE a = {{ x }};{% endfor %}",
            {"tables": ["a", "b"], "x": EVIL},
            [("DELETE FROM a WHERE a = $1", [EVIL]), ("DELETE FROM b WHERE a = $1", [EVIL])],
        ),
        (
            "SELECT '{% if x %}{{ x }} and {{ n }}{% endif %}'",
            {"x": EVIL, "n": None},
            [("SELECT $1", [f"{EVIL} and None"])],
        ),
        (
            "SELECT 1 {% for t in ['a', 'b'] %}, {{ '' }}::text, {{ 'x' if t == 'b' else '' }}::text{% endfor %}",
            {},
            [("SELECT 1 , $1 ::text, $1 ::text, $1 ::text, $2 ::text", ["", "x"])],
        ),
        (
            "SELECT f({% for t in [1, 2] %}{{ t }}{{ ',' if not loop.last else '' }}{% endfor %})",
            {},
            [("SELECT f($1,$2)", [1, 2])],
        ),
        ("SELECT 1 -- {% if x %}{{ x }}{% endif %}", {"x": "a\nb"}, [("SELECT 1", [])]),
        ("SELECT {% raw %}'{{ x }}'{% endraw %}", {}, [("SELECT '{{ x }}'", [])]),
    ],
)
def test_blocks_select_text_and_values_are_bound(
    sql: str, scope: dict[str, Any], statements: list[tuple[str, list[Any]]]
) -> None:
    assert bound(sql, **scope) == statements


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM {% if true %}{{ keychain.a }}{% endif %}",
        "{% set x = keychain.a %}SELECT * FROM {{ x }}",
        "{% for x in [keychain.a] %}SELECT {{ n }} FROM {{ x }}{% endfor %}",
        "SELECT {{ x }} {% set x = keychain.a %} FROM {{ x }}",
        "{% with x = keychain.a %}CREATE TABLE t AS SELECT {{ x }}::text{% endwith %}",
    ],
)
def test_a_secret_is_bound_or_refused_under_any_template_name(sql: str) -> None:
    with pytest.raises(ToolError, match="a secret can only be bound"):
        bound(sql, keychain={"a": "name"}, n=1)


def test_a_secret_in_a_value_position_is_bound() -> None:
    sql = "{% set x = keychain.a %}SELECT 1 WHERE {% if x %}a = {{ x }}{% endif %}"

    assert bound(sql, keychain={"a": EVIL}) == [("SELECT 1 WHERE a = $1", [EVIL])]


@pytest.mark.parametrize(
    "sql",
    ["{% set x %}SELECT {{ y }}{% endset %}{{ x }} ", "SELECT {% filter upper %}{{ y }}{% endfilter %} FROM t"],
)
def test_blocks_that_build_values_from_text_are_refused(sql: str) -> None:
    with pytest.raises(ToolError, match="would make SQL out of values"):
        bound(sql, y="1")


def test_an_unbounded_loop_is_an_ordinary_error() -> None:
    with pytest.raises(TemplateError, match=r"too much work|more than"):
        bound("{% for a in n %}{% for b in n %}SELECT {{ a }};{% endfor %}{% endfor %}", n=list(range(5_000)))
