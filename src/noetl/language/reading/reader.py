"""Text in, Playbook out, in any dialect; every structural mistake is noted (VAL-19).

The dialect is found in this order (DIA-01…05): named by the author, `noetl.io/v10`, strong markers, weak markers, v10.
A v10 document is never taken for an older one. A document with marks of two dialects is of the one that reads all of
them (the table of spellings says which), and is refused rather than guessed at when none does.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from noetl.base.diagnostics import DiagnosticPosition, Findings, Source, guesses_of_one_text
from noetl.language.grammar.root import API_V2, API_V10
from noetl.language.grammar.steps import STEP
from noetl.language.reading.constructs import DocumentParts, document_parts
from noetl.language.reading.markers import GUARDED_ENTRY, STRONG, Marker, weak_dialect
from noetl.language.reading.nodes import Mapping, Scalar, describe, inner
from noetl.language.reading.old_keys import REFUSED_IN_STEPS, V10_STEP_OPTIONS, refuse
from noetl.language.reading.playbook import Dialect, Playbook, StepSyntax
from noetl.language.reading.policy_keys import check_parts, read_scope_policy, refuse_misplaced
from noetl.language.reading.root import read_root
from noetl.language.reading.routers import admit_when, read_admit, read_condition, read_next_list, read_router
from noetl.language.reading.shared_checks import ReadContext, check_keys, did_you_mean, opening
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.reading.spellings.respelling import respelled
from noetl.language.reading.spellings.roots import with_listed_steps
from noetl.language.reading.steps import ELSEWHERE, read_common
from noetl.language.reading.tasks import read_task, read_tool
from noetl.language.reading.waits import BLOCKS, read_wait_blocks
from noetl.language.reading.yaml import read_yaml
from noetl.language.v2_case import port as v2_case
from noetl.net.kinds import Kinds


class Found(msgspec.Struct, frozen=True):
    """A marker and its first place."""

    marker: Marker
    at: Scalar


def detect(root: Mapping, findings: Findings, override: Dialect | None = None) -> Dialect | None:
    """The dialect of a document; None when it is of two. A bad apiVersion is noted, and the shape decides."""
    api_version = _api_version(root, findings)
    named = override or _declared_dialect(root, findings)
    if api_version == API_V10:
        if named is not None and named.rules is not Dialect.V10:
            _conflict(root, findings, str(named), by_option=override is not None)
        return named if named is not None and named.rules is Dialect.V10 else _spelling_of_v10(root)
    return named or _by_shape(root, findings)


def _api_version(root: Mapping, findings: Findings) -> str | None:
    node = root.get("apiVersion")
    if isinstance(node, Scalar) and node.value in (API_V2, API_V10):
        return str(node.value)
    must = f"playbooks must use {API_V2} or {API_V10}"
    if node is None:
        first = next(iter(root.keys.values()), None)
        place = DiagnosticPosition("apiVersion", first.span if first is not None else root.span)
        findings.add("E_API_VERSION", place, f"apiVersion is missing; {must}", f"begin with apiVersion: {API_V10}")
        return None
    shown = f'"{node.value}"' if isinstance(node, Scalar) and node.value is not None else describe(node)
    findings.add("E_API_VERSION", node, f"apiVersion is {shown}; {must}", f"write apiVersion: {API_V10}")
    return None


def _declared_dialect(root: Mapping, findings: Findings) -> Dialect | None:
    """The dialect in `metadata.dialect`."""
    node = inner(root, "metadata", "dialect")
    if node is None:
        return None
    words = [dialect.value for dialect in Dialect]
    if isinstance(node, Scalar) and node.value in words:
        return Dialect(str(node.value))
    shown = f'"{node.value}"' if isinstance(node, Scalar) and node.value is not None else describe(node)
    hint = did_you_mean(str(node.value) if isinstance(node, Scalar) else "", words)
    findings.add("E_METADATA", node, f"metadata.dialect must be one of {', '.join(words)}, and this is {shown}", hint)
    return None


def _conflict(root: Mapping, findings: Findings, named: str, *, by_option: bool) -> None:
    source = "--dialect" if by_option else "metadata.dialect"
    findings.add(
        "E_API_VERSION",
        root.values["apiVersion"],
        f'apiVersion {API_V10} is the dialect v10, and {source} says "{named}"',
        f"write apiVersion: {API_V2}, or leave {source} out",
    )


def _by_shape(root: Mapping, findings: Findings) -> Dialect | None:
    parts = document_parts(root)
    found = _strong(parts)
    if not found:
        return weak_dialect(parts) or Dialect.V10
    # In the order of the document, v10 last: it reads most spellings of the others, and would win every time.
    dialects = dict.fromkeys((*(one.marker.dialect for one in found), Dialect.V10))
    for dialect in dialects:
        if all(one.marker.is_read_in(dialect) for one in found):
            return dialect
    _report_mixture(_first_markers(found), findings)
    return None


def _spelling_of_v10(root: Mapping) -> Dialect:
    """v10, or v10-io if one of its own words occurs."""
    found = _strong(document_parts(root))
    return Dialect.V10_IO if any(one.marker.dialect is Dialect.V10_IO for one in found) else Dialect.V10


def _strong(parts: DocumentParts) -> list[Found]:
    """Every marker, in the order of the document."""
    found = [Found(marker, at) for marker in STRONG for at in marker.find(parts)]
    found.sort(key=lambda one: one.at.span.start)
    if any(one.marker.dialect is Dialect.V2_CASE and not one.marker.is_read_in(Dialect.V2_EVAL) for one in found):
        # The v2-case reader reports a guarded `next` entry as E_NEXT_WHEN, which is more precise (V2C-04).
        found = [one for one in found if one.marker is not GUARDED_ENTRY]
    return found


def _first_markers(found: list[Found]) -> list[Found]:
    """The first marker of each dialect that has one. A spelling that other dialects read too counts only if there is
    no other marker."""
    own = sorted(found, key=lambda one: bool(one.marker.spelling))
    firsts: dict[Dialect, Found] = {}
    for one in own:
        firsts.setdefault(one.marker.dialect, one)
    return sorted(firsts.values(), key=lambda one: one.at.span.start)


def _report_mixture(found: list[Found], findings: Findings) -> None:
    places = ", ".join(f'"{one.at.path}" is {one.marker.dialect}' for one in found)
    count = "two" if len(found) == 2 else "three"
    # v10-io is v10 with a few other keys: the two do not exclude each other.
    at = next(one for one in found if one.marker.dialect.rules is not found[0].marker.dialect.rules)
    first, second = found[0].marker, at.marker
    hint = (
        f"in {first.dialect} write {second.instead[first.dialect.rules]} for {second.name}; "
        f"in {second.dialect} write {first.instead[second.dialect.rules]} for {first.name}; "
        "choose one (noetl migrate rewrites an older dialect as v10)"
    )
    findings.add("E_DIALECT_MIXED", at.at, f"{count} dialects in one document: {places}", hint)


# The reader of v10, the canonical dialect (DOC-10, DOC-11).


def read_v10(root: Mapping, reading: ReadContext) -> Playbook:
    """As much of the playbook as can be read; mistakes are noted."""
    return read_root(root, reading, _read_v10_step, read_task)


def _read_v10_step(reading: ReadContext, node: Mapping, name: Scalar) -> StepSyntax:
    refusals = REFUSED_IN_STEPS[Dialect.V10]
    refuse(reading, node, refusals)
    check_keys(reading, node, STEP, "E_STEP_KEY", handled=refusals, elsewhere=ELSEWHERE)
    common = read_common(reading, node, name)
    spec: Mapping | None = common["spec"]
    policy = _read_step_policy(reading, spec) if spec else None
    return StepSyntax(
        **common,
        admit=read_admit(reading, policy.get("admit") if policy else None),
        router=read_router(reading, node.get("next")),
        blocks=read_wait_blocks(reading, node, read_tool),
    )


def _read_step_policy(reading: ReadContext, spec: Mapping) -> Mapping | None:
    refuse(reading, spec, V10_STEP_OPTIONS)
    refuse_misplaced(reading, spec, "step", ("admit", "lifecycle", "failure", "emit"))
    policy = read_scope_policy(reading, spec.get("policy"), "step")
    check_parts(reading, policy, "step")
    return policy


# The reader of v2-eval (V2E-01…10): labelled tasks with `eval`, a step's `when`, a list `next`.


def read_v2_eval(root: Mapping, reading: ReadContext) -> Playbook:
    """As much of the playbook as can be read; mistakes are noted."""
    return read_root(root, reading, _read_eval_step, read_task)


def _read_eval_step(reading: ReadContext, node: Mapping, name: Scalar) -> StepSyntax:
    refusals = REFUSED_IN_STEPS[Dialect.V2_EVAL]
    refuse(reading, node, refusals)
    handled = (*refusals, *BLOCKS)
    check_keys(reading, node, STEP, "E_STEP_KEY", handled=handled, elsewhere=ELSEWHERE)
    _refuse_blocks(reading, node)
    common = read_common(reading, node, name)
    spec: Mapping | None = common["spec"]
    if spec and "policy" in spec:
        hint = "gate the step with its when, or migrate to v10"
        reading.error("E_SPEC_OPTION", spec.keys["policy"], "v2-eval has no step policy", hint)
    when = node.get("when")
    condition = read_condition(reading, when) if when is not None else None
    return StepSyntax(
        **common,
        admit=admit_when(condition) if condition else None,
        router=read_next_list(reading, node.get("next"), spec),
    )


def _refuse_blocks(reading: ReadContext, node: Mapping) -> None:
    """Wait blocks are younger than this dialect; ignoring one would change what the step does."""
    for key in BLOCKS:
        if key in node:
            message = f'"{key}" is a block of v10 and v2-case, and this is v2-eval'
            reading.error("E_STEP_KEY", node.keys[key], message, "migrate to v10 (noetl migrate)")


_READERS: dict[Dialect, Callable[[Mapping, ReadContext], Playbook | None]] = {
    Dialect.V10: read_v10,
    Dialect.V2_EVAL: read_v2_eval,
    Dialect.V2_CASE: v2_case.read,
}
NO_KINDS: Kinds = {}


@guesses_of_one_text()
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
        v10_api=isinstance(api_version, Scalar) and api_version.value == API_V10,
    )
    rewriting = Rewriting(dialect=found, findings=findings, v10_api=reading.v10_api)
    # Spellings are rewritten before reading, so that each reader needs only the canonical keys.
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
