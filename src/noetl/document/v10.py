"""The reader of v10, the canonical dialect (seed 004; DOC-10, DOC-11)."""

from __future__ import annotations

from noetl.document.admission import read_admit
from noetl.document.legacy import STEP, V10_STEP_OPTIONS, refuse
from noetl.document.nodes import Mapping, Scalar
from noetl.document.playbook import Dialect, Playbook, Step
from noetl.document.policy_parts import check_parts
from noetl.document.root import read_root
from noetl.document.routers import read_router
from noetl.document.scope_policies import read_scope_policy, refuse_misplaced
from noetl.document.shapes import Reading, known_keys
from noetl.document.steps import COMMON_KEYS, ELSEWHERE, read_common
from noetl.document.tasks import read_task, read_tool
from noetl.document.waits.blocks import BLOCKS, read_wait_blocks

STEP_KEYS = (*COMMON_KEYS, *BLOCKS)


def read_v10(root: Mapping, reading: Reading) -> Playbook:
    """As much of the playbook as can be read; what cannot is noted."""
    return read_root(root, reading, read_step, read_task)


def read_step(reading: Reading, node: Mapping, name: Scalar) -> Step:
    refusals = STEP[Dialect.V10]
    refuse(reading, node, refusals)
    known_keys(reading, node, STEP_KEYS, "E_STEP_KEY", "a step", handled=refusals, elsewhere=ELSEWHERE)
    common = read_common(reading, node, name)
    spec: Mapping | None = common["spec"]
    policy = _read_policy(reading, spec) if spec else None
    return Step(
        **common,
        admit=read_admit(reading, policy.get("admit") if policy else None),
        router=read_router(reading, node.get("next")),
        **read_wait_blocks(reading, node, read_tool),
    )


def _read_policy(reading: Reading, spec: Mapping) -> Mapping | None:
    refuse(reading, spec, V10_STEP_OPTIONS)
    refuse_misplaced(reading, spec, "step", ("admit", "lifecycle", "failure", "emit"))
    policy = read_scope_policy(reading, spec.get("policy"), "step")
    check_parts(reading, policy, "step")
    return policy
