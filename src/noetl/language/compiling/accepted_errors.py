"""Accepted errors: a rule, an arc or a case that is not about errors and takes them all the same (VAL-20, POL-01). Also
rules that wait for a kind of error which their tool never gives.

`else` takes every outcome that is left, a failed call included: the pipeline goes on without a result, and the
execution completes. Where an author names errors, by a condition or by what a rule writes, that is a decision, and
nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.diagnostics import PositionedDiagnostic
from noetl.base.source import is_template
from noetl.base.template_names import paths
from noetl.language.compiling.guards import ERROR_OUTCOME, cover, decided, shape_of, tests_of
from noetl.language.compiling.passes import Compilation, key_place
from noetl.language.compiling.pipelines import Pipeline, every_task
from noetl.language.compiling.template_sites import written_texts
from noetl.language.compiling.text_positions import name_in, parsed
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import Dialect, Playbook, PolicySyntax, RuleSyntax, StepSyntax, TaskSyntax
from noetl.language.reading.shared_checks import nearest
from noetl.net.kinds import COMMON_ERRORS, STEP_ERRORS
from noetl.templates.logic import Compare, Shape

_GOES_ON = ("continue", "jump", "break")
# What an author reads who has errors in mind; `output` is the outcome's name in v10-io.
_OF_ERRORS = ("status", "error", "http", "pg", "py", "meta")
_OUTCOMES = ("outcome", "output")
# Where a condition finds the kind of an error, by what it is a condition of.
_OF_TASK = frozenset({("outcome", ("error", "kind"))})
_OF_STEP = frozenset({("event", ("error", "kind")), ("response", ("error", "kind")), ("error", ("kind",))})


def check_accepted_errors(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_ACCEPTED for the rules of tasks."""
    suspects = [
        (task, pipeline, rule)
        for task, pipeline in every_task(playbook)
        if task.policy is not None and task.kind != "noop" and not task.generated and not pipeline.is_hook
        for rule in _accepting(task.policy)
    ]
    if suspects:
        looked_at = _status_reads(playbook, compilation)
        for task, pipeline, rule in suspects:
            if not looked_at & _names_of(task, pipeline):
                _note(rule, playbook, compilation)
    return playbook


def _accepting(policy: PolicySyntax) -> Iterator[RuleSyntax]:
    """The first rule that lets an error pass without being about errors, if there is one."""
    earlier: list[Shape] = []
    for rule in policy.rules:
        if cover(earlier, ERROR_OUTCOME) or any(_leaves_errors(shape) for shape in earlier):
            return
        shape = shape_of(rule.when)
        if _goes_on(rule) and _may_take_errors(rule, shape) and not _is_about_errors(rule):
            yield rule
            return
        earlier.append(shape)


def _goes_on(rule: RuleSyntax) -> bool:
    """Whether a rule lets the pipeline go on; one that says `fail` in a wrong way is another mistake."""
    node = rule.then.node
    return rule.then.do in _GOES_ON and not (isinstance(node, Mapping) and "fail" in node)


def _leaves_errors(shape: Shape) -> bool:
    """Whether a condition asks for success: its author knows that the rules after it are for errors."""
    asked = [test for test in tests_of(shape) if isinstance(test, Compare) and test.root in _OUTCOMES]
    return any(test.path[:1] in (("status",), ("error",)) for test in asked) and decided(shape, ERROR_OUTCOME) is False


def _may_take_errors(rule: RuleSyntax, shape: Shape) -> bool:
    """Whether the condition can hold for an error, which has no result."""
    no_result: dict[Shape, bool] = {
        test: test.op in ("!=", "not in")
        for test in tests_of(shape)
        if isinstance(test, Compare) and test.root in _OUTCOMES and test.path[:1] == ("result",)
    }
    told = decided(shape, ERROR_OUTCOME, no_result)
    if told is not None:
        return told
    return not any(read[0] in _OUTCOMES for read in _reads(rule.when))


def _is_about_errors(rule: RuleSyntax) -> bool:
    then = rule.then
    written = (rule.when, then.set_iter, then.set_ctx, then.set_vars, then.set_shared, then.set_prev)
    return any(
        read[0] in _OUTCOMES and (len(read) == 1 or read[1] in _OF_ERRORS) for node in written for read in _reads(node)
    )


def _reads(node: Node | None) -> Iterator[tuple[str, ...]]:
    for scalar in scalars(node) if node is not None else ():
        text = str(scalar.value)
        if is_template(text):
            yield from paths(text)


