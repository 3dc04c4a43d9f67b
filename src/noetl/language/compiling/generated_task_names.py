"""Task naming: every task gets a name, by 004's scheme wherever the author gave none (TASK-01…03, C-43).

Names come from positions only, so that compiling twice, or after an edit elsewhere, gives the same ones (SUGAR-03).
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import MAIN, Pipeline, rewrite, rewrite_tasks
from noetl.language.reading.playbook import Branch, Playbook, PolicySyntax, Sugar, TaskSyntax


def name_tasks(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every task and construct with a name; a name that stands for an input is read as that, too."""
    return rewrite(rewrite_tasks(playbook, lambda task, _: _with_input(task, compilation)), _named)


def _with_input(task: TaskSyntax, compilation: Compilation) -> TaskSyntax:
    """`{kind: secrets, name: api_key}`: the name says which secret. One that templates could not read is only that."""
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


def _named(pipeline: Pipeline) -> tuple[TaskSyntax | Sugar, ...]:
    single = _single_name(pipeline)
    if single is None or len(pipeline.items) != 1:
        return _named_list(pipeline.items, "")
    only = pipeline.items[0]
    return (_named_task(only, single),) if isinstance(only, TaskSyntax) else _named_list(pipeline.items, "")


def _single_name(pipeline: Pipeline) -> str | None:
    """What a task that stands alone is called, where a place holds just one."""
    step, part = pipeline.step, pipeline.part
    if step is None:
        return part.partition("/")[2]
    if part == MAIN:
        return f"{step.name}_task" if step.single else None
    if part == "compensation":
        return f"{step.name}_compensate"
    if part == "sink":
        return f"{step.name}_sink"
    if part.startswith(("case/", "retry/")):  # a task of a `then` list has its label; only a sink has none
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
    return replace(
        policy,
        before=_named_hook_list(policy.before, f"{task}__before_"),
        after=_named_hook_list(policy.after, f"{task}__after_"),
        finally_=_named_hook_list(policy.finally_, f"{task}__finally_"),
    )


def _named_hook_list(tasks: tuple[TaskSyntax, ...], prefix: str) -> tuple[TaskSyntax, ...]:
    return tuple(_named_task(task, f"{prefix}{position}") for position, task in enumerate(tasks))


def _named_sugar(sugar: Sugar, default: str) -> Sugar:
    name = sugar.name or default
    branches = tuple(_named_branch(branch, f"{name}__b{index}_") for index, branch in enumerate(sugar.branches))
    return replace(sugar, name=name, branches=branches)


def _named_branch(branch: Branch, prefix: str) -> Branch:
    return replace(branch, body=_named_list(branch.body, prefix))
