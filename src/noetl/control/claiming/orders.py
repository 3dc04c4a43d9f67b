"""Orders: their rows in the outbox, what they need, the order that a worker receives, and the terms of its lease.

What an order needs: which tool kinds, so which workers may take it (SRV-08, WRK-05); which results of other steps it
brings along (WRK-04, performance.md §2), and `ctx` at its claim. Also whether the installed tools can run a whole
playbook.

Results are looked up only by names that a text contains: a template, or code in the playbook. So the words of a step's
texts include every step that it can read; additional ones do no harm. Where names do not appear in a text, in a script
that the worker opens or in the tool of a plug-in, the order brings all results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, assert_never

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import RefusedError
from noetl.engine import decision
from noetl.engine.execution import Execution, lease_under
from noetl.engine.loops.levels import ctx_for, iterations_of, levels_of
from noetl.engine.loops.state import Range
from noetl.engine.pipeline.patches import apply_patch
from noetl.engine.plan import Plan
from noetl.engine.scopes import token_of
from noetl.engine.side_runs.orders import side_run_fields
from noetl.engine.side_runs.state import SideRun, SideRunKind
from noetl.engine.waits.times import expiries_of
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested
from noetl.events.large_values import Load, put_back
from noetl.events.loops import LoopDone
from noetl.events.orders import LeaseTerms, Order
from noetl.events.outcomes import TaskResult
from noetl.events.side_runs import OrderClaimed
from noetl.events.steps import CtxPatched, StepDone, StepFailed
from noetl.events.tokens import TokenClaimed
from noetl.net.net import Net, Transition, pipeline_of, tasks_of
from noetl.net.secret_reads import texts_in
from noetl.net.task import ENDS, TRANSFER, Task, with_hooks
from noetl.store.contract import DEFAULT_POOL, EventFilter, OrderRow, OrderState, Store
from noetl.tools.python.context_reads import reads_context
from noetl.tools.registry import BUILT_IN, Registry

_NEEDS = "needs of"  # in the memo of a plan


def needs_of(plan: Plan, execution: Execution, order_id: str) -> frozenset[str]:
    """The tool kinds of an open order; none for one that has ended."""
    run = execution.run_of(order_id)
    if run is None:
        return frozenset()
    # A job that a provider runs is undone through the tool that started it, whose kind is the task's name in the
    # registration.
    undone = execution.side_work.saga.under_way if execution.side_work.saga is not None else None
    if run.side_run is not None and undone is not None and run.side_run.of == undone.registration_id and undone.job_id:
        return frozenset({undone.task})
    return kinds_for(plan, run.step, run.side_run)


def kinds_for(plan: Plan, step: str, side_run: SideRun | None = None) -> frozenset[str]:
    """The tool kinds of a step's pipeline, or of a side run of it."""
    key = _NEEDS, step, "" if side_run is None else f"{side_run.kind}/{side_run.index}/{side_run.task}"
    kinds: frozenset[str] | None = plan.memo.get(key)
    if kinds is None:
        kinds = plan.memo[key] = frozenset(_kinds(tasks_for(plan.step(step), side_run)))
    return kinds


def tasks_for(step: Transition, side_run: SideRun | None) -> Iterable[Task]:
    """The tasks of an order of a step, or of a side run of it, with their hooks."""
    match side_run:
        case None:
            return pipeline_of(step)
        case SideRun(kind=SideRunKind.COMPENSATION):
            # Without tasks of its own, a child execution is undone by a playbook task, which every worker runs.
            return with_hooks(step.compensation.tasks if step.compensation is not None else ())
        case SideRun(kind=SideRunKind.HANDLER):
            return with_hooks(step.handlers.handlers[side_run.index].tasks if step.handlers is not None else ())
        case _:
            return [task for task in tasks_of(step) if task.name == side_run.task]


def _kinds(tasks: Iterable[Task]) -> Iterator[str]:
    for task in tasks:
        yield task.kind
        inputs = task.inputs.data
        if task.kind == TRANSFER and isinstance(inputs, Mapping):
            yield from (kind for end in ENDS if (kind := _kind_of(inputs.get(end))) is not None)


