"""SQL text: what no database takes is a warning, and what some database takes is none."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.language.compiling.sql_flaws import sql_flaws
from noetl.templates.sql.lexer import HOLE
from noetl.tools.kinds import KINDS


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


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("SELEC 1", (7, 16, "SELEC")),
        ("'SELECT 1; SELEC 2'", (7, 27, "SELEC")),
        ("|\n        SELECT 1;\n        SELEC 2", (9, 9, "SELEC")),
        (">-\n        SELECT 1;\n        SELEC 2", (9, 9, "SELEC")),
        ("|\n        SELECT {{ (1) }};\n        SELECT (2", (9, 16, "(")),
        ("'SELECT {{ 1 }}; SELEC 2'", (7, 33, "SELEC")),
        ("SELECT 'it", (7, 16, "SELECT 'it")),
        # It cannot be told which one is meant: the text as a whole.
        ("| # SELEC\n        SELEC 1", (7, 16, "|")),
    ],
)
def test_a_flaw_is_told_at_its_word(command: str, place: tuple[int, int, str]) -> None:
    head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: p, path: p }\nworkflow:\n  - step: start\n"
    source = Source("p.yaml", f"{head}    tool:\n      command: {command}\n      kind: duckdb\n")

    found = [one for one in check(source, kinds=KINDS, proofs=False).diagnostics if one.code == "W_SQL"]

    assert [(one.span.line, one.span.column, source.cut(one.span)) for one in found] == [place]
