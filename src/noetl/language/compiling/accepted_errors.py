"""Accepted errors: a rule, an arc or a case that is not about errors and takes them all the same (VAL-20, POL-01).

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
from noetl.language.reading.nodes import Mapping, Node, scalars
from noetl.language.reading.playbook import Dialect, Playbook, PolicySyntax, RuleSyntax, TaskSyntax
from noetl.templates.logic import Compare, Shape

_GOES_ON = ("continue", "jump", "break")
# What an author reads who has errors in mind; `output` is the outcome's name in v10-io.
_OF_ERRORS = ("status", "error", "http", "pg", "py", "meta")
_OUTCOMES = ("outcome", "output")


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
