"""Task names: unique within their pipeline, identifiers, and none that templates reserve (VAL-17). Also reads of a
task's result by its name from another step.

Names that the compiler gave, by position or for sugar, take part like any other.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from noetl.base.diagnostics import PositionedDiagnostic, nearest_word
from noetl.language.compiling import passes
from noetl.language.compiling.lowering.values import loops_of
from noetl.language.compiling.passes import Compilation, Pipeline
from noetl.language.compiling.template_sites import TemplateText, written_texts
from noetl.language.compiling.text_positions import name_in, parsed
from noetl.language.compiling.undefined_names import given_names
from noetl.language.reading.nodes import Mapping, Scalar, inner
from noetl.language.reading.playbook import (
    Dialect,
    Playbook,
    PolicySyntax,
    StepSyntax,
    Sugar,
    TaskSyntax,
)
from noetl.templates.scope import RESERVED, TemplateSite, is_reserved

# Words of the template language: `{{ if.data }}` does not parse, so no task can be read by such a name.
_WORDS = frozenset(
    ("and", "or", "not", "in", "is", "if", "else", "for", "true", "false", "none", "True", "False", "None")
)
_IN_PIPELINE = frozenset(
    {
        TemplateSite.TASK_INPUT,
        TemplateSite.TASK_POLICY,
        TemplateSite.RETRY,
        TemplateSite.HANDLER_TASK,
        TemplateSite.COMPENSATE,
    }
)


def check_task_names(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_TASK_DUP and E_RESERVED_NAME."""
    for pipeline in passes.pipelines(playbook):
        _check_unique(pipeline, compilation)
        for task in pipeline.tasks:
            if task.name_node is not None:
                _check_readable(task, compilation)
    return playbook


def place_of(task: TaskSyntax) -> PositionedDiagnostic:
    """Where a task is named, else where it begins."""
    return task.name_node or passes.head(task)


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
        place = passes.key_place(task.node, "name", place)
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
    elif name in _WORDS:
        message = f'"{name}" cannot be a task\'s name: it is a word of the template language'
        compilation.note("E_RESERVED_NAME", place, message, f'write another one, such as "{name}_task"')
    elif is_reserved(name):
        compilation.note(
            "E_RESERVED_NAME",
            place,
            f'"{name}" cannot be a task\'s name: templates keep it for themselves',
            f"reserved are {', '.join(sorted(RESERVED))} and names that begin with _",
        )


# Task naming: every task gets a name, by 004's scheme wherever the author gave none (TASK-01…03, C-43).


