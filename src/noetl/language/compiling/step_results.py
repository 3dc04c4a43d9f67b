"""`result` of a step: what it asks for and does not get is said (design.md §5).

A deployment has one results store, so a kind that is named is a wish. `output_select` keeps fields of one result beside
its reference; a loop's result is a list of many, of which it selects nothing.
"""

from __future__ import annotations

from noetl.language.compiling.passes import Compilation
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.playbook import Playbook, StepSyntax

_DEFAULT = ("auto", "default")


def check_step_results(playbook: Playbook, compilation: Compilation) -> Playbook:
    """I_ALIAS for a kind of store; E_STEP_KEY for output_select on a looped step, under noetl.io/v2 W_UNKNOWN_KEY."""
    refuses = playbook.api_version.endswith("/v10") or playbook.strict
    for step in playbook.steps:
        if isinstance(step.result, Mapping):
            _check_store(step.result, compilation)
            if step.loop is not None and "output_select" in step.result:
                _note_unselected(step, step.result, compilation, refuses)
    return playbook


def _check_store(result: Mapping, compilation: Compilation) -> None:
    store = result.get("store")
    kind = store.get("kind") if isinstance(store, Mapping) else None
    if isinstance(kind, Scalar) and kind.value not in _DEFAULT:
        message = f'store kind "{kind.value}" is read as "auto": results are kept in the store of the deployment'
        compilation.note("I_ALIAS", kind, message, "write auto, or leave it out; the operator says where that store is")


def _note_unselected(step: StepSyntax, result: Mapping, compilation: Compilation, refuses: bool) -> None:
    place = result.keys["output_select"]
    message = f'step "{step.name}" has a loop, and output_select is for a single result'
    hint = "take it away: a loop's result is the list of what its iterations gave; let each give the small fields"
    if refuses:
        compilation.note("E_STEP_KEY", place, message, hint)
    else:
        compilation.note("W_UNKNOWN_KEY", place, f"{message}: it is ignored", hint)
