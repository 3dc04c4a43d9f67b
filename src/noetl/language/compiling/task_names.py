"""Task names: unique within their pipeline, identifiers, and none that templates reserve (VAL-17).

Names that the compiler gave, by position or for sugar, take part like any other.
"""

from __future__ import annotations

import re

from noetl.base.diagnostics import PositionedDiagnostic
from noetl.language.compiling.passes import Compilation, head, key_place
from noetl.language.compiling.pipelines import Pipeline, pipelines
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.templates.scopes import RESERVED, is_reserved

# Words of the template language: `{{ if.data }}` does not parse, so no task can be read by such a name.
_WORDS = frozenset(
    ("and", "or", "not", "in", "is", "if", "else", "for", "true", "false", "none", "True", "False", "None")
)


def check_task_names(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_TASK_DUP and E_RESERVED_NAME."""
    for pipeline in pipelines(playbook):
        _check_unique(pipeline, compilation)
        for task in pipeline.tasks:
            if task.name_node is not None:
                _check_readable(task, compilation)
    return playbook


def place_of(task: TaskSyntax) -> PositionedDiagnostic:
    """Where a task is named, else where it begins."""
    return task.name_node or head(task)


def _check_unique(pipeline: Pipeline, compilation: Compilation) -> None:
    first: dict[str | None, TaskSyntax] = {}
    for task in pipeline.tasks:
        earlier = first.setdefault(task.name, task)
        if earlier is not task:
            _note_duplicate(compilation, earlier, task)


def _note_duplicate(compilation: Compilation, earlier: TaskSyntax, task: TaskSyntax) -> None:
    place, line = place_of(task), place_of(earlier).span.line
    if earlier.generated and task.generated:
        construct = (task.name or "").rpartition("__")[0]
        place = key_place(task.node, "name", place)
        message = f'two constructs are called "{construct}" (the other on line {line})'
    elif earlier.generated or task.generated:
        made, named = (earlier, task) if earlier.generated else (task, earlier)
        place = place_of(named)
        message = f'"{task.name}" is a label that {made.generated} makes (line {place_of(made).span.line})'
    else:
        message = f'two tasks are called "{task.name}" (the other on line {line})'
        unnamed = earlier if earlier.name_node is None else task if task.name_node is None else None
        if unnamed is not None:
            message += f', one of them by its position in "{_list_path(unnamed)}"'
    compilation.note("E_TASK_DUP", place, message, "give one of them another name")


def _list_path(task: TaskSyntax) -> str:
    return re.sub(r"\[\d+\]$", "", task.path)


def _check_readable(task: TaskSyntax, compilation: Compilation) -> None:
    name, place = task.name or "", place_of(task)
    if not name.isidentifier():
        compilation.note(
            "E_RESERVED_NAME",
            place,
            f'"{name}" cannot be a task\'s name: templates could not read it',
            f'write letters, digits and underscores, such as "{re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or "t"}"',
        )
    elif is_reserved(name) or name in _WORDS:
        compilation.note(
            "E_RESERVED_NAME",
            place,
            f'"{name}" cannot be a task\'s name: templates keep it for themselves',
            f"reserved are {', '.join(sorted(RESERVED))} and names that begin with _",
        )
