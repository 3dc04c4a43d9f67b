"""What the tests of v2-case and of wait blocks share: reading YAML text, and the codes found in it."""

from __future__ import annotations

import textwrap

from noetl.diagnostics import Diagnostic, Findings
from noetl.document.nodes import Mapping
from noetl.document.playbook import Dialect, Playbook, Step
from noetl.document.shapes import Reading
from noetl.document.v2_case.reader import read_v2_case
from noetl.document.yaml import read_yaml
from noetl.source import Source

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"


def root_of(text: str) -> Mapping:
    findings = Findings()
    root = read_yaml(Source("test.yaml", text), findings)
    assert root is not None, list(findings)
    return root


def read_case_text(text: str) -> tuple[Playbook, list[Diagnostic]]:
    """A whole v2-case document and everything found in it."""
    reading = Reading(Dialect.V2_CASE, Findings())
    playbook = read_v2_case(root_of(text), reading)
    assert playbook is not None
    return playbook, list(reading.findings)


def read_step(body: str) -> tuple[Step, list[Diagnostic]]:
    """One step `start` with the given keys, in a document that is otherwise in order."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    playbook, found = read_case_text(f"{HEAD}workflow:\n  - step: start\n{lines}\n")
    return playbook.steps[0], found


def codes(found: list[Diagnostic]) -> list[str]:
    return [diagnostic.code for diagnostic in found]