def _kind_of(end: object) -> str | None:
    """The tool kind of one end of a transfer, unless it is a template or unknown."""
    kind = end.get("kind") if isinstance(end, Mapping) else None
    return kind if kind in BUILT_IN else None  # for an unknown kind the tool itself reports the error


class WorkerAbilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker declares when it registers; decides which orders it may get (SRV-08, WRK-05)."""

    # Tool kinds. None: the worker did not declare them, as older versions do not, and gets every order.
    kinds: frozenset[str] | None = None
    labels: Mapping[str, str] = {}

    def runs(self, needs: frozenset[str] | None) -> bool:
        """Whether the worker has all these tool kinds. True for None: needs that are not known yet."""
        return self.kinds is None or needs is None or needs <= self.kinds

    def carries(self, required: Mapping[str, str]) -> bool:
        return all(self.labels.get(key) == value for key, value in required.items())


ANY = WorkerAbilities()


def labels_text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def check_runnable(net: Net, tools: Registry, elsewhere: Collection[str] = ()) -> None:
    """RefusedError names the part of a playbook that cannot run here, with a fix if there is one. The kinds
    `elsewhere` run on workers on other machines, whose operators have allowed them."""
    if off := _turned_off(net, tools, elsewhere):
        raise RefusedError(off)
    if missing := not_runnable(net, lambda kind: kind in elsewhere or tools.runs(kind)):
        raise RefusedError(f"this playbook uses {', '.join(missing)}, which this version cannot run yet")


def _turned_off(net: Net, tools: Registry, elsewhere: Collection[str]) -> str | None:
    """The reason why a tool kind of this playbook is turned off here, for its operator."""
    kinds = dict.fromkeys(task.kind for step in net.transitions for task in tasks_of(step))
    return next((why for kind in kinds if kind not in elsewhere and (why := tools.refusal(kind))), None)


def not_runnable(net: Net, runs_kind: Callable[[str], bool]) -> list[str]:
    """Everything in `net` that cannot be run yet, each with its place, in document order. A playbook may be valid and
    still use a part of the language that this version only checks."""
    return [f"{what} (step {step.name})" for step in net.transitions for what in _of_step(step, runs_kind)]


def _of_step(step: Transition, runs_kind: Callable[[str], bool]) -> Iterator[str]:
    if any(level.extend and level.partition for level in levels_of(step)):
        yield "loop.spec.extend with partitioning"
    for task in tasks_of(step):
        if not runs_kind(task.kind):
            yield f"tool kind {task.kind} of task {task.name}"


_WORD = re.compile(r"\w+")
_encoder = msgspec.json.Encoder()
_PYTHON = "python"  # the built-in kind whose code looks up names by itself

_READS = "results read by"  # in the memo of a plan


def results_for(plan: Plan, step: str, results: Mapping[str, TaskResult]) -> dict[str, TaskResult]:
    """The results that an order of `step` can read."""
    names = _reads(plan, step)
    return dict(results) if names is None else {name: results[name] for name in names if name in results}


def _reads(plan: Plan, step: str) -> tuple[str, ...] | None:
    """The steps that a step names in its texts; None: it may read any step."""
    try:
        names: tuple[str, ...] | None = plan.memo[_READS, step]
    except KeyError:
        names = plan.memo[_READS, step] = _steps_read_by(plan.step(step), plan)
    return names


def _steps_read_by(step: Transition, plan: Plan) -> tuple[str, ...] | None:
    if any(map(_looks_up_more, tasks_of(step))):
        return None
    return tuple(sorted(plan.step_names.intersection(_words_in(step))))


def _words_in(step: Transition) -> Iterable[str]:
    """The words of all texts of a step, keys included."""
    body = _encoder.encode(step).decode()
    if "\\" not in body:
        return _WORD.findall(body)  # all texts at once
    # An escape, such as that of a new line, would run into the word behind it: text by text.
    return (word for text in texts_in(msgspec.json.decode(body)) for word in _WORD.findall(text))


def _looks_up_more(task: Task) -> bool:
    """Whether the tool may look up names that do not appear in the step."""
    if task.kind != _PYTHON:
        return task.kind not in BUILT_IN
    code = task.verbatim.get("code")
    return code is None or reads_context(str(code))  # `context` gives it every result (O-11)


# `ctx` at the claim of an order, from the log (SCOPE-03). Later writes may come from the very worker that holds the
# order, so they must not decide what the worker is allowed to do.
_PAGE = 2_000
# Only these types are read: the log of a long execution is mostly task events, which say nothing of `ctx`.
_ENDS = tuple(kind.event_type for kind in (TokenClaimed, OrderClaimed, StepDone, StepFailed, LoopDone))
_TYPES = tuple(kind.event_type for kind in (ExecutionRequested, CtxPatched, TokenClaimed, OrderClaimed))


async def events_until_claim(store: Store, execution_id: str, order_id: str, lease_epoch: int) -> list[Event]:
    """The events that define `ctx`, up to the claim of the order under this epoch."""
    events: list[Event] = []
    after = 0
    while page := await store.events(execution_id, after=after, only=EventFilter(types=_TYPES, limit=_PAGE)):
        for event in page:
            match event.payload:
                case TokenClaimed() | OrderClaimed():
                    if (event.payload.order_id, event.payload.lease_epoch) == (order_id, lease_epoch):
                        return events
                case _:
                    events.append(event)
        after = page[-1].seq
    return events


async def steps_ended_since(store: Store, execution_id: str, order_id: str, lease_epoch: int) -> frozenset[str]:
    """The steps that have ended since the order was claimed under this epoch. Its holder does not know
    their results."""
    ended: set[str] = set()
    after, is_claimed = 0, False
    while page := await store.events(execution_id, after=after, only=EventFilter(types=_ENDS, limit=_PAGE)):
        for event in page:
            payload = event.payload
            if isinstance(payload, TokenClaimed | OrderClaimed):
                is_claimed |= (payload.order_id, payload.lease_epoch) == (order_id, lease_epoch)
            elif is_claimed and event.step is not None:
                ended.add(event.step)
        after = page[-1].seq
    return frozenset(ended)


def ctx_of(events: list[Event], load: Load) -> dict[str, Any]:
    """`ctx` after these events."""
    ctx: dict[str, Any] = {}
    for event in events:
        payload = put_back(event.payload, load)
        if isinstance(payload, CtxPatched):
            apply_patch(ctx, payload.patch)
        elif isinstance(payload, ExecutionRequested) and payload.carried is not None:
            # A rerun from a step begins with the `ctx` that the earlier run had there.
            ctx = dict(payload.carried.ctx)
    return ctx


_USUAL = LeaseTerms()
TtlOf = Callable[[str], float]  # of a lease on an order of this step run
# Bounds for lease times of playbooks and for renewals by workers: neither may lock an order forever, nor have leases
# so short that every heartbeat comes late.
LEAST_S, MOST_S = 0.5, 86_400.0
_BEATS = 6  # heartbeats in the time of one lease, unless the playbook says otherwise


def order_rows(
    execution_id: str, effects: Iterable[decision.Effect], *, now: float, ttl_of: TtlOf = lambda _: _USUAL.ttl_s
) -> tuple[OrderRow, ...]:
    """One row for each order that the effects touch, in its last state."""
    # By order: a batch may dispatch, lease and close one order, and the store takes one row of each.
    rows: dict[str, OrderRow] = {}
    # Orders that are not in the store yet.
    fresh: set[str] = set()
    for effect in effects:
        match effect:
            case decision.DispatchStep():
                fresh.add(effect.order_id)
                row = OrderRow(
                    order_id=effect.order_id,
                    execution_id=execution_id,
                    step_run_id=effect.step_run_id,
                    pool=effect.pool or DEFAULT_POOL,
                    priority=effect.priority,
                )
            case decision.LeaseOrder():
                row = OrderRow(
                    order_id=effect.order_id,
                    execution_id=execution_id,
                    step_run_id=effect.step_run_id,
                    state=OrderState.LEASED,
                    pool=effect.pool or DEFAULT_POOL,
                    priority=effect.priority,
                    lease_owner=effect.worker_id,
                    lease_epoch=effect.lease_epoch,
                    lease_until=now + ttl_of(effect.step_run_id),
                )
            case decision.CloseOrder() if effect.order_id in fresh:
                del rows[effect.order_id]  # made and withdrawn in one commit: no worker has seen it
                continue
            case decision.CloseOrder():
                row = OrderRow(
                    order_id=effect.order_id,
                    execution_id=execution_id,
                    step_run_id=effect.step_run_id,
                    state=OrderState.CLOSED,
                    lease_epoch=effect.lease_epoch,
                )
            case decision.EndExecution() | decision.OpenWait() | decision.CloseWait() | decision.ChangeTask():
                continue
            case (
                decision.PauseChildren()
                | decision.ResumeChildren()
                | decision.CancelChildren()
                | decision.CancelCalled()
            ):
                continue
            case _:
                assert_never(effect)
        rows[effect.order_id] = row
    return tuple(rows.values())


def order_for(
    plan: Plan, execution: Execution, order_id: str, usual: LeaseTerms = _USUAL, *, at: float | None = None
) -> Order:
    """The order that a worker runs: the scopes that its step can read, as of now, and the position in its pipeline
    (WRK-04). Its lease begins `at` that time.

    Mappings that events change in place are copied one level deep; below it, changes copy what they change.
    """
    run = execution.run_of(order_id)
    assert run is not None, "an order that was just claimed has its step run"
    lease = lease_under(run, order_id)
    assert lease is not None
    span = lease if isinstance(lease, Range) else None
    terms = terms_of(plan, run.step, usual)
    order = Order(
        order_id=order_id,
        execution_id=execution.execution_id,
        step_run_id=run.step_run_id,
        step=run.step,
        net_hash=execution.origin.net_hash,
        lease_epoch=lease.lease_epoch,
        trace_id=execution.trace_id,
        args=run.token.args,
        workload=execution.origin.workload,
        ctx=dict(execution.variables.ctx) if span is None else ctx_for(execution, run, span),
        token=token_of(execution, run),
        results=results_for(plan, run.step, execution.outputs.results),
        position=run.progress.position,
        # A task was under way when the last holder was lost. One with `on_lost: fail` must not be run a second time.
        interrupted=run.progress.in_task,
        expiries=expiries_of(execution, run),
        vars=dict(run.dialect.vars),
        iterations=None if span is None else iterations_of(plan, run, span),
        terms=terms,
        # By the clock of the server. The worker only computes from it how much of the lease is left on arrival.
        lease_until=at + terms.ttl_s if at is not None else 0.0,
    )
    return order if run.side_run is None else msgspec.structs.replace(order, **side_run_fields(execution, run))


def terms_of(plan: Plan, step: str, usual: LeaseTerms) -> LeaseTerms:
    """The lease terms of a step (WRK-03): `step.spec.lease: {ttl, heartbeat}`, else those of the executor's spec, else
    of its limits (O-33), else `usual`, those of the server."""
    lease = plan.lease(step)
    if lease is None:
        return usual
    ttl_s = bounded(_seconds(lease.get("ttl")) or usual.ttl_s)
    every_s = _seconds(lease.get("heartbeat")) or ttl_s / _BEATS
    # A third: a lease must survive two heartbeats that are lost.
    return LeaseTerms(ttl_s=ttl_s, heartbeat_s=min(every_s, ttl_s / 3))


def bounded(ttl_s: float) -> float:
    return min(max(ttl_s, LEAST_S), MOST_S)


def _seconds(duration: Any) -> float | None:
    # The checker refuses an invalid duration. A net that an older version compiled may still have one, and gets the
    # usual terms: a claim must not fail over a setting.
    with suppress(ValueError, TypeError):
        return seconds(duration) if duration is not None else None
    return None
