"""Helpers of the v2-case and wait block tests: reading YAML text, and the codes found in it."""

from __future__ import annotations

import textwrap

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Dialect, Playbook, StepSyntax
from noetl.language.reading.shared_checks import ReadContext
from noetl.language.reading.yaml import read_yaml
from noetl.language.v2_case.reader import read_v2_case

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"


def root_of(text: str) -> Mapping:
    findings = Findings()
    root = read_yaml(Source("test.yaml", text), findings)
    assert root is not None, list(findings)
    return root


def read_case_text(text: str) -> tuple[Playbook, list[Diagnostic]]:
    """A whole v2-case document and everything found in it."""
    reading = ReadContext(Dialect.V2_CASE, Findings())
    playbook = read_v2_case(root_of(text), reading)
    assert playbook is not None
    return playbook, list(reading.findings)


def read_step(body: str) -> tuple[StepSyntax, list[Diagnostic]]:
    """One step `start` with the given keys, in a document that is otherwise in order."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    playbook, found = read_case_text(f"{HEAD}workflow:\n  - step: start\n{lines}\n")
    return playbook.steps[0], found


def codes(found: list[Diagnostic]) -> list[str]:
    return [diagnostic.code for diagnostic in found]
