"""Machine report: diagnostics as JSON, as annotations of a build, and as SARIF 2.1.0 for code scanning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from noetl.base.diagnostics import CODES, Diagnostic, Severity
from noetl.base.source import Source
from noetl.language.checking import Checked

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