def _status_reads(playbook: Playbook, compilation: Compilation) -> frozenset[str]:
    """The tasks and steps whose `.status` or `.error` is read anywhere."""
    reads = (read for written in written_texts(playbook, compilation) for read in paths(written.text))
    return frozenset(read[0] for read in reads if len(read) > 1 and read[1] in ("status", "error"))


def _names_of(task: TaskSyntax, pipeline: Pipeline) -> frozenset[str]:
    """The names by which the outcome of a task is read: its own, and that of its step where it is the last."""
    last = pipeline.step is not None and pipeline.items[-1] is task
    return frozenset({task.name or ""} | ({pipeline.step.name} if pipeline.step is not None and last else set()))


def _note(rule: RuleSyntax, playbook: Playbook, compilation: Compilation) -> None:
    older = playbook.dialect.rules is not Dialect.V10
    word = "expr" if older else "when"
    error = f"{word}: \"{{{{ outcome.status == 'error' }}}}\""
    fail, go_on = ("do: fail", "do: continue") if older else ("then: {do: fail}", "then: {do: continue}")
    what = "else" if rule.when is None else "this rule"
    compilation.note(
        "W_ERROR_ACCEPTED",
        _place(rule),
        f"{what} takes errors as well: when the task fails, the pipeline goes on and its result is null",
        f"write {{{error}, {fail}}} before it, or with {go_on} if errors may pass",
    )


def _place(rule: RuleSyntax) -> PositionedDiagnostic:
    if rule.when is not None:
        return rule.when
    node = rule.node
    return key_place(node, "else", node) if isinstance(node, Mapping) else node


# Error kinds: a rule that waits for a kind of error which its tool never gives will never hold (VAL-20).
#
# The kinds are those that the tool's own declaration lists, and those that any task may end with.


def check_error_kinds(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_KIND."""
    for task, _ in every_task(playbook):
        for rule in task.policy.rules if task.policy else ():
            _check(rule.when, _OF_TASK, (task,), playbook, compilation)
    for step in playbook.steps:
        tasks = tuple(_tasks_of(step))
        for when in _conditions(step):
            _check(when, _OF_STEP, tasks, playbook, compilation)
    return playbook


def _tasks_of(step: StepSyntax) -> Iterator[TaskSyntax]:
    """Every task whose error can end the step."""
    yield from (task for task in step.tasks if isinstance(task, TaskSyntax))
    yield from (step.sink,) if step.sink is not None else ()
    for rule in step.case.rules if step.case is not None else ():
        yield from (action for action in rule.actions if isinstance(action, TaskSyntax))
    for retry in step.retry:
        yield from (retry.sink,) if retry.sink is not None else ()


def _conditions(step: StepSyntax) -> Iterator[Scalar | None]:
    """What is looked at when the step, or its call, has ended: arcs, case rules, retries."""
    yield from (arc.when for arc in (step.router.arcs if step.router is not None else ()))
    yield from (rule.when for rule in (step.case.rules if step.case is not None else ()))
    yield from (retry.when for retry in step.retry)


def _check(
    when: Scalar | None,
    places: frozenset[tuple[str, tuple[str, ...]]],
    tasks: tuple[TaskSyntax, ...],
    playbook: Playbook,
    compilation: Compilation,
) -> None:
    template = parsed(str(when.value)) if when is not None and is_template(str(when.value)) else None
    words = [
        word
        for test in (template.comparisons if template is not None else ())
        if (test.root, test.path) in places
        for word in test.values
        if isinstance(word, str)
    ]
    if not words or when is None:
        return
    kinds = [compilation.kinds.get(task.kind) for task in tasks]
    known = [kind for kind in kinds if kind is not None and kind.error_kinds]
    if not known or len(known) < len(kinds):  # of a plug-in nobody knows
        return
    own = tuple(dict.fromkeys(word for kind in known for word in (*kind.error_kinds, *kind.error_aliases)))
    given = tuple(dict.fromkeys(word for kind in known for word in kind.error_kinds))
    names = " or ".join(f'"{name}"' for name in dict.fromkeys(kind.name for kind in known))
    for word in words:
        if word not in own and word not in COMMON_ERRORS and (places is _OF_TASK or word not in STEP_ERRORS):
            guess = nearest(word, own) or nearest(word, COMMON_ERRORS)
            here = f"it gives {', '.join((*given, *COMMON_ERRORS))}"
            hint = f'did you mean "{guess}"? {here}' if guess else here
            place = name_in(when, word, playbook.source, quoted=True)
            compilation.note("W_ERROR_KIND", place, f'no {names} task ends with the error "{word}"', hint)
