"""Joins: when the tokens of a fork group meet, and when they no longer can (ROUTE-11, O-01).

The state counts where the tokens of each group are, so judging one group costs nothing for its size. A join that can
fire does so before anything else moves; the proofs of `noetl check` assume the same.
"""

from __future__ import annotations

from noetl.base.ids import derived
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution
from noetl.engine.held_tokens import Fork
from noetl.engine.identity import run_id_of
from noetl.engine.plan import Plan
from noetl.engine.withdrawal import rest_of, withdraw
from noetl.events.control import JoinFilled, JoinUnfilled
from noetl.events.outcomes import Error
from noetl.events.tokens import TokenConsumed
from noetl.net.routing import Join, JoinMode


def settle(plan: Plan, execution: Execution, fork: Fork, at: float) -> Decision:
    """Let one join of the group fire, or fail those that never will; nothing while others are still to come."""
    for step in fork.waiting:
        if _can_fire(plan, execution, fork, step):
            return _fire(plan, execution, fork, step, at)
    # Tokens of the group are still on their way, and any of them may fill a join.
    if fork.out:
        return Decision()
    short = [
        step for step in fork.waiting if _rule(plan, step).mode is JoinMode.COUNT and not _enough(plan, fork, step)
    ]
    # A deadlock inside the group: no token is on its way, and every join waits for all tokens.
    if not short and all(_rule(plan, step).mode is JoinMode.ALL for step in fork.waiting) and len(fork.waiting) > 1:
        short = list(fork.waiting)  # each waits for the tokens that another one holds
    return give_up(plan, execution, fork, short, at)


def give_up(plan: Plan, execution: Execution, fork: Fork, steps: list[str], at: float) -> Decision:
    """Fail these joins with what they have."""
    # Ids are derived, so that a decision that is made again after a lost commit has the same ids
    # (docs/decisions/0013).
    draft = Draft(execution, at, derived(fork.fork_id, *steps, JoinUnfilled.event_type))
    for step in steps:
        came = list(fork.waiting[step])
        error = Error(kind="join.unfilled", message=_unfillable_reason(plan, fork, step))
        _merge_tokens(
            draft, execution, step, JoinUnfilled(token_id=came[-1], fork=fork.fork_id, tokens=tuple(came), error=error)
        )
    return draft.decision()


def _can_fire(plan: Plan, execution: Execution, fork: Fork, step: str) -> bool:
    rule = _rule(plan, step)
    # A blocking discriminator has fired and is not reset yet: later tokens of the group wait.
    if rule.rest == "block" and step in execution.held.blocked:
        return False
    match rule.mode:
        case JoinMode.ALL:
            # All tokens that are left of the group are here. Tokens that ended elsewhere no longer count.
            return not fork.out and len(fork.waiting) == 1
        case JoinMode.ACTIVE:
            # Tokens that cannot come here any more are not waited for.
            return not any(at == step or step in plan.reachable(at) for at in fork.out)
        case JoinMode.ANY | JoinMode.COUNT:
            return _enough(plan, fork, step)


def _fire(plan: Plan, execution: Execution, fork: Fork, step: str, at: float) -> Decision:
    rule, came = _rule(plan, step), list(fork.waiting[step])
    draft = Draft(execution, at, derived(fork.fork_id, step, JoinFilled.event_type))
    blocks = rule.rest == "block"
    filled = JoinFilled(token_id=came[-1], fork=fork.fork_id, tokens=tuple(came), blocks=blocks)
    _merge_tokens(draft, execution, step, filled)
    if rule.rest == "cancel":
        withdraw(draft, execution, rest_of(execution, fork.fork_id, came))
    return draft.decision()


def _merge_tokens(draft: Draft, execution: Execution, step: str, met: JoinFilled | JoinUnfilled) -> None:
    """The last that came goes on, the others are consumed."""
    last = execution.tokens[met.token_id]
    draft.add(met, step=step, step_run_id=run_id_of(last.token_id), parent_id=last.event_id)
    for token_id in met.tokens[:-1]:
        run_id = run_id_of(token_id)
        draft.add(TokenConsumed(token_id=token_id), step=step, step_run_id=run_id, parent_id=last.event_id)


def _rule(plan: Plan, step: str) -> Join:
    rule = plan.step(step).join
    assert rule is not None, "only a step that joins holds tokens of a group"
    return rule


def _needed(rule: Join) -> int:
    return max(rule.count or 1, 1) if rule.mode is JoinMode.COUNT else 1


def _enough(plan: Plan, fork: Fork, step: str) -> bool:
    return len(fork.waiting[step]) >= _needed(_rule(plan, step))


def _unfillable_reason(plan: Plan, fork: Fork, step: str) -> str:
    rule, came = _rule(plan, step), len(fork.waiting[step])
    if rule.mode is JoinMode.COUNT:
        return f'the join of step "{step}" needs {_needed(rule)} tokens, {came} came and no other can'
    elsewhere = ", ".join(f'"{other}"' for other in fork.waiting if other != step)
    held = f"; others of its group wait at {elsewhere}" if elsewhere else ""
    return f'the join of step "{step}" can no longer fill{held}'
