"""Reading a text from end to end: YAML, dialect, reader, and the note on older dialects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.reading.playbook import Dialect, Playbook
from noetl.language.reading.reader import read_playbook
from tests.language.reading.documents import codes

TESTS = Path(__file__).parents[2]
# Golden inputs of a code that the compiler shares: only these are the readers' own.
SHARED = (
    "E_DURATION-arc-delay",
    "E_JUMP_TARGET-missing",
    "E_KEYCHAIN-no-kind",
    "E_TASK_DUP-workbook",
    "E_TASK_KEY-typo-of-kind",
    "E_TOOL_KIND-missing",
)
OWN_CODES = [
    "E_BACKOFF",
    "E_CASE",
    "E_DO",
    "E_ELSE_ORDER",
    "E_EVAL",
    "E_EXECUTOR",
    "E_EXPR",
    "E_KIND",
    "E_LOOP_MODE",
    "E_LOOP_SHAPE",
    "E_METADATA",
    "E_NEXT_SHAPE",
    "E_PIPE",
    "E_POLICY_SCOPE",
    "E_POLICY_SHAPE",
    "E_RESERVED_OPTION",
    "E_RETRY_ARGS",
    "E_RETRY_BLOCK",
    "E_ROOT_KEY",
    "E_ROOT_NAME",
    "E_ROOT_VARS",
    "E_RULE_SHAPE",
    "E_SET_SCOPE",
    "E_STEP_KEY",
    "E_STEP_NAME",
    "E_STEP_WHEN",
    "E_TARGET_TEMPLATE",
    "E_TASK_LABEL",
    "E_TASK_WHEN",
    "E_VARS_BLOCK",
    "E_WORKFLOW",
]


ERROR_INPUTS = [
    path
    for path in sorted((TESTS / "golden" / "check" / "err").glob("*.yaml"))
    if path.stem.split("-")[0] in OWN_CODES or path.stem in SHARED
]


def read(text: str, **options: Any) -> tuple[Playbook | None, list[Diagnostic]]:
    findings = Findings()
    playbook = read_playbook(Source("orders.yaml", text), findings, **options)
    return playbook, list(findings)


def fixture(name: str) -> str:
    return (TESTS / "fixtures" / f"{name}.yaml").read_text()


@pytest.mark.req("DIA-06", "DIA-01")
@pytest.mark.parametrize(("name", "dialect"), [("F-000-E", Dialect.V2_EVAL), ("F-001-E", Dialect.V2_CASE)])
def test_an_older_dialect_gets_one_note_with_its_name_and_the_migration(name: str, dialect: Dialect) -> None:
    playbook, found = read(fixture(name))

    assert playbook
    assert playbook.dialect is dialect
    assert codes(found) == ["I_DIALECT"]
    assert dialect in found[0].message
    assert "noetl migrate orders.yaml" in found[0].hint


@pytest.mark.req("DIA-06", "DIA-01")
def test_a_v10_document_gets_no_note() -> None:
    playbook, found = read(fixture("F-004-H"))

    assert playbook
    assert (playbook.dialect, found) == (Dialect.V10, [])


@pytest.mark.req("VAL-19")
@pytest.mark.parametrize("text", ["- a", "", "a: [", "just text"])
def test_text_that_is_not_a_mapping_is_refused(text: str) -> None:
    playbook, found = read(text)

    assert playbook is None
    assert codes(found) == ["E_YAML"]


@pytest.mark.req("VAL-19")
def test_a_playbook_with_mistakes_is_read_as_far_as_possible() -> None:
    playbook, found = read(
        "apiVersion: noetl.io/v10\nkind: Playbook\nworkflow: [{step: start, next: [end, end]}, {step: end}, 7]\n"
    )

    assert playbook
    assert [step.name for step in playbook.steps] == ["start", "end"]
    assert sorted(codes(found)) == ["E_METADATA", "E_NEXT_SHAPE", "E_WORKFLOW"]


@pytest.mark.req("DOC-10")
def test_strict_turns_unknown_keys_into_reader_errors() -> None:
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\nworkflow: [{step: start, owner: x}]\n"
    )

    assert codes(read(text)[1]) == ["W_UNKNOWN_KEY"]
    assert codes(read(text, strict=True)[1]) == ["E_STEP_KEY"]


@pytest.mark.req("DIA-05")
def test_a_document_declared_as_v10_is_never_read_as_an_older_dialect() -> None:
    text = fixture("F-000-E").replace("noetl.io/v2", "noetl.io/v10")

    playbook, found = read(text)

    assert playbook
    assert playbook.dialect is Dialect.V10
    assert {"E_EVAL", "E_STEP_WHEN", "E_TASK_LABEL", "E_NEXT_SHAPE"} <= set(codes(found))


@pytest.mark.req("V2E-10")
def test_a_declared_dialect_overrides_the_markers() -> None:
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\nworkflow: [{step: start, case: []}]\n"
    )

    assert "E_CASE" in codes(read(text, dialect=Dialect.V2_EVAL)[1])


@pytest.mark.req("VAL-19", "MIG-04")
@pytest.mark.parametrize("path", ERROR_INPUTS, ids=lambda path: path.stem)
def test_an_invalid_input_gives_only_its_own_code(path: Path) -> None:
    """Each golden input holds one mistake: a reader that reports another one on top misleads its author."""
    code = path.stem.split("-")[0]
    _, found = read(path.read_text())

    assert {diagnostic.code for diagnostic in found} <= {code, "I_DIALECT"}
    assert code in codes(found)
    assert all(diagnostic.hint for diagnostic in found)


@pytest.mark.req("VAL-19")
@pytest.mark.parametrize("code", OWN_CODES)
def test_every_reader_code_has_a_golden_input(code: str) -> None:
    assert any(path.stem.split("-")[0] == code for path in ERROR_INPUTS)
