"""SQL text: what no database accepts is a warning, and what some database accepts is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from noetl.base.diagnostics import Source
from noetl.base.errors import TemplateError
from noetl.language.checking import check
from noetl.language.compiling.sql_flaws import sql_flaws
from noetl.language.reading.yaml import PARSER
from noetl.templates.sql.lexer import HOLE, cut, has_blocks
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
        ("SELECT * FORM t", '"FORM" stands where a word such as FROM is needed'),
        ("SELECT t.*, u.* fro t, u", '"fro" stands where a word such as FROM is needed'),
        ("SELECT count(*) frmo t WHERE a = 1", '"frmo" stands where a word such as FROM is needed'),
        ("SELECT a FROM (SELECT b, c form t) x", '"form" stands where a word such as FROM is needed'),
        (f"SELECT * FORM {HOLE}", '"FORM" stands where a word such as FROM is needed'),
        ("SELECT a FROM t WHER a = 1", '"WHER" stands where a word such as WHERE is needed'),
        ("SELECT a FROM t wehre t.a IN (1, 2)", '"wehre" stands where a word such as WHERE is needed'),
        ("DELETE FROM t WHEER a IS NULL", '"WHEER" stands where a word such as WHERE is needed'),
        ("SELECT a, count(*) FROM t GRUOP BY a", '"GRUOP" stands where a word such as GROUP is needed'),
        (f"SELECT a FROM t WHERE a = {HOLE} ODER BY a", '"ODER" stands where a word such as ORDER is needed'),
        ("SELECT row_number() OVER (ODER BY a) FROM t", '"ODER" stands where a word such as ORDER is needed'),
        ("SELECT a FROM t ORDER BY a DESC LIMT 5", '"LIMT" stands where a word such as LIMIT is needed'),
        ("INSERT INTO t (a, b) VALEUS (1, 2)", '"VALEUS" stands where a word such as VALUES is needed'),
        ("INSERT INOT t (a) VALUES (1)", '"INOT" stands where a word such as INTO is needed'),
        ("UPDATE t STE a = 1 WHERE b = 2", '"STE" stands where a word such as SET is needed'),
        ("SELECT 'it", "the SQL holds a quote or comment that is never closed: 'it"),
    ],
)
def test_sql_that_no_database_accepts_is_reported(text: str, found: str) -> None:
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
        # Each of these words may be a name.
        "SELECT form FROM t",
        "SELECT DISTINCT form FROM t",
        "SELECT a form FROM t",
        "SELECT a form, b fro FROM t WHERE form = 1 AND wher = 2",
        "SELECT a AS form FROM t form WHERE form.a = 1",
        "SELECT a * form FROM t",
        "SELECT 1 form",
        "SELECT 1 form UNION SELECT 2",
        "SELECT Form.a FROM shop.Orders Form JOIN orders o ON o.a = Form.a",
        "SELECT * FROM ONLY orders o",
        "SELECT * FROM t wher JOIN u ON wher.a = u.a",
        "SELECT * FROM here h WHERE h.a = 1",
        "UPDATE t ste SET a = 1",
        "UPDATE ONLY sets s SET a = 1",
        "DELETE form f WHERE f.a = 1",
        "INSERT t VALUES (1)",
        "INSERT INTO t (a) VALUE (1)",
        "INSERT INTO t vals (a) VALUES (1)",
        "CREATE TABLE t (a form, b limt)",
        "SELECT * EXCLUDE (a) FROM t",
        "SELECT * FOR UPDATE",
        "SELECT SQL_NO_CACHE form FROM t LIMIT 5 OFFSET 5",
        "SELECT sum(a) OVER (PARTITION BY b ORDER BY c GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "SELECT EXTRACT(year FROM a) FROM t",
        "WITH form AS (SELECT 1 a) SELECT form.* FROM form",
        f"SELECT {HOLE} form {HOLE}",
    ],
)
def test_sql_that_some_database_accepts_is_not_reported(text: str) -> None:
    assert list(sql_flaws(text)) == []


def test_the_hint_keeps_the_case_of_the_author() -> None:
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
def test_a_flaw_is_reported_at_its_word(command: str, place: tuple[int, int, str]) -> None:
    head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: p, path: p }\nworkflow:\n  - step: start\n"
    source = Source("p.yaml", f"{head}    tool:\n      command: {command}\n      kind: duckdb\n")

    found = [one for one in check(source, kinds=KINDS, proofs=False).diagnostics if one.code == "W_SQL"]

    assert [(one.span.line, one.span.column, source.cut(one.span)) for one in found] == [place]


ROOT = Path(__file__).parents[3]
PLACES = ("examples", "docs", "tests", "bench", "src/noetl")
WORDS = re.compile("SELECT|INSERT|UPDATE|DELETE|WITH")
IN_PYTHON = re.compile(rf"(?:{WORDS.pattern})\s")


def _texts_of_sql() -> Iterator[str]:
    """All SQL of this repository: named queries, tasks of playbooks, strings in Python that begin like a statement."""
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*")):
            if path.suffix == ".sql":
                yield path.read_text("utf-8")
            elif path.suffix in (".yaml", ".md"):
                yield from _commands(path.read_text("utf-8"))
            elif path.suffix == ".py" and path != Path(__file__):
                yield from _strings(path.read_text("utf-8"))


def _commands(text: str) -> Iterator[str]:
    pieces = re.findall(r"(?ms)^```ya?ml[^\n]*\n(.*?)^```", text) if "```" in text else [text]
    for piece in filter(WORDS.search, pieces):  # most have none, and to read them takes ten times as long
        try:
            pending = list(yaml.load_all(piece, Loader=PARSER))
        except yaml.YAMLError:
            continue
        while pending:
            value = pending.pop()
            if isinstance(value, dict | list):
                pending.extend(value.values() if isinstance(value, dict) else value)
            elif isinstance(value, str) and IN_PYTHON.match(value.lstrip()):
                yield value


def _strings(text: str) -> Iterator[str]:
    if not WORDS.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and IN_PYTHON.match(node.value.lstrip()):
            yield node.value


def test_no_valid_clause_is_reported_as_misspelt() -> None:
    seen = [plain for text in _texts_of_sql() if "FORM" not in text and (plain := _plain(text))]
    assert len(seen) > 500

    assert [(flaw.message, text) for text in seen for flaw in sql_flaws(text) if "stands where" in flaw.message] == []


def _plain(text: str) -> str:
    """The text with its templates replaced; nothing where one of them is no template of ours."""
    try:
        return "" if HOLE in text or has_blocks(text) else cut(text)[0]
    except TemplateError:
        return ""
