"""Reports: the text people read, to the letter, and the formats machines read."""

from __future__ import annotations

import json
import re

import click
import jsonschema
import pytest

from noetl.base.diagnostics import Diagnostic, Source, Span
from noetl.cli.report import as_annotations, as_json, as_sarif, counted, excerpt, report, summary, text_report
from noetl.cli.terminal import color_from, visible, width
from noetl.language.checking import Checked
from noetl.language.reading.playbook import Dialect

TEXT = "workflow:\n" + "\n" * 39 + "      - step: valdate_results\n"
WRONG = Diagnostic(
    "E_NEXT_REF",
    "workflow[1].next.arcs[0].step",
    Span(41, 15, 41, 30, 0, 0),
    'this arc leads to "valdate_results", which is not a step here',
    'did you mean "validate_results" (line 58)?',
)


def checked(*found: Diagnostic, text: str = TEXT, name: str = "orders.yaml") -> Checked:
    return Checked(
        source=Source(name, text),
        dialect=Dialect.V10,
        playbook=None,
        net=None,
        debug={},
        diagnostics=found,
        certificate=None,
    )


@pytest.mark.req("VAL-19", "CLI-03")
def test_a_text_report_has_the_documented_style() -> None:
    shown = "\n".join(text_report([checked(WRONG)]))

    assert shown == (
        'orders.yaml:41:15: error[E_NEXT_REF]: this arc leads to "valdate_results", which is not a step here\n'
        "   |\n"
        "41 |       - step: valdate_results\n"
        "   |               ^^^^^^^^^^^^^^^\n"
        '   = help: did you mean "validate_results" (line 58)?\n'
        "\n"
        "1 error in orders.yaml (v10)"
    )


def test_a_witness_is_one_sentence_of_firings() -> None:
    found = Diagnostic("W_DEADLOCK", "p", Span(1, 1, 1, 9), "tokens wait", witness=("start fires", "a -> merge"))

    assert "  = witness: start fires; a -> merge" in text_report([checked(found)])[0].splitlines()


def test_long_remarks_are_wrapped_with_their_indentation() -> None:
    found = Diagnostic("W_DEADLOCK", "p", Span(1, 1, 1, 9), "tokens wait", witness=("a step fires",) * 30)

    lines = text_report([checked(found)])[0].splitlines()[4:]

    assert len(lines) > 2
    assert all(line.startswith(" " * 13) for line in lines[1:] if line)
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((), "no problems in orders.yaml (v10)"),
        ((WRONG, WRONG), "2 errors in orders.yaml (v10)"),
    ],
)
@pytest.mark.req("DIA-07")
def test_the_last_line_summarises_findings_and_names_the_dialect(found: tuple[Diagnostic, ...], words: str) -> None:
    assert summary([checked(*found)]) == words


def test_several_files_are_summarised_together() -> None:
    note = Diagnostic("I_DIALECT", "", Span(1, 1, 1, 1), "older")

    assert summary([checked(WRONG), checked(note), checked()]) == "1 error, 1 note in 2 of 3 files"
    assert summary([checked(), checked()]) == "no problems in 2 files"
    assert counted([note, note, WRONG]) == "1 error, 2 notes"


@pytest.mark.parametrize(
    ("line", "span", "shown", "marks"),
    [
        ("step: abc", Span(1, 7, 1, 10), "step: abc", "      ^^^"),
        ("step: abc", Span(1, 7, 1, 7), "step: abc", "      ^"),
        ("step: [a,", Span(1, 7, 3, 2), "step: [a,", "      ^^^"),
        ("step: abc  ", Span(1, 7, 2, 1), "step: abc", "      ^^^"),
        ("a: ", Span(1, 40, 1, 41), "a:", "   ^"),
        ("名前: 値", Span(1, 5, 1, 6), "名前: 値", "      ^^"),
        ("🎉 = é: x", Span(1, 8, 1, 9), "🎉 = é: x", "        ^"),
        ("e\u0301: x", Span(1, 5, 1, 6), "e\u0301: x", "   ^"),
        ("\tkey: x", Span(1, 2, 1, 5), "    key: x", "    ^^^"),
        ("a\x1b[31mb: x", Span(1, 7, 1, 8), "a␛[31mb: x", "      ^"),
        ("a: \u202ex", Span(1, 4, 1, 5), "a: \\u202ex", "   ^^^^^^"),
        ("key: x\r", Span(1, 6, 1, 7), "key: x", "     ^"),
    ],
)
def test_carets_mark_the_columns_of_the_finding(line: str, span: Span, shown: str, marks: str) -> None:
    """Wide characters, tabs, accents and control characters take the columns they take on a terminal."""
    lines = excerpt([line], span, gutter=1)

    assert lines == ["  |", f"1 | {shown}", f"  | {marks}"]


