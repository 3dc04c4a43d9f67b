"""The reader of v2-eval (V2E-01…10): labelled tasks with `eval`, a step's `when`, a list `next`."""

from __future__ import annotations

from noetl.language.grammar.steps import STEP
from noetl.language.reading.admission import admit_when
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.old_keys import REFUSED_IN_STEPS, refuse
from noetl.language.reading.playbook import Dialect, Playbook, StepSyntax
from noetl.language.reading.root import read_root
from noetl.language.reading.routers import read_next_list
from noetl.language.reading.rule_lists import read_condition
from noetl.language.reading.shared_checks import ReadContext, check_keys
from noetl.language.reading.steps import ELSEWHERE, read_common
from noetl.language.reading.tasks import read_task
from noetl.language.reading.waits.blocks import BLOCKS


def read_v2_eval(root: Mapping, reading: ReadContext) -> Playbook:
    """As much of the playbook as can be read; what cannot is noted."""
    return read_root(root, reading, read_step, read_task)


def read_step(reading: ReadContext, node: Mapping, name: Scalar) -> StepSyntax:
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
