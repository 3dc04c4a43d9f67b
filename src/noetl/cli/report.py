"""Report: what checking found, for people (text) and for machines (json, github, sarif) (VAL-19, docs/style.md §5)."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
import msgspec

from noetl.base.diagnostics import CODES, Diagnostic, Severity, Source, Span
from noetl.cli.terminal import Paint, plain, visible, width
from noetl.language.checking import Checked

FORMATS = ("text", "json", "github", "sarif")

_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def print_diagnostics(checked: Checked) -> None:
    """Print all diagnostics of one text on standard error, for commands that cannot continue."""
    for diagnostic in text_report([checked], paint=click.style):
        click.echo(diagnostic, err=True)


def print_warnings(checked: Checked) -> None:
    """Print the warnings of an accepted text on standard error; only `noetl check` prints notes."""
    if checked.warnings:
        print_diagnostics(msgspec.structs.replace(checked, diagnostics=checked.warnings))


def text_report(checked: Sequence[Checked], *, paint: Paint = plain) -> list[str]:
    """One block per diagnostic, with blank lines between, then the totals."""
    blocks = [block for result in checked for block in _blocks(result, paint)]
    return [*blocks, summary(checked, paint=paint)]


def _blocks(checked: Checked, paint: Paint) -> list[str]:
    lines = _shown_lines(checked)
    return [_block(checked.source, lines, diagnostic, paint) + "\n" for diagnostic in checked.diagnostics]


def _shown_lines(checked: Checked) -> list[str]:
    """The lines of the text, with asterisks in place of secrets: many people read the output of a build."""
    lines = checked.source.text.split("\n")
    for span in (one.span for one in checked.diagnostics if one.code == "W_SECRET"):
        for number in range(span.line, min(span.end_line, len(lines)) + 1):
            text = lines[number - 1]
            start = span.column - 1 if number == span.line else 0
            end = span.end_column - 1 if number == span.end_line else len(text)
            lines[number - 1] = text[:start] + "*" * len(text[start:end]) + text[end:]
    return lines


def _block(source: Source, lines: list[str], diagnostic: Diagnostic, paint: Paint) -> str:
    color = _COLORS[diagnostic.severity]
    place = paint(f"{visible(source.name)}:{diagnostic.span.line}:{diagnostic.span.column}:", bold=True)
    code = paint(f"{diagnostic.severity}[{diagnostic.code}]:", fg=color, bold=True)
    gutter = len(str(diagnostic.span.line))
    block = [f"{place} {code} {paint(visible(diagnostic.message), bold=True)}"]
    block += excerpt(lines, diagnostic.span, gutter=gutter, paint=paint, color=color)
    block += _remark("help", diagnostic.hint, gutter, paint)
    block += _remark("witness", "; ".join(diagnostic.witness), gutter, paint)
    return "\n".join(block)


def _remark(word: str, text: str, gutter: int, paint: Paint) -> list[str]:
    if not text:
        return []
    sign = f"{' ' * gutter} {paint('=', fg='blue', bold=True)} {paint(word + ':', bold=True)} "
    indent = " " * (gutter + len(word) + 5)
    first, *more = [line for part in text.split("\n") for line in _wrapped_lines(visible(part))]
    return [sign + first, *(indent + line for line in more)]


def _wrapped_lines(text: str) -> list[str]:
    """Text in lines of some 100 columns; options and paths stay whole."""
    return textwrap.wrap(text, 100, break_on_hyphens=False, break_long_words=False) or [""]


def summary(checked: Sequence[Checked], *, paint: Paint = plain) -> str:
    """`3 errors, 1 warning in orders.yaml`, or "no problems" with the dialect (DIA-07)."""
    where = _origin_text(checked)
    counts = counted(diagnostic for result in checked for diagnostic in result.diagnostics)
    if not counts:
        return paint("no problems", fg="green", bold=True) + f" in {where}"
    worst = min(
        (diagnostic.severity for result in checked for diagnostic in result.diagnostics), key=list(Severity).index
    )
    refused = any(result.strict and result.refusals for result in checked) and worst is not Severity.ERROR
    return paint(counts, fg=_COLORS[worst], bold=True) + f" in {where}" + (", refused by --strict" if refused else "")


def _origin_text(checked: Sequence[Checked]) -> str:
    if len(checked) == 1:
        return visible(checked[0].source.name) + _verdict(checked[0])
    failing = sum(1 for result in checked if result.diagnostics)
    return f"{failing} of {len(checked)} files" if failing else f"{len(checked)} files"


def _verdict(checked: Checked) -> str:
    """The dialect, and what was proved about a net that has one (beyond.md §2)."""
    if checked.dialect is None:
        return ""
    certificate = checked.certificate if checked.ok else None
    proved = {"sound": ", sound", "unsound": ", not sound", "not decided": ", soundness not decided"}
    return f" ({checked.dialect}{proved[certificate.verdict] if certificate else ''})"


def counted(diagnostics: Iterable[Diagnostic]) -> str:
    """`3 errors, 1 warning`; nothing for none."""
    severities = [diagnostic.severity for diagnostic in diagnostics]
    amounts = [(severities.count(severity), severity) for severity in Severity]
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in amounts if count)


def report(checked: Sequence[Checked], output: str, *, paint: Paint = plain) -> str:
    """The report in one of FORMATS."""
    if output == "text":
        return "\n".join(text_report(checked, paint=paint))
    return {"json": as_json, "github": as_annotations, "sarif": as_sarif}[output](checked)


# Columns of source shown; a longer line is cut around the span.
LONGEST = 120
# Columns kept before the span when the line is cut.
_BEFORE = 40


def excerpt(lines: list[str], span: Span, *, gutter: int, paint: Paint = plain, color: str = "red") -> list[str]:
    """The line of `span`'s start, underlined; nothing when the text has no such line, or it is blank."""
    text = lines[span.line - 1].rstrip("\r") if 0 < span.line <= len(lines) else ""
    if not text.strip():
        return []
    start = min(max(span.column - 1, 0), len(text))
    end = min(span.end_column - 1, len(text)) if span.end_line == span.line else len(text.rstrip())
    # Convert each part separately: a control character becomes several columns, and the marks must align.
    before, marked, after = (visible(part) for part in (text[:start], text[start:end], text[end:]))
    before, marked, after = _fitted_parts(before, marked, after)
    bar = paint("|", fg="blue", bold=True)
    return [
        f"{' ' * gutter} {bar}",
        f"{paint(str(span.line).rjust(gutter), fg='blue', bold=True)} {bar} {before}{marked}{after}".rstrip(),
        f"{' ' * gutter} {bar} {' ' * width(before)}{paint('^' * max(width(marked), 1), fg=color, bold=True)}",
    ]


