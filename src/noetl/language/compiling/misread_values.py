"""Values that are something else than a template takes them for: a status that no outcome has, a variable that nothing
writes, and the result of a task in its own rules.

Each of them is null or false at run time, so the run goes on another way and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.diagnostics import is_template
from noetl.language.compiling.passes import Compilation, every_task
from noetl.language.compiling.step_names import arcs_of
from noetl.language.compiling.template_sites import written_texts
from noetl.language.compiling.text_positions import key_in, name_in, parsed, parsed_guard
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import Dialect, Playbook, SetVars, StepSyntax, TaskSyntax

_STATUSES = ("success", "error")


def check_outcome_statuses(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_KIND: `outcome.status` compared with what it never is."""
    for task, _ in every_task(playbook):
        for rule in task.policy.rules if task.policy else ():
            _check_status(rule.when, playbook, compilation)
    return playbook


def _check_status(when: Scalar | None, playbook: Playbook, compilation: Compilation) -> None:
    template = parsed_guard(when)
    for test in template.comparisons if template is not None and when is not None else ():
        if (test.root, test.path) != ("outcome", ("status",)):
            continue
        for word in test.values:
            if when is None or word in _STATUSES or isinstance(word, bool):
                continue
            if isinstance(word, int):
                place = key_in(when, "outcome", test.path, playbook.source)
                hint = "write outcome.http.status for the number that a server answered with"
            else:
                place = name_in(when, str(word), playbook.source, quoted=True)
                hint = "write outcome.status == 'error', or 'success'"
            message = f"outcome.status is success or error, and never {word}"
            compilation.note("W_ERROR_KIND", place, message, hint)


# Variables: `ctx` has what the playbook writes to it, and not the inputs of the run.

_WRITABLE = "workload"


def check_unwritten_variables(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_WORKLOAD_KEY: `ctx.region`, where the playbook writes no such variable and its workload has the key."""
    declared = playbook.workload.values.keys() if playbook.workload is not None else frozenset[str]()
    written_names = _variables(playbook)
    if written_names is None:
        return playbook
    roots = ("ctx", "vars") if playbook.dialect is Dialect.V2_CASE else ("ctx",)
    told: set[str] = set()
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        for read in template.references if template else ():
            name = str(read.path[0]) if read.path else ""
            if read.root not in roots or name in written_names | told or name not in {*declared, _WRITABLE}:
                continue
            told.add(name)
            place = key_in(written.scalar, read.root, read.path[:1], playbook.source)
            message = f"nothing writes {read.root}.{name}, so it is null"
            hint = "write workload.NAME" if name == _WRITABLE else f"the input of the run is workload.{name}"
            compilation.note("W_WORKLOAD_KEY", place, message, hint)
    return playbook


def _variables(playbook: Playbook) -> set[str] | None:
    """The variables of the execution that the playbook writes; None where a template gives their names."""
    found: set[str] = set()
    for one in _writes(playbook):
        if isinstance(one, Mapping):
            found |= {name.partition(".")[0] for name in one.values}
        elif one is not None:
            return None
    return None if any(map(is_template, found)) else found | _collected(playbook)


def _writes(playbook: Playbook) -> Iterator[Node | None]:
    yield playbook.ctx
    for task, _ in every_task(playbook):
        for rule in task.policy.rules if task.policy else ():
            then = rule.then
            yield from (then.set_ctx, then.set_vars, then.set_shared)
    for step in playbook.steps:
        yield from (step.set_ctx, step.vars, *(arc.set_ctx for arc in arcs_of(step)))
        for case in step.case.rules if step.case is not None else ():
            yield from (action.values for action in case.actions if isinstance(action, SetVars))


def _collected(playbook: Playbook) -> set[str]:
    retries = [retry for step in playbook.steps for retry in step.retry]
    return {retry.collect.into.partition(".")[0] for retry in retries if retry.collect is not None}


# The result of a task in the rules that decide about it: there its name still has the result of an earlier run.


def check_own_results(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_FOREIGN_NAME: a rule of the task `fetch` that reads `fetch`, where it runs once."""
    for step in playbook.steps:
        tasks = [task for task in step.tasks if isinstance(task, TaskSyntax)]
        if not _repeats(step, tasks):
            for task in tasks:
                _check_own(task, playbook, compilation)
    return playbook


def _repeats(step: StepSyntax, tasks: list[TaskSyntax]) -> bool:
    """Whether a task of the step may run again, so that its rules can mean the run before."""
    rules = [rule for task in tasks for rule in (task.policy.rules if task.policy else ())]
    return bool(step.retry) or any(rule.then.do in ("jump", "retry") for rule in rules)


def _check_own(task: TaskSyntax, playbook: Playbook, compilation: Compilation) -> None:
    for rule in task.policy.rules if task.policy and task.name else ():
        then = rule.then
        held = [rule.when, *(one for one in (then.set_ctx, then.set_iter, then.set_vars) if one is not None)]
        for scalar in (text for node in held if node is not None for text in scalars(node)):
            template = parsed(scalar.value) if isinstance(scalar.value, str) and is_template(scalar.value) else None
            names = {read.root for read in template.references if not read.defaulted} if template else set()
            if task.name in names:
                place = name_in(scalar, str(task.name), playbook.source)
                message = f'"{task.name}" is not set yet where its own rules decide, so it is null'
                compilation.note("W_FOREIGN_NAME", place, message, "write outcome.result, or outcome.data")
                return
