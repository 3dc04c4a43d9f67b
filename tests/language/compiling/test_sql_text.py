"""SQL text: what no database takes is a warning, and what some database takes is none."""

from __future__ import annotations

import pytest

from noetl.language.compiling.sql_text import sql_flaws
from noetl.templates.sql.lexer import HOLE


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELEC 1", 'no SQL statement begins with "SELEC"'),
        ("SELECT 1; updte t SET a = 1", 'no SQL statement begins with "updte"'),
        ("SELECT count(* FROM t", 'this SQL has a "(" that is never closed'),
        ("SELECT 1)", 'this SQL has a ")" that nothing opens'),
        ("SELECT (1; SELECT 2)", 'this SQL has a "(" that is never closed'),
        ("SELECT * FROM t WHERE", 'this SQL ends with "WHERE"'),
        ("INSERT INTO t VALUES (1),", 'this SQL ends with ","'),
        ("SELECT 'it", "the SQL holds a quote or comment that is never closed: 'it"),
    ],
)
def test_what_no_database_takes_is_found(text: str, found: str) -> None:
    assert [flaw.message for flaw in sql_flaws(text)] == [found]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- nothing",
        "FROM t",
        "SUMMARIZE t",
        "WITH a AS (SELECT 1) SELECT * FROM a;",
        "INSERT INTO ...",
        "SELECT '(' || \")\" -- (",
        f"SELECT * FROM t WHERE a = {HOLE}",
        f"{HOLE} 1",
        "DETACH x",
        "DO $$ BEGIN PERFORM 1; END $$",
        "SELECT a[1], b FROM t",
    ],
)
def test_what_some_database_takes_is_not_touched(text: str) -> None:
    assert list(sql_flaws(text)) == []


def test_the_hint_keeps_the_letters_of_the_author() -> None:
    assert [flaw.hint for flaw in sql_flaws("selct 1")] == ['did you mean "select"?']
