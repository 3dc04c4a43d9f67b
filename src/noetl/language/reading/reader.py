"""Text in, Playbook out, whatever the dialect; every mistake of shape is noted on the way (VAL-19)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from noetl.base.diagnostics import Findings
from noetl.base.source import Source
from noetl.language.reading.dialect import detect
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.playbook import Dialect, Playbook
from noetl.language.reading.shared_checks import ReadContext, opening
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.reading.spellings.respelling import respelled
from noetl.language.reading.spellings.root_words import with_listed_steps
from noetl.language.reading.v2_eval import read_v2_eval
from noetl.language.reading.v10 import read_v10
from noetl.language.reading.yaml import read_yaml
from noetl.language.v2_case import port as v2_case
from noetl.net.kinds import Kinds

_READERS: dict[Dialect, Callable[[Mapping, ReadContext], Playbook | None]] = {
    Dialect.V10: read_v10,
    Dialect.V2_EVAL: read_v2_eval,
    Dialect.V2_CASE: v2_case.read,
}
NO_KINDS: Kinds = {}


def read_playbook(
    source: Source,
    findings: Findings,
    *,
    kinds: Kinds = NO_KINDS,
    dialect: Dialect | None = None,
    strict: bool = False,
) -> Playbook | None:
    """As much of the playbook as can be read; None when the text is no YAML mapping or of no one dialect."""
    root = read_yaml(source, findings)
    if root is None:
        return None
    found = detect(with_listed_steps(root), findings, dialect)
    if found is None:
        return None
    api_version = root.get("apiVersion")
    reading = ReadContext(
        dialect=found.rules,
        findings=findings,
        strict=strict,
        kinds=kinds,
        v10_api=isinstance(api_version, Scalar) and api_version.value == "noetl.io/v10",
    )
    rewriting = Rewriting(dialect=found, findings=findings, v10_api=reading.v10_api)
    playbook = _READERS[reading.dialect](respelled(root, rewriting), reading)
    if playbook is not None:
        playbook = replace(playbook, dialect=found, source=source, strict=strict)
    if found is not Dialect.V10:
        _note_dialect(root, found, reading, source)
    return playbook


def _note_dialect(root: Mapping, dialect: Dialect, reading: ReadContext, source: Source) -> None:
    """Older dialects run with their own rules; the author should know which, and the way to v10 (DIA-06)."""
    place = root.get("apiVersion") or opening(root)
    message = f"this playbook is written in {dialect}, an older dialect, and runs by its rules"
    if dialect is Dialect.V10_IO:
        message = f"this playbook is written in {dialect}, another spelling of v10, and runs by the rules of v10"
    reading.error("I_DIALECT", place, message, f"noetl migrate {source.name} rewrites it as v10")
