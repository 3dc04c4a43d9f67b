"""Values that differ from what a template expects: a status that no outcome has, a variable that nothing writes, and
the result of a task in its own rules.

Each of them is null or false at run time, so the run takes another way without an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.base.diagnostics import is_template
from noetl.language.compiling.embedded_code import KIND, MAX_PYTHON_CHARACTERS, tree_of
from noetl.language.compiling.passes import MAIN, Compilation, every_task, pipelines
from noetl.language.compiling.python_results import list_names
from noetl.language.compiling.step_names import arcs_of
from noetl.language.compiling.template_sites import written_texts
from noetl.language.compiling.text_positions import key_in, name_in, parsed, parsed_guard
from noetl.language.compiling.undefined_names import data_names
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import Dialect, Playbook, SetVars, StepSyntax, TaskSyntax
from noetl.templates.logic import Comparison
from noetl.templates.scope import TemplateSite

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
    reported: set[str] = set()
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        for read in template.references if template else ():
            name = str(read.path[0]) if read.path else ""
            if read.root not in roots or name in written_names | reported or name not in {*declared, _WRITABLE}:
                continue
            reported.add(name)
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
    return None if any(map(is_template, found)) else found | _collected_names(playbook)


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


def _collected_names(playbook: Playbook) -> set[str]:
    retries = [retry for step in playbook.steps for retry in step.retry]
    return {retry.collect.into.partition(".")[0] for retry in retries if retry.collect is not None}


# The `vars` and `set_ctx` of a looped step are written once, when its loop has ended.

_IN_ITERATIONS = frozenset((TemplateSite.TASK_INPUT, TemplateSite.TASK_POLICY))


def check_loop_variables(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_USED_BEFORE_SET: an iteration that reads, as if to add to it, what only its own step writes after the loop."""
    roots = ("ctx", "vars") if playbook.dialect is Dialect.V2_CASE else ("ctx",)
    for written in written_texts(playbook, compilation) if any(map(_own_writes, playbook.steps)) else ():
        step = written.step_of(playbook) if written.site in _IN_ITERATIONS else None
        own = {key for one in _own_writes(step) for key in one.values} if step is not None else set()
        template = parsed(written.text) if own else None
        read_here = [read for read in template.references if read.root in roots and read.path] if template else []
        # Other steps are looked at only where one of these names is read.
        if step is None or own.isdisjoint(read.path[0] for read in read_here):
            continue
        late = _written_late(step, playbook)
        for read in read_here:
            if read.path[0] in late:
                name = str(read.path[0])
                place = key_in(written.scalar, read.root, read.path[:1], playbook.source)
                message = f'"{name}" is written once, after the loop: no iteration of "{step.name}" sees it'
                hint = "let a rule of the task write it, or fold the values: loop.spec.policy.reducers"
                if playbook.dialect is Dialect.V2_CASE:
                    hint = "write it in a case rule: then: {set: {…}}"
                compilation.note("W_USED_BEFORE_SET", place, message, hint)
    return playbook


def _own_writes(step: StepSyntax) -> list[Mapping]:
    """The variables that a looped step writes at its end."""
    return [one for one in (step.vars, step.set_ctx) if one is not None] if step.loop is not None else []


def _written_late(step: StepSyntax, playbook: Playbook) -> set[str]:
    """The variables that only this step writes, and only after its loop. A step that runs again sees what it wrote
    before."""
    own = _own_writes(step)
    others = [one for one in _writes(playbook) if not any(one is mine for mine in own)]
    if not own or step.name in _reached(step, playbook) or not all(isinstance(one, Mapping | None) for one in others):
        return set()
    names = {key for one in own for key in one.values}
    return names - {key.partition(".")[0] for one in others if isinstance(one, Mapping) for key in one.values}


def _reached(step: StepSyntax, playbook: Playbook) -> set[str]:
    """The steps that a token can come to from this one."""
    arcs = {one.name: [str(arc.target.value) for arc in arcs_of(one)] for one in playbook.steps}
    found, pending = set[str](), list(arcs[step.name])
    while pending:
        name = pending.pop()
        # A computed target may be any step.
        new = set(arcs) if is_template(name) else {name}
        pending += [one for target in new - found for one in arcs.get(target, ())]
        found |= new
    return found


# The result of a task in the rules of its own policy: there its name still has the result of an earlier run.


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


# A text of the workload such as `"false"`: as a whole condition it is false (TPL-08), but inside a condition it is an
# ordinary text.

_SAYING_NO = frozenset({"false", "no", "off", "none", "null", "0"})


