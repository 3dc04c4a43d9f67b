"""No value, whatever it holds, changes what a statement is: its tokens are those of the author's text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.errors import NoetlError
from noetl.templates.sql.binding import bind, read
from noetl.templates.sql.lexer import Kind, tokens

TEMPLATES = [
    "SELECT {{ x }}",
    "SELECT {{ x }}, a FROM {{ x }} WHERE b = {{ x }} AND {{ x }} = 'c'",
    "SELECT '{{ x }}', 'a {{ x }} b', E'\\n{{ x }}', $$ {{ x }} $$, \"q{{ x }}\"",
    "SELECT -{{ x }}, a-{{ x }}, a/{{ x }}, LIKE'{{ x }}', f({{ x }}), {{ x }}::text, a::{{ x }}",
    "INSERT INTO t_{{ x }} ({{ x }}) VALUES ({{ x }}, '{{ x }}'), (1, {{ x }})",
    "SELECT 1 -- {{ x }}\n, 2 /* {{ x }} /* {{ x }} */ */ LIMIT {{ x }}",
    "CREATE TABLE c (a text DEFAULT '{{ x }}', b int DEFAULT -{{ x }})",
    "SELECT DATE'{{ x }}', INTERVAL '{{ x }} days', a AT TIME ZONE '{{ x }}'",
    "SELECT * FROM t ORDER BY {{ x }} {{ x }}",
    "SELECT a IN ({{ x }}), a NOT IN ({{ x }}), a IN ({{ x }}, 1)",
    "SELECT {{ x }}{{ x }}, ${{ x }}$, 1{{ x }}",
    "DO $$ {{ x }} $$",
    "SELECT {{ x }}.a, a.{{ x }}, {{ x }}(1)",
]

_QUOTES = ["'", '"', "''", "--", "/*", "*/", ";", "$$", "$a$", "\\", "E'", "U&'", "::"]
_BLANKS = ["\n", "\r", " ", "\u2028", "\u00a0", "\ufeff"]
_SIGNS = ["(", ")", ",", ".", "$1", "%s", ":n", "?", "{{ y }}", "{% x %}", "0", "-1", "a", "DROP TABLE t", "é"]
_PIECES = [*_QUOTES, *_BLANKS, *_SIGNS]
nasty = st.one_of(
    st.lists(st.sampled_from(_PIECES), max_size=6).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
scalars = st.one_of(nasty, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())
values = st.one_of(scalars, st.lists(scalars, max_size=3), st.dictionaries(nasty, scalars, max_size=2))


def structure(text: str) -> str:
    """The kinds of the tokens, a list of names counted as one name."""
    kinds = []
    for token in tokens(text):
        if token.kind is Kind.SPACE:
            continue
        plain = token.kind in (Kind.WORD, Kind.NAME) or (token.kind is Kind.OPERATOR and token.text == "*")
        kinds.append("n" if plain else token.text if token.kind is Kind.SIGN else f"<{token.kind}>")
    return re.sub(r"n(?:[.,]n)*", "n", "".join(kinds))


def placed(template: str) -> list[str]:
    """One text for every template in `template`, the others being plain."""
    pieces = template.split("{{ x }}")
    return ["{{ x }}".join(["n".join(pieces[:index]), "n".join(pieces[index:])]) for index in range(1, len(pieces))]


@pytest.mark.req("TOOL-05")
@pytest.mark.parametrize("sql", [text for template in TEMPLATES for text in (template, *placed(template))])
@settings(max_examples=40, deadline=None)
@given(value=values)
def test_no_value_changes_the_tokens_of_a_statement(sql: str, value: Any) -> None:
    try:
        found = bind(sql, {"x": value}).statements
    except NoetlError:
        return  # refused, which changes nothing

    expected = {structure(each.text) for each in _likely(sql, value)}
    assert len(found) == 1
    assert structure(found[0].text) in expected


def _likely(sql: str, value: Any) -> list[Any]:
    """The statements that harmless values of the same type make of the same text."""
    harmless: list[Any] = ["a", "7", 7, -7, 7.5, -7.5, True, None, ["a"], [7], [], {"a": 7}]
    found: list[Any] = []
    for each in harmless:
        if type(each) is type(value) or isinstance(value, str):
            try:
                found += bind(sql, {"x": each}).statements
            except NoetlError:
                continue
    return found


@settings(max_examples=300, deadline=None)
@given(text=nasty)
def test_the_lexer_loses_nothing(text: str) -> None:
    try:
        found = tokens(text.replace("\x00", ""))
    except NoetlError:
        return

    assert "".join(token.text for token in found) == text.replace("\x00", "")


@settings(max_examples=300, deadline=None)
@given(text=nasty)
def test_joined_statements_equal_the_text_without_semicolons(text: str) -> None:
    text = text.replace("\x00", "")
    try:
        parts = [part for statement in read(text).statements for part in statement.parts]
    except NoetlError:
        return

    assert set("".join(map(str, parts))) <= set(text)


def test_an_untrusted_value_never_reaches_the_text_of_a_parameterised_statement() -> None:
    """The plainest form of the promise: the canary is among the parameters and nowhere else."""
    canary = "canary'\";--"
    for sql in ("SELECT f({{ x }}), '{{ x }}', 'a{{ x }}b'", "UPDATE t SET a = {{ x }} WHERE b IN ({{ x }}, {{ x }})"):
        (statement,) = bind(sql, {"x": canary}).statements

        assert "canary" not in statement.text
        assert all("canary" in value for value in statement.params)
