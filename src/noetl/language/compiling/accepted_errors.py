"""Accepted errors: rules and arcs that accept an error or a failure without naming it (VAL-20, POL-01). Also rules for
errors that never come: those behind a retry for the same errors, and those for a kind of error which their tool never
gives.

`else` matches every remaining outcome, a failed call included: the pipeline continues without a result, and the
execution completes. If an author refers to errors, in a condition or in what a rule writes, that is a decision, and
there is no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.diagnostics import PositionedDiagnostic, is_template, nearest_word
from noetl.base.template_names import paths
from noetl.language.compiling.guards import ERROR_OUTCOME, FAILED, Facts, cover, decided, names_of, shape_of, tests_of
from noetl.language.compiling.passes import Compilation, Pipeline, every_task, key_place
from noetl.language.compiling.template_sites import written_texts
from noetl.language.compiling.text_positions import name_in, parsed_guard
from noetl.language.reading.nodes import Mapping, Node, Scalar, inner, scalars
from noetl.language.reading.playbook import (
    ArcSyntax,
    CaseExit,
    CaseRuleSyntax,
    Dialect,
    Playbook,
    PolicySyntax,
    RuleSyntax,
    StepSyntax,
    Sugar,
    TaskSyntax,
)
from noetl.net.kinds import COMMON_ERRORS, STEP_ERRORS
from noetl.templates.logic import And, Compare, Path, Shape

_GOES_ON = ("continue", "jump", "break")
# Names that an author reads with errors in mind; `output` is the outcome's name in v10-io.
_ERROR_FIELDS = ("status", "error", "http", "pg", "py")
_OF_ERRORS = (*_ERROR_FIELDS, "meta")
_OUTCOMES = ("outcome", "output")
# The name under which a condition reads the kind of an error, by the construct that has the condition.
_OF_TASK = frozenset({("outcome", ("error", "kind"))})
_OF_STEP = frozenset({("event", ("error", "kind")), ("response", ("error", "kind")), ("error", ("kind",))})


def check_accepted_errors(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_ACCEPTED for the rules of tasks."""
    suspects = [
        (task, pipeline, rule)
        for task, pipeline in every_task(playbook)
        # A noop cannot fail, a generated task has no author, and a hook that fails changes nothing.
        if task.policy is not None and task.kind != "noop" and not task.generated and not pipeline.is_hook
        for rule in _accepting_rules(task.policy)
    ]
    # Only then are all texts of the document searched.
    if suspects:
        looked_at = _status_reads(playbook, compilation)
        for task, pipeline, rule in suspects:
            if not looked_at & _names_of(task, pipeline):
                _note(rule, playbook, compilation)
    return playbook


def _accepting_rules(policy: PolicySyntax) -> Iterator[RuleSyntax]:
    """The first rule that accepts an error although it is not about errors, if there is one."""
    earlier: list[Shape] = []
    for rule in policy.rules:
        # An earlier rule handles errors, or the author has handled success separately on purpose.
        if cover(earlier, ERROR_OUTCOME) or any(_leaves_errors(shape) for shape in earlier):
            return
        shape = shape_of(rule.when)
        if _goes_on(rule) and _may_take_errors(rule, shape) and not _is_about_errors(rule):
            yield rule
            return
        earlier.append(shape)


def _goes_on(rule: RuleSyntax) -> bool:
    """Whether a rule lets the pipeline continue. A misspelt `fail` is another finding."""
    node = rule.then.node
    return rule.then.do in _GOES_ON and not (isinstance(node, Mapping) and "fail" in node)


def _leaves_errors(shape: Shape) -> bool:
    """Whether a condition tests for success: then its author knows that the rules after it are for errors."""
    asked = [test for test in tests_of(shape) if isinstance(test, Compare) and test.root in _OUTCOMES]
    return any(test.path[:1] in (("status",), ("error",)) for test in asked) and decided(shape, ERROR_OUTCOME) is False


def _may_take_errors(rule: RuleSyntax, shape: Shape) -> bool:
    """Whether the condition can hold for an error, which has no result."""
    no_result: dict[Shape, bool] = {
        test: test.op in ("!=", "not in")
        for test in tests_of(shape)
        if isinstance(test, Compare) and test.root in _OUTCOMES and test.path[:1] == ("result",)
    }
    takes_errors = decided(shape, ERROR_OUTCOME, no_result)
    if takes_errors is not None:
        return takes_errors
    # Not decidable: a condition that reads the outcome gets no finding.
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
        _place_of_rule(rule),
        f"{what} takes errors as well: when the task fails, the pipeline goes on and its result is null",
        f"write {{{error}, {fail}}} before it, or with {go_on} if errors may pass",
    )


