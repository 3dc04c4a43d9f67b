"""Exhausted retries: rules for the same errors behind a retry, which nobody asks once it is used up (POL-06).

`retry` on 503 and then `jump` to a fallback on any error reads like a fallback after the retries. It is one for other
errors only: the last attempt fails the task.
"""

from __future__ import annotations

from noetl.base.template_names import paths
from noetl.language.compiling.guards import ERROR_OUTCOME, decided, shape_of
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.reading.playbook import Playbook, PolicySyntax, RuleSyntax
from noetl.templates.logic import And, Compare, Path, Shape

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
