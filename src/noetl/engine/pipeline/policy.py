"""Policy: the directive after each outcome of a task (POL-01 to POL-12).

Rules are tried top-down and the first match decides. A policy moves within its pipeline or ends it; it can never
start a step (WRK-05), and there is nothing here with which it could.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import TemplateError, ToolError
from noetl.engine.pipeline.payloads import refuse_large_writes
from noetl.events.orders import Position
from noetl.events.outcomes import Error, Outcome
from noetl.events.tasks import Decided
from noetl.net.task import Backoff, Directive, Mutations, Retry, Rule, Task
from noetl.templates.render import holds, render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

Render = Callable[[Authored], Any]
_Number = TypeVar("_Number", int, float)


class PolicyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One processed task run, as its policy sees it."""

    task: Task
    following: str | None  # the next task of the list, None at its end
    position: Position  # before this outcome: its attempt is the one that was just made
    task_run_id: str
    outcome: Outcome
    scope: Scope
    now: float

    def render(self, written: Authored, *, keys: bool = False) -> Any:
        return render(written, self.scope, now=self.now, keys=keys)


def judge(run: PolicyRun) -> Decided:
    """The decision after this run. A template that fails in a rule fails the pipeline (TPL-09)."""
    policy = run.task.policy
    if policy is None:  # POL-03
        return _decision_for(run, "default", Directive.CONTINUE if run.outcome.ok else Directive.FAIL)
    for index, rule in enumerate(policy.rules):
        try:
            if rule.when is None or holds(rule.when, run.scope, now=run.now):
                return _decision_of_rule(run, index, rule)
        # ToolError: a template may read a stored result that is gone. ValueError: a delay or a number that is none.
        except (TemplateError, ToolError, ValueError) as problem:
            return _rule_failed(run, index, problem)
    do = Directive.CONTINUE if run.outcome.ok else policy.on_unmatched  # POL-02, POL-04
    return _decision_for(run, "unmatched", do)


def _decision_of_rule(run: PolicyRun, index: int, rule: Rule) -> Decided:
    mutations = rule.mutations or Mutations()
    writes: dict[str, Any] = {
        "set_iter": _mapping(run, mutations.set_iter),
        "set_ctx": _mapping(run, mutations.set_ctx),
        "set_vars": _mapping(run, mutations.set_vars),
        "set_shared": _mapping(run, mutations.set_shared),
    }
    if mutations.set_prev is not None:
        writes["set_prev"] = run.render(mutations.set_prev)
    refuse_large_writes(writes)
    if rule.do is Directive.RETRY and rule.retry is not None:
        decided = _retry_decision(run, index, rule.retry)
    else:
        decided = _decision_for(run, index, rule.do, to=rule.to)
        if rule.error is not None:
            decided = msgspec.structs.replace(decided, error=_named_error(run, run.render(rule.error)))
    # for every directive, fail and each retry included (POL-12)
    return msgspec.structs.replace(decided, **writes)


def _mapping(run: PolicyRun, written: Authored | None) -> dict[str, Any]:
    values = run.render(written, keys=True) if written is not None else {}
    if not isinstance(values, dict):
        raise TemplateError(f"a mapping of names to values is needed, this gave {type(values).__name__}")
    return values


def _decision_for(run: PolicyRun, rule: int | str, do: Directive, *, to: str | None = None) -> Decided:
    match do:
        case Directive.CONTINUE:
            return Decided(rule=rule, do=do.value, next=run.following)
        case Directive.JUMP:
            return Decided(rule=rule, do=do.value, next=to)
        case Directive.BREAK:
            return Decided(rule=rule, do=do.value)
        case Directive.FAIL | Directive.RETRY:  # retries were handled before; one without its block can only fail
            return Decided(rule=rule, do=Directive.FAIL.value, error=_failure(run))


def _failure(run: PolicyRun) -> Error:
    """The outcome's own error, or `policy.fail` when a success was failed on purpose (PIPE-05)."""
    message = f'the policy of task "{run.task.name}" failed the pipeline'
    return run.outcome.error or Error(kind="policy.fail", message=message)