def _place_of_rule(rule: RuleSyntax | CaseRuleSyntax) -> PositionedDiagnostic:
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
            _check_kinds(rule.when, _OF_TASK, (task,), playbook, compilation)
    for step in playbook.steps:
        tasks = tuple(_tasks_of(step))
        for when in _conditions(step):
            _check_kinds(when, _OF_STEP, tasks, playbook, compilation)
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
    """Conditions that are evaluated when the step, or its call, has ended: arcs, case rules, retries."""
    yield from (arc.when for arc in (step.router.arcs if step.router is not None else ()))
    yield from (rule.when for rule in (step.case.rules if step.case is not None else ()))
    yield from (retry.when for retry in step.retry)


def _check_kinds(
    when: Scalar | None,
    places: frozenset[tuple[str, tuple[str, ...]]],
    tasks: tuple[TaskSyntax, ...],
    playbook: Playbook,
    compilation: Compilation,
) -> None:
    template = parsed_guard(when)
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
    if not known or len(known) < len(kinds):  # the error kinds of a plug-in are unknown
        return
    own = tuple(dict.fromkeys(word for kind in known for word in (*kind.error_kinds, *kind.error_aliases)))
    given = tuple(dict.fromkeys(word for kind in known for word in kind.error_kinds))
    names = " or ".join(f'"{name}"' for name in dict.fromkeys(kind.name for kind in known))
    for word in words:
        if word not in own and word not in COMMON_ERRORS and (places is _OF_TASK or word not in STEP_ERRORS):
            guess = nearest_word(word, own) or nearest_word(word, COMMON_ERRORS)
            here = f"it gives {', '.join((*given, *COMMON_ERRORS))}"
            hint = f'did you mean "{guess}"? {here}' if guess else here
            place = name_in(when, word, playbook.source, quoted=True)
            compilation.note("W_ERROR_KIND", place, f'no {names} task ends with the error "{word}"', hint)


# Accepted failures: a failure takes an arc whose guard is true for it (ROUTE-05), and a case rule likewise (V2C-06). A
# guard on the workload, or on results of earlier steps, is as true after a failure as after success: the next step runs
# with a missing result, and the execution completes.

# Names that tell how the step, or its call, ended.
_OF_THE_END = frozenset(
    {"event", "error", "outcome", "output", "result", "response", "this", "status_code", "vars", "iter", "_prev"}
)
_CALL_FAILED: Facts = {("event", ("name",)): frozenset({"call.error", "ToolErrored"})}
_STEP_ENDED: Facts = {("event", ("name",)): frozenset({"step.exit"})}