def test_a_blank_or_missing_line_has_no_excerpt() -> None:
    assert excerpt(["", "  "], Span(2, 1, 2, 1), gutter=1) == []
    assert excerpt([], Span(7, 1, 7, 1), gutter=1) == []


@pytest.mark.parametrize("column", [1, 300, 590])
def test_a_long_line_is_cut_around_the_place(column: int) -> None:
    line = "".join(chr(97 + n % 26) for n in range(600))

    _, shown, marks = excerpt([line], Span(1, column, 1, column + 5), gutter=1)

    assert len(shown) <= 124
    assert shown[marks.index("^") :][:5] == line[column - 1 : column + 4]


def test_terminal_control_characters_are_made_visible() -> None:
    assert visible("\x1b]0;x\x07 \x9b \u2028 \ud800 \u200d") == "␛]0;x␇ \\x9b \\u2028 \\ud800 \u200d"
    assert width("👩\u200d🚀") == 4

    shown = "\n".join(text_report([checked(WRONG, name="\x1b[2J.yaml")]))
    assert "\x1b" not in shown


def test_colour_changes_nothing_else_in_the_output() -> None:
    painted = "\n".join(text_report([checked(WRONG)], paint=click.style))

    assert "\x1b[31m" in painted
    assert click.unstyle(painted) == "\n".join(text_report([checked(WRONG)]))


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, None),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, None),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, None),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_the_environment_chooses_colour(environment: dict[str, str], wanted: bool | None) -> None:
    assert color_from(environment) is wanted


@pytest.mark.req("VAL-19")
def test_json_has_every_field_of_a_diagnostic() -> None:
    assert json.loads(as_json([checked(WRONG)])) == [
        {
            "code": "E_NEXT_REF",
            "severity": "error",
            "path": "workflow[1].next.arcs[0].step",
            "file": "orders.yaml",
            "line": 41,
            "column": 15,
            "end_line": 41,
            "end_column": 30,
            "message": WRONG.message,
            "hint": WRONG.hint,
            "witness": [],
        }
    ]
    assert json.loads(as_json([checked()])) == []


def test_annotations_are_escaped_for_ci_services() -> None:
    found = Diagnostic("W_UNKNOWN_KEY", "p", Span(3, 2, 4, 1), "50% of\nit: a, b", "two\r\nlines")

    assert as_annotations([checked(found, name="a,b:c.yaml")]) == (
        "::warning file=a%2Cb%3Ac.yaml,line=3,col=2,endLine=4,title=W_UNKNOWN_KEY::"
        "50%25 of%0Ait: a, b%0Ahelp: two%0D%0Alines"
    )
    assert re.match(
        r"::error file=orders\.yaml,line=41,col=15,endLine=41,endColumn=30,", as_annotations([checked(WRONG)])
    )
    assert as_annotations([checked(Diagnostic("I_ALIAS", "", Span(1, 1, 1, 1), "m"))]).startswith("::notice ")


SARIF = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {"items": {"required": ["id", "shortDescription"]}, "uniqueItems": True}
                                },
                            }
                        }
                    },
                    "results": {
                        "items": {
                            "required": ["ruleId", "ruleIndex", "level", "message", "locations"],
                            "properties": {
                                "level": {"enum": ["error", "warning", "note", "none"]},
                                "message": {"required": ["text"]},
                            },
                        }
                    },
                },
            },
        },
    },
}


def test_sarif_contains_rules_results_and_places() -> None:
    log = json.loads(as_sarif([checked(WRONG, name="a b/ü.yaml"), checked(WRONG)]))
    jsonschema.validate(log, SARIF)
    run = log["runs"][0]
    place = run["results"][0]["locations"][0]["physicalLocation"]

    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E_NEXT_REF"]
    assert place["artifactLocation"]["uri"] == "a%20b/%C3%BC.yaml"
    assert place["region"] == {"startLine": 41, "startColumn": 15, "endLine": 41, "endColumn": 30}


@pytest.mark.parametrize("output", ["text", "json", "github", "sarif"])
def test_every_format_is_reproducible(output: str) -> None:
    assert report([checked(WRONG)], output) == report([checked(WRONG)], output)
