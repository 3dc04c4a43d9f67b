"""Text in, Playbook out, whatever the dialect; every mistake of shape is noted on the way (VAL-19)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from noetl.base.diagnostics import Findings
from noetl.base.source import Source
from noetl.language.grammar.steps import STEP
from noetl.language.reading.dialect import detect
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.old_keys import REFUSED_IN_STEPS, V10_STEP_OPTIONS, refuse
from noetl.language.reading.playbook import Dialect, Playbook, StepSyntax
from noetl.language.reading.policy_keys import check_parts, read_scope_policy, refuse_misplaced
from noetl.language.reading.root import read_root
from noetl.language.reading.routers import read_next_list, read_router

# The reader of v2-eval (V2E-01…10): labelled tasks with `eval`, a step's `when`, a list `next`.
from noetl.language.reading.rule_lists import admit_when, read_admit, read_condition
from noetl.language.reading.shared_checks import ReadContext, check_keys, opening
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.reading.spellings.respelling import respelled
from noetl.language.reading.spellings.roots import with_listed_steps
from noetl.language.reading.steps import ELSEWHERE, read_common
from noetl.language.reading.tasks import read_task, read_tool
from noetl.language.reading.waits.blocks import BLOCKS, read_wait_blocks
from noetl.language.reading.yaml import read_yaml
from noetl.language.v2_case import port as v2_case
from noetl.net.kinds import Kinds

# The reader of v10, the canonical dialect (DOC-10, DOC-11).


def read_v10(root: Mapping, reading: ReadContext) -> Playbook:
    """As much of the playbook as can be read; what cannot is noted."""
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
        **read_wait_blocks(reading, node, read_tool),
    )


def _read_step_policy(reading: ReadContext, spec: Mapping) -> Mapping | None:
    refuse(reading, spec, V10_STEP_OPTIONS)
    refuse_misplaced(reading, spec, "step", ("admit", "lifecycle", "failure", "emit"))
    policy = read_scope_policy(reading, spec.get("policy"), "step")
    check_parts(reading, policy, "step")
    return policy


def read_v2_eval(root: Mapping, reading: ReadContext) -> Playbook:
    """As much of the playbook as can be read; what cannot is noted."""
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