def name_tasks(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every task and construct gets a name; a name that is also an input is used for both."""
    # Inputs first: a name that becomes an input may leave its task without one, and then it is named by position.
    return passes.rewrite(passes.rewrite_tasks(playbook, lambda task, _: _with_input(task, compilation)), _named_tasks)


def _with_input(task: TaskSyntax, compilation: Compilation) -> TaskSyntax:
    """`{kind: secrets, name: api_key}`: the name is also the name of the secret. A name that templates could not read
    is only the name of the secret."""
    kind = compilation.kinds.get(task.kind)
    named = next((known for known in kind.inputs if known.from_name), None) if kind is not None else None
    if named is None or task.name_node is None or any(key in task.inputs for key in (named.name, *named.aliases)):
        return task
    message = f'the name of this task is read as its input "{named.name}"'
    compilation.note("I_ALIAS", task.name_node, message, f"write {named.name}: {task.name}")
    inputs = {**task.inputs, named.name: task.name_node}
    if task.name is not None and not task.name.isidentifier():
        return replace(task, inputs=inputs, name=None, name_node=None)
    return replace(task, inputs=inputs)


def _named_tasks(pipeline: Pipeline) -> tuple[TaskSyntax | Sugar, ...]:
    single = _single_name(pipeline)
    if single is None or len(pipeline.items) != 1:
        return _named_list(pipeline.items, "")
    only = pipeline.items[0]
    return (_named_task(only, single),) if isinstance(only, TaskSyntax) else _named_list(pipeline.items, "")


def _single_name(pipeline: Pipeline) -> str | None:
    """The name of a single task, in a place for just one."""
    step, part = pipeline.step, pipeline.part
    if step is None:
        return part.partition("/")[2]
    if part == passes.MAIN:
        return f"{step.name}_task" if step.single else None
    if part == "compensation":
        return f"{step.name}_compensate"
    if part == "sink":
        return f"{step.name}_sink"
    # Tasks of `then` lists have labels; only sinks have no name.
    if part.startswith(("case/", "retry/")):
        return f"{step.name}_{part.replace('/', '_')}_sink"
    return None


def _named_list(items: tuple[TaskSyntax | Sugar, ...], prefix: str) -> tuple[TaskSyntax | Sugar, ...]:
    return tuple(
        _named_task(item, f"{prefix}task_{position}")
        if isinstance(item, TaskSyntax)
        else _named_sugar(item, f"{prefix}{item.construct}_{position}")
        for position, item in enumerate(items)
    )


def _named_task(task: TaskSyntax, default: str) -> TaskSyntax:
    name = task.name or default
    return replace(task, name=name, policy=_named_hooks(task.policy, name) if task.policy else None)


def _named_hooks(policy: PolicySyntax, task: str) -> PolicySyntax:
    def named(hooks: tuple[TaskSyntax, ...], word: str) -> tuple[TaskSyntax, ...]:
        return tuple(_named_task(hook, f"{task}__{word}_{position}") for position, hook in enumerate(hooks))

    return replace(
        policy,
        before=named(policy.before, "before"),
        after=named(policy.after, "after"),
        finally_=named(policy.finally_, "finally"),
    )


def _named_sugar(sugar: Sugar, default: str) -> Sugar:
    name = sugar.name or default
    branches = tuple(
        replace(branch, body=_named_list(branch.body, f"{name}__b{index}_"))
        for index, branch in enumerate(sugar.branches)
    )
    return replace(sugar, name=name, branches=branches)


# Jumps: `to` names a task of the same pipeline, generated labels included (VAL-09, O-35).


def check_jumps(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_JUMP_TARGET for a target that is not there."""
    for pipeline in passes.pipelines(playbook):
        names = [task.name or "" for task in pipeline.tasks]
        for task in pipeline.tasks:
            for rule in task.policy.rules if task.policy else ():
                to = rule.then.to
                # A workbook definition jumps within the pipeline that will refer to it, and is checked there.
                if (
                    rule.then.do == "jump"
                    and to is not None
                    and str(to.value) not in names
                    and not pipeline.in_workbook
                ):
                    _note(compilation, to, names, pipeline)
    return playbook


def _note(compilation: Compilation, to: Scalar, names: list[str], pipeline: Pipeline) -> None:
    authored = [task.name or "" for task in pipeline.tasks if not task.generated]
    where = f'step "{pipeline.step.name}"' if pipeline.step else "this list"
    listing = f"its tasks are {', '.join(authored)}" if authored else "it has no tasks"
    guess = nearest_word(str(to.value), names)
    message = f'this jump leads to "{to.value}", which is not a task of {where}'
    compilation.note("E_JUMP_TARGET", to, message, f'did you mean "{guess}"? {listing}' if guess else listing)


# Task results: they end with their step, so other steps cannot read them by the task's name (SCOPE-10, TPL-05).
#
# Such a read is undefined and causes no error: an arc is not taken, a value is empty. In v2-case every template of a
# step may see the tasks of its rules: a transition does, and `vars`.


def check_task_results(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_FOREIGN_NAME for the name of a task that nothing else has, read outside of its step."""
    owners = _owners(playbook)
    for name in given_names(playbook) | _iterators(playbook):
        # A key or an iterator of that name may be what is meant.
        owners.pop(name, None)
    for written in written_texts(playbook, compilation) if owners else ():
        template = parsed(written.text)
        for name in dict.fromkeys(read.root for read in template.references) if template else ():
            if name in owners and not _sees(written, owners[name], playbook):
                _note_unreadable(name, owners[name], written, playbook, compilation)
    return playbook


def _owners(playbook: Playbook) -> dict[str, list[StepSyntax]]:
    """Every task by its name, with the steps that have one of that name."""
    owners: dict[str, list[StepSyntax]] = {}
    for pipeline in passes.pipelines(playbook):
        for task in pipeline.tasks:
            if task.name is not None and pipeline.step is not None:
                owners.setdefault(task.name, []).append(pipeline.step)
    return owners


def _iterators(playbook: Playbook) -> set[str]:
    return {str(loop.iterator.value) for step in playbook.steps for loop in loops_of(step.loop)}


def _sees(written: TemplateText, owners: list[StepSyntax], playbook: Playbook) -> bool:
    """Whether the text is in a pipeline of a step that has the task; a text outside of all steps has no such step."""
    here = written.step_of(playbook)
    if here is None:
        return True
    own = any(owner is here for owner in owners)
    return own and (written.site in _IN_PIPELINE or playbook.dialect is Dialect.V2_CASE)


def _note_unreadable(
    name: str, owners: list[StepSyntax], written: TemplateText, playbook: Playbook, compilation: Compilation
) -> None:
    owner = owners[0].name
    place = name_in(written.scalar, name, playbook.source)
    message = f'"{name}" is a task of step "{owner}", and cannot be read in {written.what}, so it is undefined'
    compilation.note("W_FOREIGN_NAME", place, message, _result_hint(name, owners[0], written, playbook))


def _result_hint(name: str, owner: StepSyntax, written: TemplateText, playbook: Playbook) -> str:
    keep = "vars" if playbook.dialect is Dialect.V2_CASE else "set_ctx"
    # A step called `load-orders` cannot be read by its name in a template.
    if not owner.name.isidentifier():
        return f"write event.result for the result of its last task, or keep the value with {keep}"
    # The tasks of a loop have a result in each iteration. The one task of a step gives what the step gives.
    if owner.loop is None and name != f"{owner.name}_task":
        return f"write {owner.name}.results.{name}, or keep the value with {keep}"
    return f"write {owner.name}.data for the result of its last task, or keep the value with {keep}"


# `result` of a step: options without effect are reported (design.md §5).

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
    kind = inner(result, "store", "kind")
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
