"""Report: what checking found, for people (text) and for machines (json, github, sarif) (VAL-19, docs/style.md §5)."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click
import msgspec

from noetl.base.diagnostics import CODES, Diagnostic, Severity
from noetl.base.source import Source, Span
from noetl.cli.terminal import Paint, plain, visible, width
from noetl.language.checking import Checked

FORMATS = ("text", "json", "github", "sarif")

_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def print_diagnostics(checked: Checked, *, err: bool = True) -> None:
    """Everything found in one text, coloured on a terminal; for commands that cannot go on."""
    for diagnostic in text_report([checked], paint=click.style):
        click.echo(diagnostic, err=err)


def print_warnings(checked: Checked) -> None:
    """The warnings of a text that is accepted all the same, on standard error; notes are left to `noetl check`."""
    warned = msgspec.structs.replace(checked, diagnostics=checked.warnings)
    for block in text_report([warned], paint=click.style) if warned.diagnostics else ():
        click.echo(block, err=True)


def text_report(checked: Sequence[Checked], *, paint: Paint = plain) -> list[str]:
    """One block per diagnostic, a blank line between, then the sum of it all."""
    blocks = [block for one in checked for block in _blocks(one, paint)]
    return [*blocks, summary(checked, paint=paint)]


def _blocks(checked: Checked, paint: Paint) -> list[str]:
    lines = checked.source.text.split("\n")
    return [_block(checked.source, lines, found, paint) + "\n" for found in checked.diagnostics]


def _block(source: Source, lines: list[str], found: Diagnostic, paint: Paint) -> str:
    color = _COLORS[found.severity]
    place = paint(f"{visible(source.name)}:{found.span.line}:{found.span.column}:", bold=True)
    code = paint(f"{found.severity}[{found.code}]:", fg=color, bold=True)
    gutter = len(str(found.span.line))
    shown = [f"{place} {code} {paint(visible(found.message), bold=True)}"]
    shown += excerpt(lines, found.span, gutter=gutter, paint=paint, color=color)
    shown += _remark("help", found.hint, gutter, paint)
    shown += _remark("witness", "; ".join(found.witness), gutter, paint)
    return "\n".join(shown)


def _remark(word: str, text: str, gutter: int, paint: Paint) -> list[str]:
    if not text:
        return []
    sign = f"{' ' * gutter} {paint('=', fg='blue', bold=True)} {paint(word + ':', bold=True)} "
    indent = " " * (gutter + len(word) + 5)
    first, *more = [line for part in text.split("\n") for line in _wrapped(visible(part))]
    return [sign + first, *(indent + line for line in more)]


def _wrapped(text: str) -> list[str]:
    """Text in lines of some 100 columns; options and paths stay whole."""
    return textwrap.wrap(text, 100, break_on_hyphens=False, break_long_words=False) or [""]


def summary(checked: Sequence[Checked], *, paint: Paint = plain) -> str:
    """`3 errors, 1 warning in orders.yaml`, or that all is well and in which dialect (DIA-07)."""
    where = _where(checked)
    counts = counted(found for one in checked for found in one.diagnostics)
    if not counts:
        return paint("no problems", fg="green", bold=True) + f" in {where}"
    worst = min((found.severity for one in checked for found in one.diagnostics), key=list(Severity).index)
    refused = any(one.strict and one.refusals for one in checked) and worst is not Severity.ERROR
    return paint(counts, fg=_COLORS[worst], bold=True) + f" in {where}" + (", refused by --strict" if refused else "")


def _where(checked: Sequence[Checked]) -> str:
    if len(checked) == 1:
        return visible(checked[0].source.name) + _verdict(checked[0])
    failing = sum(1 for one in checked if one.diagnostics)
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
    found = [diagnostic.severity for diagnostic in diagnostics]
    amounts = [(found.count(severity), severity) for severity in Severity]
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in amounts if count)


def report(checked: Sequence[Checked], output: str, *, paint: Paint = plain) -> str:
    """The report in one of FORMATS."""
    if output == "text":
        return "\n".join(text_report(checked, paint=paint))
    return _machine_format(output)(checked)


def _machine_format(output: str) -> Callable[[Sequence[Checked]], str]:

    formats = {
        "json": as_json,
        "github": as_annotations,
        "sarif": as_sarif,
    }
    return formats[output]


LONGEST = 120  # columns of source shown; a longer line is cut around the span
_BEFORE = 40  # columns kept before the span when the line is cut


def excerpt(lines: list[str], span: Span, *, gutter: int, paint: Paint = plain, color: str = "red") -> list[str]:
    """The line of `span`'s start, underlined; nothing when the text has no such line, or it is blank."""
    text = lines[span.line - 1].rstrip("\r") if 0 < span.line <= len(lines) else ""
    if not text.strip():
        return []
    start = min(max(span.column - 1, 0), len(text))
    end = min(span.end_column - 1, len(text)) if span.end_line == span.line else len(text.rstrip())
    before, marked, after = (visible(part) for part in (text[:start], text[start:end], text[end:]))
    before, marked, after = _fitted(before, marked, after)
    bar = paint("|", fg="blue", bold=True)
    return [
        f"{' ' * gutter} {bar}",
        f"{paint(str(span.line).rjust(gutter), fg='blue', bold=True)} {bar} {before}{marked}{after}".rstrip(),
        f"{' ' * gutter} {bar} {' ' * width(before)}{paint('^' * max(width(marked), 1), fg=color, bold=True)}",
    ]


