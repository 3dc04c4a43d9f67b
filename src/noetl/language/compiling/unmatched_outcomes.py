"""Unmatched: outcomes and tokens that no rule takes, where that is probably not meant (VAL-20, POL-02, ADM-04)."""

from __future__ import annotations

from noetl.language.compiling.guards import ERROR_OUTCOME, cover, shape_of
from noetl.language.compiling.lowering.values import inner, word
from noetl.language.compiling.passes import Compilation, head, key_place
from noetl.language.compiling.pipelines import every_task
from noetl.language.reading.playbook import Admit, Playbook, PolicySyntax
from noetl.templates.logic import Const


def check_unmatched(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_UNMATCHED and W_ADMIT_NO_ELSE."""
    spec = playbook.executor.spec if playbook.executor else None
    default = word(inner(spec, "policy", "defaults", "on_unmatched"), "continue")
    for task, pipeline in every_task(playbook):
        policy = task.policy
        if policy is None or policy.strict or task.generated or task.kind == "noop" or pipeline.is_hook:
            continue  # a noop has no errors
        if (policy.on_unmatched or default) == "continue":
            _check_errors(policy, compilation)
    for step in playbook.steps:
        if step.admit is not None:
            _check_admission(step.admit, compilation)
    return playbook


def _check_errors(policy: PolicySyntax, compilation: Compilation) -> None:
    if not cover((shape_of(rule.when) for rule in policy.rules), ERROR_OUTCOME):
        compilation.note(
            "W_ERROR_UNMATCHED",
            key_place(policy.node, "rules", head(policy)),
            "an error that none of these rules takes lets the pipeline go on",
            "add {when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}, or on_unmatched: fail",
        )


def _check_admission(admit: Admit, compilation: Compilation) -> None:
    if admit.rules and not any(shape_of(rule.when) == Const(True) for rule in admit.rules):
        compilation.note(
            "W_ADMIT_NO_ELSE",
            key_place(admit.node, "rules", head(admit)),
            "a token that matches none of these rules is denied",
            "add - else: {then: {allow: false}} to say so, or allow: true to let it in",
        )
