"""Policies and rules of tasks, lowered with each dialect's defaults written out (POL-02…04, V2E-03, V2E-04, C-03)."""

from __future__ import annotations

from collections.abc import Callable

from noetl.language.compiling.guards import ERROR_OUTCOME, decided, shape_of
from noetl.language.compiling.lowering.debug_map import Lowering
from noetl.language.compiling.lowering.values import authored, written
from noetl.language.compiling.passes import key_place
from noetl.language.reading.playbook import Dialect, TaskSyntax, Then
from noetl.language.reading.playbook import PolicySyntax as WrittenPolicy
from noetl.language.reading.playbook import RuleSyntax as WrittenRule
from noetl.net.task import Backoff, Directive, Mutations, Policy, Retry, Rule
from noetl.net.task import Task as NetTask
from noetl.templates.authored import Authored
from noetl.templates.logic import Const

# What 000 and 003 leave unsaid: an error that no rule took fails, a success goes on (V2E-04).
_DEFAULT_PAIR = (
    Rule(when=Authored("{{ outcome.status == 'error' }}"), do=Directive.FAIL),
    Rule(do=Directive.CONTINUE),
)


def lower_policy(
    lowering: Lowering,
    task: TaskSyntax,
    address: str,
    lower_hooks: Callable[[tuple[TaskSyntax, ...], str], tuple[NetTask, ...]],
) -> Policy | None:
    """None stands for "no policy at all": success continues, an error fails (POL-03)."""
    policy = task.policy
    if policy is None:
        if lowering.playbook.dialect is not Dialect.V2_EVAL:
            return None
        _trace_defaults(lowering, task, address, 0, len(_DEFAULT_PAIR))
        return Policy(rules=_DEFAULT_PAIR)
    for index, rule in enumerate(policy.rules):
        made = task.generated if rule.when is None else None  # a rule of nobody's words points at the construct
        lowering.trace(f"{address}/rules/{index}", key_place(task.node, made, rule) if made else rule, made or "")
    rules = _rules(policy)
    if len(rules) > len(policy.rules):
        _trace_defaults(lowering, task, address, len(policy.rules), len(rules))
    return Policy(
        rules=rules,
        on_unmatched=_on_unmatched(policy, lowering.on_unmatched),
        before=lower_hooks(policy.before, f"{address}/before"),
        after=lower_hooks(policy.after, f"{address}/after"),
        finally_=lower_hooks(policy.finally_, f"{address}/finally"),
    )


def _trace_defaults(lowering: Lowering, task: TaskSyntax, address: str, first: int, end: int) -> None:
    """The rules nobody wrote point at the task they complete."""
    for index in range(first, end):
        lowering.trace(f"{address}/rules/{index}", task.name_node or task, "default")


def _rules(policy: WrittenPolicy) -> tuple[Rule, ...]:
    rules = tuple(_rule(rule) for rule in policy.rules)
    if not policy.strict or any(rule.when is None for rule in policy.rules):
        return rules
    # Where the author takes every error with a rule of their own, a second one could never decide anything.
    shapes = [shape_of(rule.when) for rule in policy.rules]
    takes_errors = any(shape != Const(True) and decided(shape, ERROR_OUTCOME) is True for shape in shapes)
    return rules + (_DEFAULT_PAIR[1:] if takes_errors else _DEFAULT_PAIR)


def _on_unmatched(policy: WrittenPolicy, default: Directive) -> Directive:
    if policy.strict:  # its rules leave nothing unmatched
        return Directive.CONTINUE
    return Directive(policy.on_unmatched) if policy.on_unmatched else default


def _rule(rule: WrittenRule) -> Rule:
    then = rule.then
    return Rule(
        when=authored(rule.when),
        do=Directive(then.do),
        to=str(then.to.value) if then.to is not None and then.do == "jump" else None,
        retry=_retry(then) if then.do == "retry" else None,
        error=authored(then.error),
        mutations=_mutations(then),
    )


def _retry(then: Then) -> Retry:
    backoff = Backoff(then.backoff) if then.backoff else Backoff.NONE
    # A growing delay needs something to grow from: one second (POL-07).
    delay = authored(then.delay) or (Authored(1) if backoff is not Backoff.NONE else None)
    return Retry(
        attempts=written(then.attempts, 1),
        backoff=backoff,
        delay=delay,
        max_delay=authored(then.max_delay),
        jitter=authored(then.jitter),
        on_exhausted=Directive(then.on_exhausted) if then.on_exhausted else Directive.FAIL,
    )


def _mutations(then: Then) -> Mutations | None:
    writes = Mutations(
        set_iter=authored(then.set_iter),
        set_ctx=authored(then.set_ctx),
        set_vars=authored(then.set_vars),
        set_shared=authored(then.set_shared),
        set_prev=Authored(_plain(then)) if then.set_prev is not None else None,
    )
    return writes if writes != Mutations() else None


def _plain(then: Then) -> object:
    value = authored(then.set_prev)
    return value.data if value is not None else None
