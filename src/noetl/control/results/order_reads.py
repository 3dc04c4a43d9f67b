"""What an order has to bring with it: results of other steps (WRK-04, performance.md §2), and `ctx` as it was when the
order was claimed.

A name is looked up only where a text says it: in a template, or in code that stands in the playbook. So the words of a
step's texts hold every step it can read, and often others, which does no harm. Where names are looked up that no text
shows, in a script that the worker opens or in the tool of a plug-in, the order brings all there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from noetl.engine.pipeline.patches import write
from noetl.engine.plan import Plan
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested
from noetl.events.large_values import Load, put_back
from noetl.events.loops import LoopDone
from noetl.events.outcomes import TaskResult
from noetl.events.side_runs import OrderClaimed
from noetl.events.steps import CtxPatched, StepDone, StepFailed
from noetl.events.tokens import TokenClaimed
from noetl.net.net import Transition, tasks_of
from noetl.net.secret_reads import texts_in
from noetl.net.task import Task
from noetl.store.contract import SingleRow, Store
from noetl.tools.python.context_reads import reads_context
from noetl.tools.registry import BUILT_IN

_WORD = re.compile(r"\w+")
_encoder = msgspec.json.Encoder()
_PYTHON = "python"  # of the built-in kinds, the one that looks up names by itself: those in its code

_READS = "results read by"  # in the memo of a plan


def results_for(plan: Plan, step: str, results: Mapping[str, TaskResult]) -> dict[str, TaskResult]:
    """Those of the results that an order of `step` can read."""
    names = _reads(plan, step)
    return dict(results) if names is None else {name: results[name] for name in names if name in results}


def _reads(plan: Plan, step: str) -> tuple[str, ...] | None:
    """The steps that a step names in its texts; None for any."""
    try:
        found: tuple[str, ...] | None = plan.memo[_READS, step]
    except KeyError:
        found = plan.memo[_READS, step] = _steps_read_by(plan.step(step), plan)
    return found


def _steps_read_by(step: Transition, plan: Plan) -> tuple[str, ...] | None:
    if any(map(_looks_up_more, tasks_of(step))):
        return None
    return tuple(sorted(plan.step_names.intersection(_words_in(step))))


def _words_in(step: Transition) -> Iterable[str]:
    """The words of all its texts, keys too."""
    body = _encoder.encode(step).decode()
    if "\\" not in body:
        return _WORD.findall(body)  # all texts at once
    # An escape, such as that of a new line, would run into the word behind it: text by text.
    return (word for text in texts_in(msgspec.json.decode(body)) for word in _WORD.findall(text))


def _looks_up_more(task: Task) -> bool:
    """Whether the tool may ask for names that do not stand in the step."""
    if task.kind != _PYTHON:
        return task.kind not in BUILT_IN
    code = task.verbatim.get("code")
    return code is None or reads_context(str(code))  # it has all there is (O-11)


# Claimed ctx: `ctx` as it was when an order was given out, told from the log (SCOPE-03).
#
# What was written since may be the word of the very worker that holds the order.

_PAGE = 2_000
# Only these types are read: the log of a long execution is mostly task events, which say nothing of `ctx`.
_ENDS = tuple(kind.event_type for kind in (TokenClaimed, OrderClaimed, StepDone, StepFailed, LoopDone))
_TYPES = tuple(kind.event_type for kind in (ExecutionRequested, CtxPatched, TokenClaimed, OrderClaimed))


async def events_until_claim(store: Store, execution_id: str, order_id: str, lease_epoch: int) -> list[Event]:
    """What says what `ctx` was, up to the claim of the order under this epoch."""
    found: list[Event] = []
    after = 0
    while page := await store.events(execution_id, after=after, only=SingleRow(types=_TYPES, limit=_PAGE)):
        for event in page:
            match event.payload:
                case TokenClaimed() | OrderClaimed():
                    if (event.payload.order_id, event.payload.lease_epoch) == (order_id, lease_epoch):
                        return found
                case _:
                    found.append(event)
        after = page[-1].seq
    return found


async def steps_ended_since(store: Store, execution_id: str, order_id: str, lease_epoch: int) -> frozenset[str]:
    """The steps that have ended since the order was claimed under this epoch: its holder has not heard of that."""
    ended: set[str] = set()
    after, is_claimed = 0, False
    while page := await store.events(execution_id, after=after, only=SingleRow(types=_ENDS, limit=_PAGE)):
        for event in page:
            payload = event.payload
            if isinstance(payload, TokenClaimed | OrderClaimed):
                is_claimed |= (payload.order_id, payload.lease_epoch) == (order_id, lease_epoch)
            elif is_claimed and event.step is not None:
                ended.add(event.step)
        after = page[-1].seq
    return frozenset(ended)


def ctx_of(events: list[Event], load: Load) -> dict[str, Any]:
    ctx: dict[str, Any] = {}
    for event in events:
        payload = put_back(event.payload, load)
        if isinstance(payload, CtxPatched):
            write(ctx, payload.patch)
        elif isinstance(payload, ExecutionRequested) and payload.carried is not None:
            # A rerun from a step begins with the `ctx` that the earlier run had there.
            ctx = dict(payload.carried.ctx)
    return ctx