def check_text_truths(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_WORKLOAD_VALUE: `not workload.debug`, where `debug` is the text `"false"`."""
    held = playbook.workload.values if playbook.workload is not None else {}
    texts = {key: str(node.value) for key, node in held.items() if isinstance(node, Scalar) and _says_no(node)}
    others = {step.name for step in playbook.steps} if texts else set[str]()
    for written in written_texts(playbook, compilation) if texts else ():
        template = parsed(written.text)
        read = list(template.tested) if template is not None else []
        read += [(one.root, one.path) for one in template.comparisons if _asks_boolean(one)] if template else []
        for root, path in dict.fromkeys(read):
            key = path[0] if root == _WRITABLE and len(path) == 1 else root if not path and root not in others else None
            if key in texts:
                place = name_in(written.scalar, root, playbook.source)
                message = f'"{key}" is the text "{texts[str(key)]}": not, and, or, if and == take it for any other text'
                hint = f"write {key}: false under workload, or compare it with the text"
                compilation.note("W_WORKLOAD_VALUE", place, message, hint)
    return playbook


def _says_no(node: Scalar) -> bool:
    return isinstance(node.value, str) and node.value.strip().lower() in _SAYING_NO


def _asks_boolean(test: Comparison) -> bool:
    return test.op in ("==", "!=") and isinstance(test.values[0], bool)


# The status number of a call, compared with a text. A body may have a text of the name `status`, so only the names of
# calls are checked.

_OF_CALLS = frozenset(("error", "response", "outcome", "event", "status_code"))
_BODY = frozenset(("data", "details"))
_STATUS_PATHS = frozenset((("error", "status"), ("http", "status"), ("cause", "status")))


def check_status_texts(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_KIND: `error.status == '404'`, which is never true: the status of a call is a number."""
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        for test in template.comparisons if template is not None else ():
            words = (test.root, *test.path)
            is_status = words[-2:] in _STATUS_PATHS or words[-1] == "status_code"
            if test.root not in _OF_CALLS or not is_status or not _BODY.isdisjoint(words):
                continue
            for value in test.values:
                if isinstance(value, str) and value.isdecimal():
                    place = name_in(written.scalar, value, playbook.source, quoted=True)
                    message = f'{".".join(map(str, words))} is a number, and never the text "{value}"'
                    compilation.note("W_ERROR_KIND", place, message, f"write {value} without quotes")
    return playbook


# The whole result of a tool that wraps its payload: a mapping with `data` and more, which Python code takes for the
# list of rows in it. Templates walk through the rows themselves.


def check_whole_results(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_PYTHON: code that goes through the result of a query, a call or a playbook as if it were its rows."""
    wrapped = _wrapped_results(playbook, compilation)
    left = MAX_PYTHON_CHARACTERS
    for task, pipeline in every_task(playbook) if wrapped else ():
        code, args = task.inputs.get("code"), task.inputs.get("args")
        if task.kind != KIND or not isinstance(code, Scalar) or not isinstance(code.value, str):
            continue
        left -= len(code.value)
        own = {one.name for one in pipeline.tasks}
        tree = tree_of(code.value) if left >= 0 else None
        for name in sorted(list_names(tree)) if tree is not None else ():
            given = args.get(name) if isinstance(args, Mapping) else None
            read = _named_alone(given) if given is not None else name
            if read in wrapped and (given is not None or read not in own):
                place = given if given is not None else name_in(code, name, playbook.source)
                message = f'"{name}" is all that "{read}" gave, a mapping with data and more, and the code reads a list'
                compilation.note("W_PYTHON", place, message, f'write args: {{{name}: "{{{{ {read}.data }}}}"}}')
    return playbook


def _named_alone(node: Node) -> str | None:
    """The name that a template has and nothing else."""
    found = _ALONE.fullmatch(node.value.strip()) if isinstance(node, Scalar) and isinstance(node.value, str) else None
    return found[1] if found is not None else None


_ALONE = re.compile(r"\{\{\s*([^\W\d]\w*)\s*\}\}")


def _wrapped_results(playbook: Playbook, compilation: Compilation) -> set[str]:
    """The steps and tasks whose result has its payload under `data`."""
    found: set[str] = set()
    for pipeline in pipelines(playbook):
        step = pipeline.step
        if step is None or pipeline.part != MAIN:
            continue
        wrapping = [task for task in pipeline.tasks if _wraps(task, compilation)]
        found |= {task.name for task in wrapping if task.name is not None and step.loop is None}
        # A looped step has the list of payloads, and a noop without args passes on the result before it.
        last = next((task for task in reversed(pipeline.tasks) if task.kind != "noop" or "args" in task.inputs), None)
        if step.loop is None and last is not None and last in wrapping:
            found.add(step.name)
    return found - data_names(playbook)


def _wraps(task: TaskSyntax, compilation: Compilation) -> bool:
    kind = compilation.kinds.get(task.kind)
    return kind is not None and kind.unwraps
