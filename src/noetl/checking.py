"""Checking: text in, everything known about it out. What `check`, `register` and `run` all do first (VAL-19)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from noetl.compiler.compiling import compile_playbook
from noetl.diagnostics import Diagnostic, Findings, Severity
from noetl.document.playbook import Dialect, Playbook
from noetl.document.reading import read_playbook
from noetl.errors import PlaybookError
from noetl.net.debug import DebugMap
from noetl.net.kinds import Kinds
from noetl.net.net import Net
from noetl.source import Source

if TYPE_CHECKING:  # imported with the first proof: a run that asks for none should not wait for it
    from noetl.analysis.certificate import Certificate


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking one text. `net` is None when there are errors."""

    source: Source
    dialect: Dialect | None
    playbook: Playbook | None
    net: Net | None
    debug: DebugMap
    diagnostics: tuple[Diagnostic, ...]
    certificate: Certificate | None

    @property
    def ok(self) -> bool:
        return not any(found.severity is Severity.ERROR for found in self.diagnostics)


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
    playbook = read_playbook(source, findings, dialect=dialect, strict=strict)
    net, debug, certificate = None, {}, None
    if playbook is not None:
        compiled = compile_playbook(playbook, kinds, findings, extensions=extensions)
        net, debug = compiled.net, compiled.debug
    # A broken playbook gets no proofs: what they would say mostly follows from the mistakes already shown.
    if net is not None and proofs and not findings.has_errors:
        from noetl.analysis.certificate import analyse

        certificate = analyse(net, debug)
        findings.extend(certificate.findings)
    return Checked(
        source=source,
        dialect=playbook.dialect if playbook else None,
        playbook=playbook,
        net=None if findings.has_errors else net,
        debug=debug,
        diagnostics=tuple(findings),
        certificate=certificate,
    )


def compiled(playbook: str | Path) -> Net:
    """The net of a playbook without errors, given as a path or as its text. PlaybookError tells them all."""
    from noetl.tools.kinds import load_kinds  # asks every plug-in

    is_text = isinstance(playbook, str) and "\n" in playbook
    source = Source("<text>", str(playbook)) if is_text else Source(str(playbook), Path(playbook).read_text("utf-8"))
    checked = check(source, kinds=load_kinds(), proofs=False)
    if checked.net is None:
        errors = [f"{source.name}:{d.line}: {d.code}: {d.message}" for d in checked.diagnostics if d.code[0] == "E"]
        raise PlaybookError("this playbook has errors:\n" + "\n".join(errors))
    return checked.net
