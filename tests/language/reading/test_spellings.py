"""Accepted spellings: each row of the table rewrites its example, says so, and leads to the same playbook."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.reading.nodes import Mapping, data
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.spellings.casing import snake
from noetl.language.reading.spellings.model import Rewriting, Spelling
from noetl.language.reading.spellings.plain_values import KEYS_OF_TASKS
from noetl.language.reading.spellings.respelling import SPELLINGS, respelled
from noetl.language.reading.spellings.retry_words import COUNTING_KINDS
from noetl.language.reading.yaml import read_yaml
from noetl.net.net import Net
from tests.language.reading.spelled import KINDS, checked_text, document_of, example

ROWS = [row for row in SPELLINGS if row.rewrite is not None]
EXAMPLES = [pytest.param(row, row.dialects[0], id=row.id) for row in SPELLINGS]
CASES = [pytest.param(row, row.dialects[0], id=row.id) for row in ROWS]


def tree(text: str) -> Mapping:
    root = read_yaml(Source("test.yaml", text), Findings())
    assert root is not None
    return root


def rewritten(
    text: str, dialect: Dialect, *, v10_api: bool = False, rescue: bool = False
) -> tuple[Mapping, list[Diagnostic]]:
    findings = Findings()
    rewriting = Rewriting(dialect=dialect, findings=findings, v10_api=v10_api, rescue=rescue)
    return respelled(tree(text), rewriting), list(findings)


def same_net(older: Net | None, canonical: Net | None) -> bool:
    return older is not None and canonical is not None and replace(older, dialect=canonical.dialect) == canonical


def test_row_ids_are_unique() -> None:
    assert len({row.id for row in SPELLINGS}) == len(SPELLINGS)


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize(("row", "dialect"), CASES)
def test_an_older_spelling_becomes_the_canonical_one_with_notes_only(row: Spelling, dialect: Dialect) -> None:
    root, found = rewritten(document_of(example(row).older, dialect), dialect)

    assert data(root) == data(tree(document_of(example(row).canonical, dialect)))
    assert bool(found) == (row.own is not dialect)
    assert {one.code for one in found} <= {"I_ALIAS"}


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize(("row", "dialect"), CASES)
def test_the_canonical_spelling_is_unchanged(row: Spelling, dialect: Dialect) -> None:
    text = tree(document_of(example(row).canonical, dialect))
    findings = Findings()

    assert respelled(text, Rewriting(dialect=dialect, findings=findings)) is text
    assert list(findings) == []


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize(("row", "dialect"), EXAMPLES)
def test_a_document_with_the_older_spelling_checks_without_errors(row: Spelling, dialect: Dialect) -> None:
    older = checked_text(document_of(example(row).older, dialect))
    canonical = checked_text(document_of(example(row).canonical, dialect))

    assert [one for one in older.diagnostics if one.code[0] == "E"] == []
    assert older.dialect == dialect
    assert older.net is not None
    assert same_net(older.net, canonical.net)


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS if row.refused_by_v10])
def test_a_spelling_refused_under_v10_has_a_fix(row: Spelling) -> None:
    text = document_of(example(row).older, Dialect.V10, api="v10")

    assert [one.code for one in checked_text(text).diagnostics if one.code[0] == "E"]
    fixed, _ = rewritten(text, Dialect.V10, v10_api=True, rescue=True)
    assert data(fixed) == data(tree(document_of(example(row).canonical, Dialect.V10, api="v10")))


def test_no_common_task_key_is_an_input_of_a_kind() -> None:
    """An input would be taken for that word, which stands for something else."""
    words = {*KEYS_OF_TASKS, "id", "label", "ignore_errors", "allow_failure"}
    inputs = {(name, word) for name, kind in KINDS.items() for one in kind.inputs for word in (one.name, *one.aliases)}

    assert {(name, word) for name, word in inputs if word in words} == {(name, "retries") for name in COUNTING_KINDS}
    assert [pair for pair in inputs if snake(pair[1]) != pair[1]] == []
