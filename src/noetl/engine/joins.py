"""Joins: when the tokens of a fork group meet, and when they no longer can (ROUTE-11, O-01).

A fork group is the set of tokens that one event created. The state counts where the tokens of each group are, so that
the cost of a decision does not grow with the group. A join that can fire does so before anything else moves; the proofs
of `noetl check` assume the same.
"""

from __future__ import annotations

from noetl.base.ids import derived
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution
from noetl.engine.held_tokens import Fork
from noetl.engine.identity import run_id_of
from noetl.engine.plan import Plan
from noetl.engine.withdrawal import remaining_tokens, withdraw
from noetl.events.control import JoinFilled, JoinUnfilled
from noetl.events.outcomes import Error
from noetl.events.tokens import TokenConsumed
from noetl.net.routing import Join, JoinMode


def settle_joins(plan: Plan, execution: Execution, fork: Fork, at: float) -> Decision:
    """Fire one join of the group, or fail the joins that can never fire. No change while tokens are on their way."""
    for step in fork.waiting:
        if _can_fire(plan, execution, fork, step):
            return _fire(plan, execution, fork, step, at)
    # Any token that is still on its way may fill a join.
    if fork.out:
        return Decision()
    unfillable = [
        step
        for step in fork.waiting
        if _join_of(plan, step).mode is JoinMode.COUNT and not _has_enough(plan, fork, step)
    ]
    # A deadlock inside the group: several joins wait for all tokens, and each of them holds some.
    if (
        not unfillable
        and all(_join_of(plan, step).mode is JoinMode.ALL for step in fork.waiting)
        and len(fork.waiting) > 1
    ):
        unfillable = list(fork.waiting)
    return fail_joins(plan, execution, fork, unfillable, at)


def fail_joins(plan: Plan, execution: Execution, fork: Fork, steps: list[str], at: float) -> Decision:
    """Fail these joins with the tokens that have arrived."""
    # The cause is derived: a decision that is repeated after a lost commit has the same ids (docs/decisions/0013).
    draft = Draft(execution, at, derived(fork.fork_id, *steps, JoinUnfilled.event_type))
    for step in steps:
        arrived = list(fork.waiting[step])
        error = Error(kind="join.unfilled", message=_unfillable_reason(plan, fork, step))
        _merge_tokens(
            draft,
            execution,
            step,
            JoinUnfilled(token_id=arrived[-1], fork=fork.fork_id, tokens=tuple(arrived), error=error),
        )
    return draft.decision()


def _can_fire(plan: Plan, execution: Execution, fork: Fork, step: str) -> bool:
    rule = _join_of(plan, step)
    # A join with `rest: block` has fired for another group that is still alive. It fires again when that group ends.
    if rule.rest == "block" and step in execution.held.blocked:
        return False
    match rule.mode:
        case JoinMode.ALL:
            # All tokens that are left of the group wait here. Tokens that ended elsewhere no longer count.
            return not fork.out and len(fork.waiting) == 1
        case JoinMode.ACTIVE:
            # Only tokens that can still reach this step are waited for.
            return not any(at == step or step in plan.reachable(at) for at in fork.out)
        case JoinMode.ANY | JoinMode.COUNT:
            return _has_enough(plan, fork, step)


def _fire(plan: Plan, execution: Execution, fork: Fork, step: str, at: float) -> Decision:
    rule, arrived = _join_of(plan, step), list(fork.waiting[step])
    draft = Draft(execution, at, derived(fork.fork_id, step, JoinFilled.event_type))
    blocks = rule.rest == "block"
    filled = JoinFilled(token_id=arrived[-1], fork=fork.fork_id, tokens=tuple(arrived), blocks=blocks)
    _merge_tokens(draft, execution, step, filled)
    if rule.rest == "cancel":
        withdraw(draft, execution, remaining_tokens(execution, fork.fork_id, arrived))
    return draft.decision()


def _merge_tokens(draft: Draft, execution: Execution, step: str, joined: JoinFilled | JoinUnfilled) -> None:
    """Continue with the last token that arrived, and consume the others."""
    last = execution.tokens[joined.token_id]
    draft.add(joined, step=step, step_run_id=run_id_of(last.token_id), parent_id=last.event_id)
    for token_id in joined.tokens[:-1]:
        run_id = run_id_of(token_id)
        draft.add(TokenConsumed(token_id=token_id), step=step, step_run_id=run_id, parent_id=last.event_id)


def _join_of(plan: Plan, step: str) -> Join:
    rule = plan.step(step).join
    assert rule is not None, "only a step that joins holds tokens of a group"
    return rule


def _needed_tokens(rule: Join) -> int:
    return max(rule.count or 1, 1) if rule.mode is JoinMode.COUNT else 1


def _has_enough(plan: Plan, fork: Fork, step: str) -> bool:
    return len(fork.waiting[step]) >= _needed_tokens(_join_of(plan, step))


def _unfillable_reason(plan: Plan, fork: Fork, step: str) -> str:
    rule, arrived = _join_of(plan, step), len(fork.waiting[step])
    if rule.mode is JoinMode.COUNT:
        return f'the join of step "{step}" needs {_needed_tokens(rule)} tokens, {arrived} came and no other can'
    elsewhere = ", ".join(f'"{other}"' for other in fork.waiting if other != step)
    others = f"; others of its group wait at {elsewhere}" if elsewhere else ""
    return f'the join of step "{step}" can no longer fill{others}'
