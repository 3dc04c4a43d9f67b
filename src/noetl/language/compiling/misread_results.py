"""Results that are read by a word of other systems: `step.output.x`, `step.value`.

Only where the playbook tells what the result is: the fields of a mapping that Python code writes out, or those that
each result of a kind has. Elsewhere the result may have a field of that name.
"""

from __future__ import annotations

from noetl.language.compiling.embedded_code import KIND as PYTHON
from noetl.language.compiling.embedded_code import MAX_PYTHON_CHARACTERS, tree_of
from noetl.language.compiling.passes import MAIN, Compilation, pipelines
from noetl.language.compiling.python_results import result_fields
from noetl.language.compiling.template_sites import TemplateText, written_texts
from noetl.language.compiling.text_positions import key_in, parsed
from noetl.language.compiling.undefined_names import data_names
from noetl.language.reading.nodes import Scalar
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.templates.logic import GuardReference

_WORDS = frozenset(("output", "outputs", "value", "return_value", "response", "body", "payload"))
Fields = dict[str, frozenset[str]]


def check_misread_results(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_FOREIGN_NAME: a word that a result does not have, where it is known what it has."""
    steps, tasks = _known_results(playbook, compilation)
    if not steps and not any(tasks.values()):
        return playbook
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        step = written.step_of(playbook)
        known = {**steps, **(tasks[step.name] if step is not None else {})}
        for read in template.references if template else ():
            if read.root in known and read.path and read.path[0] in _WORDS and not read.defaulted:
                _note(read, known[read.root], written, playbook, compilation)
    return playbook


def _known_results(playbook: Playbook, compilation: Compilation) -> tuple[Fields, dict[str, Fields]]:
    """The fields of results by the name of their step, and those of the tasks of each step."""
    steps: Fields = {}
    tasks: dict[str, Fields] = {step.name: {} for step in playbook.steps}
    others = data_names(playbook)
    left = MAX_PYTHON_CHARACTERS
    for pipeline in pipelines(playbook):
        step = pipeline.step
        for task in pipeline.tasks if step is not None else ():
            code = task.inputs.get("code")
            left -= len(str(code.value)) if isinstance(code, Scalar) else 0
            fields = _fields(task, compilation) if left >= 0 else None
            if step is None or fields is None or fields & _WORDS:
                continue
            if task.name is not None and task.name not in others:
                tasks[step.name][task.name] = fields
            is_result = pipeline.part == MAIN and task is pipeline.tasks[-1] and step.loop is None
            if is_result and step.sink is None and step.name not in others:
                steps[step.name] = fields
    return steps, tasks


def _fields(task: TaskSyntax, compilation: Compilation) -> frozenset[str] | None:
    kind = compilation.kinds.get(task.kind)
    code = task.inputs.get("code")
    if task.kind == PYTHON and isinstance(code, Scalar) and isinstance(code.value, str):
        tree = tree_of(code.value)
        return result_fields(tree) if tree is not None else None
    # The payload of a result that wraps it comes from outside.
    return frozenset(kind.result_keys) or None if kind is not None and not kind.unwraps else None


def _note(
    read: GuardReference, fields: frozenset[str], written: TemplateText, playbook: Playbook, compilation: Compilation
) -> None:
    word, below = str(read.path[0]), [str(key) for key in read.path[1:]]
    place = key_in(written.scalar, read.root, read.path[:1], playbook.source)
    message = f'"{read.root}" has no "{word}", which {written.what} reads, so it is null'
    if below and below[0] in fields:
        hint = f"write {read.root}.{below[0]}"
    else:
        there = f"; it has {', '.join(sorted(fields))}" if fields else ""
        hint = f"write {read.root}.data for the whole result{there}"
    compilation.note("W_FOREIGN_NAME", place, message, hint)
