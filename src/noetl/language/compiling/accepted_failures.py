"""Accepted failures: an arc or a case rule that says nothing about the end of its step, and so follows a failure, too.

A failure takes an arc whose guard is true for it (ROUTE-05), and a case rule likewise (V2C-06). A guard on the
workload, or on what earlier steps left, is as true after a failure as after success: the next step runs on a result
that is not there, and the execution completes.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.source import is_template
from noetl.base.template_names import paths
from noetl.language.compiling.event_names import FAILED, names_of
from noetl.language.compiling.guards import ERROR_OUTCOME, Facts, cover, decided, shape_of
from noetl.language.compiling.lowering.values import inner
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.playbook import (
    ArcSyntax,
    CaseExit,
    CaseRuleSyntax,
    Playbook,
    PolicySyntax,
    RuleSyntax,
    StepSyntax,
    Sugar,
    TaskSyntax,
)
from noetl.templates.logic import And, Compare, Path, Shape

# Names that tell how the step, or its call, ended.
_OF_THE_END = frozenset(
    {"event", "error", "outcome", "output", "result", "response", "this", "status_code", "vars", "iter", "_prev"}
)
_CALL_FAILED: Facts = {("event", ("name",)): frozenset({"call.error", "ToolErrored"})}
_STEP_ENDED: Facts = {("event", ("name",)): frozenset({"step.exit"})}


def check_accepted_failures(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_ACCEPTED for arcs and case rules."""
    for step in playbook.steps:
        # The author has said what a failure of this step means: nothing is left to be advised.
        if not _can_fail(step) or inner(step.spec, "policy", "failure") is not None or step.on_error is not None:
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
    rules = step.case.rules if step.case is not None and step.eval_mode != "on_event" else ()
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
    """What a guard reads of how the step ended, or of what the step writes only when it succeeds."""
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


def _reads(when: Scalar | None) -> Iterator[tuple[str, ...]]:
    if when is not None and is_template(str(when.value)):
        yield from paths(str(when.value))


def _note_arc(arc: ArcSyntax, compilation: Compilation) -> None:
    assert arc.when is not None
    compilation.note(
        "W_ERROR_ACCEPTED",
        arc.when,
        f'a failure of this step takes the arc to "{arc.target.value}" as well: its guard does not look at the event',
        "write event.name != 'step.failed' and … in the guard, or put an arc on 'step.failed' before it",
    )


def _note_rule(rule: CaseRuleSyntax, compilation: Compilation) -> None:
    place = rule.when if rule.when is not None else rule.node
    if rule.when is None and isinstance(rule.node, Mapping):
        place = rule.node.keys.get("else", rule.node)
    compilation.note(
        "W_ERROR_ACCEPTED",
        place,
        "a failed call takes this rule as well, and the execution goes on without a result",
        "write event.name == 'call.done' and … in its when, or a rule on 'call.error' before it",
    )


# Exhausted retries: rules for the same errors behind a retry, which nobody asks once it is used up (POL-06).

_HANDLES = ("jump", "continue", "break")
_OF_ERRORS = ("status", "error", "http", "pg", "py")
_TESTS = ("==", "in")


def check_exhausted_retries(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_RETRY_LAST."""
    for task, _ in every_task(playbook):
        if task.policy is not None and not task.generated:
            _check(task.policy, compilation)
    return playbook


def _check(policy: PolicySyntax, compilation: Compilation) -> None:
    for position, rule in enumerate(policy.rules):
        if rule.then.do != "retry" or rule.then.on_exhausted is not None or rule.when is None:
            continue
        if any(read[0] == "_attempt" for read in paths(str(rule.when.value))):
            continue  # it lets the rules below have the last attempt
        if decided(shape_of(rule.when), ERROR_OUTCOME) is False:
            continue  # it asks a success again
        later = next((other for other in policy.rules[position + 1 :] if _is_meant_for_the_rest(other, rule)), None)
        if later is not None and later.when is not None:
            line = later.when.span.line
            message = f"when its attempts are used up the task fails, and the rule in line {line} is not asked"
            hint = "write … and _attempt < N in this when, N being attempts: the rules below are asked after that"
            compilation.note("W_RETRY_LAST", rule.when, message, hint)


def _is_meant_for_the_rest(other: RuleSyntax, rule: RuleSyntax) -> bool:
    """Whether a later rule handles errors that the retry takes first."""
    if other.then.do not in _HANDLES or other.when is None:
        return False
    shape = shape_of(other.when)
    tests = _conjunction(shape)
    about_errors = any(test.root == "outcome" and test.path[:1] and test.path[0] in _OF_ERRORS for test in tests)
    if not about_errors or decided(shape, ERROR_OUTCOME) is False:
        return False
    return _takes_the_same(_conjunction(shape_of(rule.when)), tests)


def _conjunction(shape: Shape) -> list[Compare]:
    """The tests that must all hold; none where one of them is not plain."""
    parts = shape.parts if isinstance(shape, And) else (shape,)
    tests = [part for part in parts if isinstance(part, Compare)]
    return tests if len(tests) == len(parts) else []


def _takes_the_same(retried: list[Compare], handled: list[Compare]) -> bool:
    """Whether what a rule asks of an error, beyond being one, is asked by the retry as well."""
    asked = _values(retried)
    open_tests = _values([test for test in handled if decided(test, ERROR_OUTCOME) is not True])
    return all(asked.get(path, set()) & values for path, values in open_tests.items())


def _values(tests: list[Compare]) -> dict[tuple[str, Path], set[object]]:
    return {(test.root, test.path): set(test.values) for test in tests if test.op in _TESTS}