def _fitted(before: str, marked: str, after: str) -> tuple[str, str, str]:
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


def _each(checked: Sequence[Checked]) -> Iterator[tuple[Source, Diagnostic]]:
    return ((one.source, found) for one in checked for found in one.diagnostics)


def as_json(checked: Sequence[Checked]) -> str:
    """A list with one object per diagnostic."""
    return json.dumps([_as_object(source, found) for source, found in _each(checked)], indent=2, ensure_ascii=True)


def as_objects(found: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """Diagnostics of one text that is known from elsewhere: of the answer they are part of."""
    return [_as_object(None, one) for one in found]


def _as_object(source: Source | None, found: Diagnostic) -> dict[str, Any]:
    return {
        "code": found.code,
        "severity": found.severity,
        "path": found.path,
        **({"file": source.name} if source is not None else {}),
        "line": found.span.line,
        "column": found.span.column,
        "end_line": found.span.end_line,
        "end_column": found.span.end_column,
        "message": found.message,
        "hint": found.hint,
        "witness": list(found.witness),
    }


def as_annotations(checked: Sequence[Checked]) -> str:
    """Workflow commands that a forge shows beside the changed lines."""
    return "\n".join(_annotation(source, found) for source, found in _each(checked))


def _annotation(source: Source, found: Diagnostic) -> str:
    span = found.span
    properties: dict[str, object] = {"file": source.name, "line": span.line, "col": span.column}
    if span.end_line > span.line:
        properties["endLine"] = span.end_line
    elif span.end_column > span.column:
        properties |= {"endLine": span.end_line, "endColumn": span.end_column}
    properties["title"] = found.code
    text = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in properties.items())
    message = f"{found.message}\nhelp: {found.hint}" if found.hint else found.message
    return f"::{_LEVELS[found.severity]} {text}::{_escaped(message)}"


def _escaped(text: str, also: str = "") -> str:
    """Text for a workflow command: what would end the line or the property is written as a percent code."""
    for char in "%\r\n" + also:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def as_sarif(checked: Sequence[Checked]) -> str:
    codes = sorted({found.code for _, found in _each(checked)})
    driver = {
        "name": "noetl",
        "rules": [{"id": code, "shortDescription": {"text": CODES[code]}} for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(source, found, codes) for source, found in _each(checked)],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=True)


def _result(source: Source, found: Diagnostic, codes: list[str]) -> dict[str, Any]:
    span = found.span
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    text = f"{found.message}\n{found.hint}" if found.hint else found.message
    return {
        "ruleId": found.code,
        "ruleIndex": codes.index(found.code),
        "level": str(found.severity),
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": _uri(source.name)}, "region": region},
                "logicalLocations": [{"fullyQualifiedName": found.path or "document"}],
            }
        ],
    }


def _uri(name: str) -> str:
    from urllib.parse import quote

    return quote(name.replace("\\", "/"), errors="replace")