def _fitted_parts(before: str, marked: str, after: str) -> tuple[str, str, str]:
    """The three parts of a line cut so that the whole is no wider than LONGEST."""
    if width(before) + width(marked) + width(after) <= LONGEST:
        return before, marked, after
    if width(before) > _BEFORE:
        before = "…" + before[-(_BEFORE - 1) :]
    room = LONGEST - width(before)
    if width(marked) > room:
        return before, marked[: room - 1] + "…", ""
    room -= width(marked)
    return before, marked, after if width(after) <= room else after[: max(room - 1, 0)] + "…"


# Machine report: diagnostics as JSON, as annotations of a build, and as SARIF 2.1.0 for code scanning.

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def _each_diagnostic(checked: Sequence[Checked]) -> Iterator[tuple[Source, Diagnostic]]:
    return ((result.source, diagnostic) for result in checked for diagnostic in result.diagnostics)


def as_json(checked: Sequence[Checked]) -> str:
    """A list with one object per diagnostic."""
    return json.dumps(
        [_as_object(source, diagnostic) for source, diagnostic in _each_diagnostic(checked)],
        indent=2,
        ensure_ascii=True,
    )


def as_objects(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """Diagnostics of one text without its file name, which the surrounding answer has."""
    return [_as_object(None, diagnostic) for diagnostic in diagnostics]


def _as_object(source: Source | None, diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "path": diagnostic.path,
        **({"file": source.name} if source is not None else {}),
        "line": diagnostic.span.line,
        "column": diagnostic.span.column,
        "end_line": diagnostic.span.end_line,
        "end_column": diagnostic.span.end_column,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "witness": list(diagnostic.witness),
    }


def as_annotations(checked: Sequence[Checked]) -> str:
    """Workflow commands that a forge shows beside the changed lines."""
    return "\n".join(_annotation(source, diagnostic) for source, diagnostic in _each_diagnostic(checked))


def _annotation(source: Source, diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    properties: dict[str, object] = {"file": source.name, "line": span.line, "col": span.column}
    if span.end_line > span.line:
        properties["endLine"] = span.end_line
    elif span.end_column > span.column:
        properties |= {"endLine": span.end_line, "endColumn": span.end_column}
    properties["title"] = diagnostic.code
    text = ",".join(f"{name}={_escaped_for_command(str(value), ':,')}" for name, value in properties.items())
    message = f"{diagnostic.message}\nhelp: {diagnostic.hint}" if diagnostic.hint else diagnostic.message
    return f"::{_LEVELS[diagnostic.severity]} {text}::{_escaped_for_command(message)}"


def _escaped_for_command(text: str, also: str = "") -> str:
    """Text for a workflow command, with characters that end the line or the property as percent codes."""
    # The percent sign comes first, since the codes of the others begin with it.
    for char in "%\r\n" + also:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def as_sarif(checked: Sequence[Checked]) -> str:
    codes = sorted({diagnostic.code for _, diagnostic in _each_diagnostic(checked)})
    driver = {
        "name": "noetl",
        "rules": [{"id": code, "shortDescription": {"text": CODES[code]}} for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        # Spans count characters. In UTF-16, the other choice of SARIF, an emoji takes two columns.
        "columnKind": "unicodeCodePoints",
        "results": [_result(source, diagnostic, codes) for source, diagnostic in _each_diagnostic(checked)],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=True)


def _result(source: Source, diagnostic: Diagnostic, codes: list[str]) -> dict[str, Any]:
    span = diagnostic.span
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    text = f"{diagnostic.message}\n{diagnostic.hint}" if diagnostic.hint else diagnostic.message
    return {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": str(diagnostic.severity),
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": _uri(source.name)}, "region": region},
                "logicalLocations": [{"fullyQualifiedName": diagnostic.path or "document"}],
            }
        ],
    }


def _uri(name: str) -> str:
    from urllib.parse import quote

    return quote(name.replace("\\", "/"), errors="replace")
