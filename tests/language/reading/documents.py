"""Helpers of the v10 and v2-eval reader tests: documents around a fragment, and their findings."""

from __future__ import annotations

import textwrap

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.reading.playbook import Dialect, Playbook, StepSyntax
from noetl.language.reading.reader import read_v2_eval, read_v10
from noetl.language.reading.shared_checks import ReadContext
from noetl.language.reading.yaml import read_yaml
from noetl.tools.kinds import KINDS

READERS = {Dialect.V10: read_v10, Dialect.V2_EVAL: read_v2_eval}


def read_text(text: str, dialect: Dialect = Dialect.V10, *, strict: bool = False) -> tuple[Playbook, list[Diagnostic]]:
    """A whole document by the reader of `dialect`, and everything found in it."""
    findings = Findings()
    root = read_yaml(Source("test.yaml", text), findings)
    assert root is not None, list(findings)
    reading = ReadContext(dialect, findings, strict=strict, v10_api="noetl.io/v10" in text, kinds=KINDS)
    return READERS[dialect](root, reading), list(findings)


def read_root_text(body: str, dialect: Dialect = Dialect.V10, api: str = "v10") -> tuple[Playbook, list[Diagnostic]]:
    """A document with these root sections beside the required ones."""
    written = textwrap.dedent(body).strip("\n")
    rest = {
        "kind:": "kind: Playbook",
        "metadata:": "metadata: {name: t, path: tests/t}",
        "workflow:": "workflow: [{step: start}]",
    }
    lines = [line for key, line in rest.items() if not any(own.startswith(key) for own in written.split("\n"))]
    return read_text("\n".join([f"apiVersion: noetl.io/{api}", *lines, written, ""]), dialect)


def read_step(
    body: str, dialect: Dialect = Dialect.V10, api: str = "v10", *, strict: bool = False
) -> tuple[StepSyntax, list[Diagnostic]]:
    """One step `start` with the given keys, in a document that is otherwise in order."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    head = f"apiVersion: noetl.io/{api}\nkind: Playbook\nmetadata: {{name: t, path: tests/t}}\n"
    playbook, found = read_text(f"{head}workflow:\n  - step: start\n{lines}\n", dialect, strict=strict)
    return playbook.steps[0], found


def read_rules(rules: str, dialect: Dialect = Dialect.V10) -> tuple[StepSyntax, list[Diagnostic]]:
    """One noop task whose policy (v10) or eval (v2-eval) is this flow-style list."""
    if dialect is Dialect.V2_EVAL:
        return read_step(f"tool: [{{t: {{kind: noop, eval: {rules}}}}}]", dialect, "v2")
    return read_step(f"tool: {{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}", dialect)


def codes(found: list[Diagnostic]) -> list[str]:
    return [diagnostic.code for diagnostic in found]


def places(found: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(diagnostic.code, diagnostic.path) for diagnostic in found]


def only(found: list[Diagnostic]) -> Diagnostic:
    """The one finding; more or fewer fail the test and are shown."""
    assert len(found) == 1, found
    return found[0]
