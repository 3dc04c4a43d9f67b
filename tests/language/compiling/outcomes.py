"""Playbooks compiled from text, with all findings of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent

import msgspec

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.compiling.compiler import compile_playbook
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.reader import read_playbook
from noetl.net.debug import DebugMap
from noetl.net.kinds import Kinds
from noetl.net.net import Loop, Net, Transition
from noetl.net.routing import Admission, Router
from noetl.net.task import Policy, Task
from noetl.tools.kinds import KINDS
from tests.narrowing import present


class Outcome(msgspec.Struct):
    """A compiled text with all its findings."""

    net: Net | None
    debug: DebugMap
    found: list[Diagnostic]

    @property
    def codes(self) -> list[str]:
        return [each.code for each in self.found]

    @property
    def loud(self) -> list[str]:
        """Errors and warnings."""
        return [code for code in self.codes if not code.startswith("I_")]

    def only(self, code: str) -> Diagnostic:
        """The one finding of that code."""
        matching = [each for each in self.found if each.code == code]
        assert len(matching) == 1, [f"{each.line}: {each.code} {each.message}" for each in self.found]
        return matching[0]

    def step(self, name: str) -> Transition:
        return next(each for each in present(self.net).transitions if each.name == name)

    def router(self, step: str) -> Router:
        return present(self.step(step).router)

    def loop(self, step: str) -> Loop:
        return present(self.step(step).loop)

    def admission(self, step: str) -> Admission:
        return present(self.step(step).admission)

    def policy(self, step: str, task: str) -> Policy:
        return present(self.task(step, task).policy)

    def task(self, step: str, name: str) -> Task:
        return next(each for each in self.step(step).tasks if each.name == name)


Compile = Callable[..., Outcome]


def compiled_text(text: str, *, kinds: Kinds = KINDS, strict: bool = False, extensions: bool = False) -> Outcome:
    findings = Findings()
    playbook = read_playbook(Source("test.yaml", text), findings, kinds=KINDS, strict=strict)
    assert playbook is not None, list(findings)
    compiled = compile_playbook(playbook, kinds, findings, extensions=extensions)
    # The texts of these tests read undeclared workload; test_undefined_names.py is about that.
    return Outcome(compiled.net, compiled.debug, [each for each in findings if each.code != "W_WORKLOAD_KEY"])


def document(workflow: str, root: str = "", api: str = "noetl.io/v10", dialect: Dialect | None = None) -> str:
    """A whole playbook around a `workflow` list and further root sections."""
    forced = f", dialect: {dialect.value}" if dialect else ""
    return (
        f"apiVersion: {api}\nkind: Playbook\nmetadata: {{ name: t, path: tests/t{forced} }}\n"
        f"{dedent(root).strip()}\nworkflow:\n{indent(dedent(workflow).strip(), '  ')}\n"
    )
