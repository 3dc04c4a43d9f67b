"""Checking: text in, everything known about it out. The first step of `check`, `register` and `run` (VAL-19)."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from noetl.base.diagnostics import Diagnostic, Findings, Severity, Source, in_order
from noetl.base.errors import PlaybookError
from noetl.language.compiling.compiler import compile_playbook
from noetl.language.reading.playbook import Dialect, Playbook
from noetl.language.reading.reader import read_playbook
from noetl.net.debug import DebugMap
from noetl.net.kinds import Kinds
from noetl.net.net import Net

# The prover is imported with the first proof: a run without proofs does not pay for its import.
if TYPE_CHECKING:
    from noetl.language.proving.certificate import Certificate


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking one text."""

    source: Source
    # None if the text is not a YAML mapping, or mixes dialects.
    dialect: Dialect | None
    playbook: Playbook | None
    # None if the text is refused: for its errors, or with `strict` for its warnings.
    net: Net | None
    # Maps addresses of the net to places in the text.
    debug: DebugMap
    diagnostics: tuple[Diagnostic, ...]  # in the order of the text
    # None if no proof was requested, or the text has errors.
    certificate: Certificate | None
    strict: bool = False

    @property
    def ok(self) -> bool:
        return not self.refusals

    @property
    def refusals(self) -> tuple[Diagnostic, ...]:
        """Why this text is refused: its errors and, with `strict`, its warnings."""
        refusing = (Severity.ERROR, Severity.WARNING) if self.strict else (Severity.ERROR,)
        return tuple(found for found in self.diagnostics if found.severity in refusing)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(found for found in self.diagnostics if found.severity is Severity.WARNING)


def check(
    source: Source,
    *,
    kinds: Kinds,
    dialect: Dialect | None = None,
    strict: bool = False,
    extensions: bool = False,
    proofs: bool = True,
) -> Checked:
    """Read, compile and analyse `source`. Never raises for anything that is written in it."""
    findings = Findings()
    playbook = read_playbook(source, findings, kinds=kinds, dialect=dialect, strict=strict)
    net, debug, certificate = None, {}, None
    if playbook is not None:
        compiled = compile_playbook(playbook, kinds, findings, extensions=extensions)
        net, debug = compiled.net, compiled.debug
    # A broken playbook gets no proofs: their findings mostly follow from the mistakes already shown.
    if net is not None and proofs and not findings.has_errors:
        from noetl.language.proving.certificate import analyse

        certificate = analyse(net, debug)
        findings.extend(certificate.findings)
    checked = Checked(
        source=source,
        dialect=playbook.dialect if playbook else None,
        playbook=playbook,
        net=net,
        debug=debug,
        diagnostics=tuple(findings),
        certificate=certificate,
        strict=strict,
    )
    return checked if checked.ok else msgspec.structs.replace(checked, net=None)


def proved(checked: Checked) -> Checked:
    """The same with proofs, where there is something to prove: a chain of steps has neither tokens that can wait for
    each other nor a choice, and a run of one should not wait for the analyser."""
    net = checked.net
    if net is None or (_is_chain(net) and "ctx" not in checked.source.text):
        return checked
    from noetl.language.proving.certificate import analyse

    certificate = analyse(net, checked.debug)
    found = tuple(in_order((*checked.diagnostics, *certificate.findings)))
    more = msgspec.structs.replace(checked, diagnostics=found, certificate=certificate)
    return more if more.ok else msgspec.structs.replace(more, net=None)


def _is_chain(net: Net) -> bool:
    """Whether every step leads to the one after it without a condition, and the last one nowhere."""
    for step, after in zip_longest(net.transitions, net.transitions[1:]):
        arcs = step.router.arcs if step.router is not None else ()
        # A step after one that leads nowhere never runs; the analyser reports that.
        if after is not None and not arcs:
            return False
        if step.case or step.waits or step.loop or step.join or step.admission or step.timeout or len(arcs) > 1:
            return False
        if any(arc.when is not None or after is None or arc.target != after.name for arc in arcs):
            return False
    return True


def compiled(playbook: str | Path) -> Net:
    """The net of a playbook without errors, given as a path or as its text. PlaybookError tells them all."""
    net = checked_playbook(playbook).net
    assert net is not None
    return net


def checked_playbook(playbook: str | Path) -> Checked:
    """A playbook without errors with all that is known of it. PlaybookError tells its errors."""
    from noetl.tools.kinds import load_kinds  # asks every plug-in

    is_text = isinstance(playbook, str) and "\n" in playbook
    source = Source("<text>", str(playbook)) if is_text else Source(str(playbook), Path(playbook).read_text("utf-8"))
    checked = check(source, kinds=load_kinds(), proofs=False)
    if checked.net is None:
        errors = [f"{source.name}:{d.line}: {d.code}: {d.message}" for d in checked.diagnostics if d.code[0] == "E"]
        raise PlaybookError("this playbook has errors:\n" + "\n".join(errors))
    return checked
