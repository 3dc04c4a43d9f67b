"""Jumps: `to` names a task of the same pipeline, generated labels included (VAL-09, O-35)."""

from __future__ import annotations

from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import Pipeline, pipelines
from noetl.language.reading.nodes import Scalar
from noetl.language.reading.playbook import Playbook
from noetl.language.reading.shared_checks import nearest


def check_jumps(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_JUMP_TARGET for a target that is not there."""
    for pipeline in pipelines(playbook):
        names = [task.name or "" for task in pipeline.tasks]
        for task in pipeline.tasks:
            for rule in task.policy.rules if task.policy else ():
                to = rule.then.to
                if rule.then.do == "jump" and to is not None and str(to.value) not in names and not _open(pipeline):
                    _note(compilation, to, names, pipeline)
    return playbook


def _open(pipeline: Pipeline) -> bool:
    """A workbook definition jumps within the pipeline that will refer to it, and is checked there."""
    return pipeline.in_workbook


def _note(compilation: Compilation, to: Scalar, names: list[str], pipeline: Pipeline) -> None:
    authored = [task.name or "" for task in pipeline.tasks if not task.generated]
    where = f'step "{pipeline.step.name}"' if pipeline.step else "this list"
    listing = f"its tasks are {', '.join(authored)}" if authored else "it has no tasks"
    guess = nearest(str(to.value), names)
    message = f'this jump leads to "{to.value}", which is not a task of {where}'
    compilation.note("E_JUMP_TARGET", to, message, f'did you mean "{guess}"? {listing}' if guess else listing)
