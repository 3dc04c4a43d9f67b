"""Task results: they end with their step, so that nobody else can read them by the task's name (SCOPE-10, TPL-05).

Such a read is undefined and goes on quietly: an arc is not taken, a value is empty. In v2-case a transition still
sees the tasks of its own rule; it is left alone here.
"""

from __future__ import annotations

import re

from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import pipelines
from noetl.language.compiling.template_sites import TemplateText, written_texts
from noetl.language.compiling.text_positions import name_in, parsed
from noetl.language.compiling.undefined_names import given_names
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.playbook import Dialect, LoopSyntax, Playbook, StepSyntax
from noetl.templates.scope import TemplateSite

_STEP = re.compile(r"workflow\[(\d+)\]")
_IN_PIPELINE = frozenset(
    {
        TemplateSite.TASK_INPUT,
        TemplateSite.TASK_POLICY,
        TemplateSite.RETRY,
        TemplateSite.HANDLER_TASK,
        TemplateSite.COMPENSATE,
    }
)


def check_task_results(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_FOREIGN_NAME for the name of a task that nothing else has, read outside of its step."""
    if playbook.dialect is Dialect.V2_CASE:
        return playbook
    owners = _owners(playbook)
    for name in given_names(playbook) | _iterators(playbook):
        owners.pop(name, None)
    for written in written_texts(playbook, compilation) if owners else ():
        template = parsed(written.text)
        for name in dict.fromkeys(read.root for read in template.references) if template else ():
            if name in owners and not _sees(written, owners[name], playbook):
                _note(name, owners[name], written, playbook, compilation)
    return playbook


def _owners(playbook: Playbook) -> dict[str, list[StepSyntax]]:
    """Every task by its name, with the steps that have one of that name."""
    owners: dict[str, list[StepSyntax]] = {}
    for pipeline in pipelines(playbook):
        for task in pipeline.tasks:
            if task.name is not None and pipeline.step is not None:
                owners.setdefault(task.name, []).append(pipeline.step)
    return owners


def _iterators(playbook: Playbook) -> set[str]:
    names = set()
    for step in playbook.steps:
        loop: LoopSyntax | None = step.loop
        while loop is not None:
            names.add(str(loop.iterator.value))
            loop = loop.inner
    return names


def _sees(written: TemplateText, owners: list[StepSyntax], playbook: Playbook) -> bool:
    """Whether the text stands in a pipeline of a step that has the task; one outside of all steps is nobody's."""
    found = _STEP.match(written.scalar.path)
    if found is None:
        return True
    here = playbook.steps[int(found[1])]
    return written.site in _IN_PIPELINE and any(owner is here for owner in owners)


def _note(
    name: str, owners: list[StepSyntax], written: TemplateText, playbook: Playbook, compilation: Compilation
) -> None:
    owner = owners[0].name
    place = name_in(written.scalar, name, playbook.source)
    message = f'"{name}" is a task of step "{owner}", and cannot be read in {written.what}, so it is undefined'
    result = f"{owner}.data" if owner.isidentifier() else "event.result"
    hint = f"write {result} for the result of its last task, or keep the value with set_ctx"
    compilation.note("W_FOREIGN_NAME", place, message, hint)


# `result` of a step: what it asks for and does not get is said (design.md §5).

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
