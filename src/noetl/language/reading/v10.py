"""The reader of v10, the canonical dialect (DOC-10, DOC-11)."""

from __future__ import annotations

from noetl.language.grammar.steps import STEP
from noetl.language.reading.admission import read_admit
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.old_keys import REFUSED_IN_STEPS, V10_STEP_OPTIONS, refuse
from noetl.language.reading.playbook import Dialect, Playbook, StepSyntax
from noetl.language.reading.policy_keys import check_parts
from noetl.language.reading.root import read_root
from noetl.language.reading.routers import read_router
from noetl.language.reading.scope_policies import read_scope_policy, refuse_misplaced
from noetl.language.reading.shared_checks import ReadContext, check_keys
from noetl.language.reading.steps import ELSEWHERE, read_common
from noetl.language.reading.tasks import read_task, read_tool
from noetl.language.reading.waits.blocks import read_wait_blocks


def read_v10(root: Mapping, reading: ReadContext) -> Playbook:
    """As much of the playbook as can be read; what cannot is noted."""
    return read_root(root, reading, read_step, read_task)


def read_step(reading: ReadContext, node: Mapping, name: Scalar) -> StepSyntax:
    refusals = REFUSED_IN_STEPS[Dialect.V10]
    refuse(reading, node, refusals)
    check_keys(reading, node, STEP, "E_STEP_KEY", handled=refusals, elsewhere=ELSEWHERE)
    common = read_common(reading, node, name)
    spec: Mapping | None = common["spec"]
    policy = _read_policy(reading, spec) if spec else None
    return StepSyntax(
        **common,
        admit=read_admit(reading, policy.get("admit") if policy else None),
        router=read_router(reading, node.get("next")),
        **read_wait_blocks(reading, node, read_tool),
    )


def _read_policy(reading: ReadContext, spec: Mapping) -> Mapping | None:
    refuse(reading, spec, V10_STEP_OPTIONS)
    refuse_misplaced(reading, spec, "step", ("admit", "lifecycle", "failure", "emit"))
    policy = read_scope_policy(reading, spec.get("policy"), "step")
    check_parts(reading, policy, "step")
    return policy
