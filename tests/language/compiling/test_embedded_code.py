"""Python code is read when a playbook is checked: what does not parse is told where it stands (TOOL-07, VAL-19)."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import CODES
from noetl.language.compiling.embedded_code import MAX_PYTHON_CHARACTERS
from tests.language.compiling.outcomes import Compile, compiled_text

HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: x, path: x }\nworkflow:\n  - step: start\n"


def found_in(tool: str) -> list[tuple[int, int, str]]:
    found = compiled_text(HEAD + tool).found
    assert "W_PYTHON" in CODES
    return [(each.span.line, each.span.column, each.message) for each in found if each.code == "W_PYTHON"]


@pytest.mark.req("TOOL-07", "VAL-19")
def test_a_syntax_error_is_reported_at_its_place_in_the_code() -> None:
    tool = "    tool:\n      kind: python\n      code: |\n        a = 1\n\n        if a\n            a = 2\n"

    assert found_in(tool) == [(11, 13, "this Python code does not parse: expected ':'")]


@pytest.mark.parametrize("style", ["|-", "|+", "|2"])
def test_places_are_right_in_every_kind_of_literal_block(style: str) -> None:
    tool = f"    tool:\n      kind: python\n      code: {style}\n        a = 1\n        b = )\n"

    assert [place[:2] for place in found_in(tool)] == [(10, 13)]


@pytest.mark.parametrize(
    "code", ['"a = )"', "a = )", ">\n        a = 1\n\n        b = )\n"], ids=["quoted", "plain", "folded"]
)
def test_code_in_other_scalars_is_underlined_as_a_whole(code: str) -> None:
    [(line, column, _)] = found_in(f"    tool:\n      kind: python\n      code: {code}\n")

    assert (line, column) == (8, 13)


@pytest.mark.parametrize(
    "code",
    [
        "return 1",
        "async def main():\n  return await other()",
        "match x:\n  case 1: result = 2",
        "...",
        "pattern = '\\d'  # another Python warns of it",
        "-" * 50_000 + "1",  # more than the parser takes: it cannot say
        "a" + "+1" * 20_000,
        "",
    ],
)
def test_valid_or_undecidable_code_gets_no_finding(code: str) -> None:
    lines = "".join(f"        {line}\n" for line in code.split("\n"))

    assert found_in(f"    tool:\n      kind: python\n      code: |\n{lines}") == []


def test_a_template_in_code_gets_the_hint_to_use_args() -> None:
    tool = "    tool:\n      kind: python\n      code: |\n        {% if x %}\n        result = 1\n"
    [found] = [each for each in compiled_text(HEAD + tool).found if each.code == "W_PYTHON"]

    assert "as args" in found.hint


def test_a_syntax_error_in_the_workbook_is_reported_once() -> None:
    book = "workbook: { bad: { kind: python, code: 'a = )' } }\n"
    used = "    tool:\n" + "".join(
        f"      - {{ name: {name}, kind: workbook, task: bad }}\n" for name in ("one", "two")
    )

    assert len([each for each in compiled_text(book + HEAD + used).found if each.code == "W_PYTHON"]) == 1


def test_very_long_code_is_not_parsed() -> None:
    long = "a = 1; " * (MAX_PYTHON_CHARACTERS // 7 + 1)

    assert found_in(f"    tool:\n      kind: python\n      code: '{long} )'\n") == []


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('x = "{{ workload.region }}"', 1),
        ('x = "{{ start.data }} and {{ region }}"', 2),
        ("x = {{ workload.region }}", 1),  # a set in a set: it parses, and fails
        ('x = f"{{ {1 + 1} }}"', 0),
        ('x = f"{{ workload }}"', 0),
        ("x = Template('{{ name }}')", 0),  # a template of somebody else
        ("x = 1  # {{ workload.region }}", 0),
        ("x = {'a': {'b': 1}}", 0),
    ],
)
def test_a_template_in_python_code_gets_a_hint_to_keep_or_move_it(compiled: Compile, code: str, found: int) -> None:
    text = f"- step: start\n  tool:\n    kind: python\n    code: |\n      {code}\n"

    hints = [each.hint for each in compiled(text, root="workload: { region: eu }").found if each.code == "W_PYTHON"]

    assert len(hints) == found
    assert all(hint.startswith("write args:") for hint in hints)


@pytest.mark.req("VAL-19", "TOOL-01")
@pytest.mark.parametrize("code", ["{a: 1}", "[a]", "{a: {b: [1]}}"])
def test_code_that_is_no_text_is_refused_like_any_input(code: str) -> None:
    found = compiled_text(f"{HEAD}    tool: {{kind: python, code: {code}}}\n").found

    assert [one.code for one in found if one.code[0] == "E"] == ["E_INPUT_SHAPE"]
