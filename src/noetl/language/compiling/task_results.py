"""Task results: they end with their step, so that nobody else can read them by the task's name (SCOPE-10, TPL-05).

Such a read is undefined and goes on quietly: an arc is not taken, a value is empty. In v2-case a transition still
sees the tasks of its own rule; it is left alone here.
"""

from __future__ import annotations

import re

from noetl.language.compiling.parsed_templates import parsed
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import pipelines
from noetl.language.compiling.scope_names import given_names
from noetl.language.compiling.template_sites import TemplateText, written_texts
from noetl.language.compiling.text_positions import name_in
from noetl.language.reading.playbook import Dialect, LoopSyntax, Playbook, StepSyntax
from noetl.templates.scopes import TemplateSite

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