def check_accepted_failures(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_ACCEPTED for arcs and case rules."""
    for step in playbook.steps:
        # The author has specified what a failure of this step means, so there is nothing to report.
        if (
            not _can_fail(step)
            or inner(step.spec, "policy", "failure") is not None
            or step.options.on_error is not None
        ):
            continue
        for arc in _arcs(step):
            _note_arc(arc, compilation)
        for rule in _case_rules(step):
            _note_rule(rule, compilation)
    return playbook


def _can_fail(step: StepSyntax) -> bool:
    return any(isinstance(task, Sugar) or task.kind != "noop" for task in step.tasks)


def _arcs(step: StepSyntax) -> Iterator[ArcSyntax]:
    """Guarded arcs that a failure can take by a guard that does not look at it."""
    router = step.router
    failed: Facts = {("event", ("name",)): names_of(FAILED, step)}
    earlier: list[Shape] = []
    for arc in router.arcs if router is not None else ():
        if arc.when is None:
            continue  # the success path
        shape = shape_of(arc.when)
        taken = router is not None and router.mode == "exclusive" and cover(earlier, failed)
        if not taken and decided(shape, failed) is not False and not _looks_at_end(arc.when, step):
            yield arc
        earlier.append(shape)


def _case_rules(step: StepSyntax) -> Iterator[CaseRuleSyntax]:
    """The first rule that leads on after a failed call, where no rule of the step is about failures."""
    # In `on_event` mode rules also receive events of other steps, so the consequence of a failure is not known.
    rules = step.case.rules if step.case is not None and step.options.eval_mode != "on_event" else ()
    if any(_asks_for_failure(rule) for rule in rules) or any(retry.on_exhausted for retry in step.retry):
        return
    for rule in rules:
        leads = any(isinstance(action, CaseExit) for action in rule.actions)
        if rule.when is None:
            suspect = not any(_looks_at_end(other.when, step) for other in rules)
        else:
            suspect = _only_exit(rule.when, step) or not _looks_at_end(rule.when, step)
        if leads and suspect:
            yield rule
            return


def _asks_for_failure(rule: CaseRuleSyntax) -> bool:
    reads = set(_reads(rule.when))
    if any(read[0] in ("error", "this", "status_code") or read[:2] == ("response", "error") for read in reads):
        return True
    return ("event", "name") in reads and decided(shape_of(rule.when), _CALL_FAILED) is not False


def _only_exit(when: Scalar | None, step: StepSyntax) -> bool:
    """`event.name == 'step.exit'` and nothing else about the end: a failed call has that event, too."""
    return _end_reads(when, step) == {("event", "name")} and decided(shape_of(when), _STEP_ENDED) is not False


def _looks_at_end(when: Scalar | None, step: StepSyntax) -> bool:
    return bool(_end_reads(when, step))


def _end_reads(when: Scalar | None, step: StepSyntax) -> set[tuple[str, ...]]:
    """The names in a guard for the outcome of the step, or for values that the step writes only when it succeeds."""
    names = _OF_THE_END | {step.name} | {task.name or "" for task in step.tasks}
    written = set(_written_names(step))
    return {
        read
        for read in _reads(when)
        if read[0] in names or read[0] in written or (read[0] == "ctx" and (len(read) == 1 or read[1] in written))
    }


def _written_names(step: StepSyntax) -> Iterator[str]:
    for block in (step.set_ctx, step.vars):
        yield from block.keys if block is not None else ()
    for task in step.tasks:
        for rule in task.policy.rules if isinstance(task, TaskSyntax) and task.policy is not None else ():
            for writes in (rule.then.set_ctx, rule.then.set_vars, rule.then.set_shared):
                yield from writes.keys if writes is not None else ()


def _note_arc(arc: ArcSyntax, compilation: Compilation) -> None:
    assert arc.when is not None
    compilation.note(
        "W_ERROR_ACCEPTED",
        arc.when,
        f'a failure of this step takes the arc to "{arc.target.value}" as well: its guard does not look at the event',
        "write event.name != 'step.failed' and … in the guard, or put an arc on 'step.failed' before it",
    )


def _note_rule(rule: CaseRuleSyntax, compilation: Compilation) -> None:
    compilation.note(
        "W_ERROR_ACCEPTED",
        _place_of_rule(rule),
        "a failed call takes this rule as well, and the execution goes on without a result",
        "write event.name == 'call.done' and … in its when, or a rule on 'call.error' before it",
    )


# Exhausted retries: rules for the same errors after a retry. They are not tried when the retry is used up (POL-06).

_HANDLES = ("jump", "continue", "break")
_TESTS = ("==", "in")


def check_exhausted_retries(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_RETRY_LAST."""
    for task, _ in every_task(playbook):
        if task.policy is not None and not task.generated:
            _check_retries(task.policy, compilation)
    return playbook


def _check_retries(policy: PolicySyntax, compilation: Compilation) -> None:
    for position, rule in enumerate(policy.rules):
        if rule.then.do != "retry" or rule.then.on_exhausted is not None or rule.when is None:
            continue
        if any(read[0] == "_attempt" for read in paths(str(rule.when.value))):
            # With on_exhausted: continue, the rules below handle the last attempt.
            continue
        if decided(shape_of(rule.when), ERROR_OUTCOME) is False:
            continue  # it asks a success again
        later = next((other for other in policy.rules[position + 1 :] if _is_meant_for_the_rest(other, rule)), None)
        if later is not None and later.when is not None:
            line = later.when.span.line
            message = f"after the last attempt the task fails, and the rule in line {line} is never reached"
            hint = "add … and _attempt < N to this when, N being attempts: the last error then reaches the rules below"
            compilation.note("W_RETRY_LAST", rule.when, message, hint)


def _is_meant_for_the_rest(other: RuleSyntax, rule: RuleSyntax) -> bool:
    """Whether a later rule handles errors that the retry takes first."""
    if other.then.do not in _HANDLES or other.when is None:
        return False
    shape = shape_of(other.when)
    tests = _conjunction(shape)
    about_errors = any(test.root == "outcome" and test.path[:1] and test.path[0] in _ERROR_FIELDS for test in tests)
    if not about_errors or decided(shape, ERROR_OUTCOME) is False:
        return False
    return _takes_the_same(_conjunction(shape_of(rule.when)), tests)


def _conjunction(shape: Shape) -> list[Compare]:
    """The tests that must all hold; none where one of them is not plain."""
    parts = shape.parts if isinstance(shape, And) else (shape,)
    tests = [part for part in parts if isinstance(part, Compare)]
    return tests if len(tests) == len(parts) else []


def _takes_the_same(retried: list[Compare], handled: list[Compare]) -> bool:
    """Whether the retry makes the same tests of an error as the rule."""
    asked = _values(retried)
    open_tests = _values([test for test in handled if decided(test, ERROR_OUTCOME) is not True])
    return all(asked.get(path, set()) & values for path, values in open_tests.items())


def _values(tests: list[Compare]) -> dict[tuple[str, Path], set[object]]:
    return {(test.root, test.path): set(test.values) for test in tests if test.op in _TESTS}