def _named_error(run: PolicyRun, value: Any) -> Error:
    """The error that a rule names: a message, or the fields of one, such as those that an earlier task failed with."""
    default = _failure(run)
    if value is None:
        return default
    if not isinstance(value, dict):
        return Error(kind="policy.fail", message=str(value), cause=run.outcome.error)
    try:
        return msgspec.convert({"kind": "policy.fail", "message": default.message, **value}, Error)
    except msgspec.ValidationError as problem:
        raise ValueError(f"error: {problem}") from None


def _retry_decision(run: PolicyRun, index: int, retry: Retry) -> Decided:
    attempts = number_of(run.render(retry.attempts), "attempts", int)
    attempt = run.position.attempt
    if attempt < attempts:
        # From the id instead of a random number: worker and engine compute the same delay, and a replay too. Ids are
        # hashes, so the delays of many task runs are spread evenly.
        spread = int(run.task_run_id[:8], 16) / 0x1_0000_0000
        delay_s = delay_before_next(retry, attempt, render=run.render, now=run.now, spread=spread)
        return Decided(rule=index, do=Directive.RETRY.value, next=run.task.name, delay_s=delay_s)
    if retry.on_exhausted is Directive.CONTINUE:
        return _decision_for(run, index, Directive.CONTINUE)
    cause = run.outcome.error
    how = "still failed" if cause is not None else "was still to be tried again"
    message = f'task "{run.task.name}" {how} after {attempt} attempts'
    status, code = (cause.status, cause.code) if cause is not None else (None, None)
    error = Error(kind="retry.exhausted", message=message, status=status, code=code, cause=cause)
    return Decided(rule=index, do=Directive.FAIL.value, error=error)


def number_of(value: Any, what: str, kind: Callable[[int | float | str], _Number]) -> _Number:
    """A rendered setting as a number; text may hold one. ValueError names it with `what`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{what} is {value!r}, which is not a number")
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f'{what} is "{value}", which is not a number') from None


def _rule_failed(run: PolicyRun, index: int, problem: Exception) -> Decided:
    message = f'rule {index} of task "{run.task.name}": {problem}'
    error = Error(kind=TemplateError.kind, message=message, cause=run.outcome.error)
    return Decided(rule=index, do=Directive.FAIL.value, error=error)


# Delays before a retry: backoff, cap, jitter, and the forms an author may write a delay in (POL-07, POL-08).


def delay_before_next(retry: Retry, attempt: int, *, render: Render, now: float, spread: float) -> float:
    """Seconds to wait after run number `attempt`. `spread`, from 0 to 1, places the delay within its jitter."""
    written = render(retry.delay) if retry.delay is not None else None
    delay = delay_seconds(written, now) if written is not None else (0.0 if retry.backoff is Backoff.NONE else 1.0)
    delay *= _growth(retry.backoff, attempt)
    if retry.max_delay is not None and (cap := render(retry.max_delay)) is not None:
        delay = min(delay, delay_seconds(cap, now))
    jitter = render(retry.jitter) if retry.jitter is not None else None
    # Jitter only shortens: a delay that the author wrote, or a server asked for, is never exceeded.
    return max(0.0, delay - delay * jitter_share(jitter) * spread)


def _growth(backoff: Backoff, attempt: int) -> float:
    match backoff:
        case Backoff.NONE:
            return 1.0
        case Backoff.LINEAR:
            return float(attempt)
        case Backoff.EXPONENTIAL:
            # A float overflows at 2**1024; by then `max_delay` or the number of attempts has decided.
            return 2.0 ** min(attempt - 1, 1000)


def jitter_share(jitter: Any) -> float:
    """The part of the delay that jitter may take away: `true` all of it, a number that share of it."""
    if jitter is True:
        return 1.0
    if isinstance(jitter, int | float) and not isinstance(jitter, bool):
        return min(max(float(jitter), 0.0), 1.0)
    return 0.0


def delay_seconds(written: Any, now: float) -> float:
    """Seconds of a delay as written: a number, a duration, or an HTTP date. ValueError for anything else."""
    try:
        return seconds(written)
    except ValueError:
        if not isinstance(written, str):
            raise
        return _until_http_date(written, now)


def _until_http_date(text: str, now: float) -> float:
    """Seconds from now to an HTTP date, as `Retry-After` may hold."""
    from email.utils import parsedate_to_datetime  # rarely needed, slow to import

    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        raise ValueError(f'"{text}" is neither a duration nor an HTTP date') from None
    return max(0.0, moment.timestamp() - now)
