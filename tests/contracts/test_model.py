"""Any sequence of commits and questions has the same answers in every backend (reliability.md, F3).

The store in memory is the model: it is a few dictionaries, so what it does is plain to see.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.base.errors import BackendError
from noetl.store.contract import Commit, OrderRow, OrderState, PoolCapacity, Store
from noetl.store.human_tasks import TaskRow, TaskState
from noetl.store.waits import MESSAGE, MessageRow, WaitRow, canonical
from tests.contracts.commits import commit, event
from tests.contracts.stores import BACKENDS, opened

EXECUTIONS, NUMBERS, POOLS = ("x1", "x2"), st.integers(1, 3), ("a", "b")
MOMENTS = st.integers(0, 20).map(float)
Ask = Callable[[Store], Coroutine[Any, Any, Any]]


@st.composite
def orders(draw: st.DrawFn, execution_id: str) -> OrderRow:
    number, state = draw(NUMBERS), draw(st.sampled_from([OrderState.READY, OrderState.LEASED]))
    epoch = draw(st.integers(0, 1)) if state is OrderState.READY else draw(st.integers(1, 2))
    return OrderRow(
        order_id=f"{execution_id}-o{number}",
        execution_id=execution_id,
        step_run_id=f"r{number}",
        state=state,
        pool=POOLS[number % 2],
        priority=number % 3,
        lease_owner="w" if state is OrderState.LEASED else None,
        lease_epoch=epoch,
        lease_until=draw(MOMENTS) if state is OrderState.LEASED else None,
    )


@st.composite
def commits(draw: st.DrawFn) -> Callable[[dict[str, int]], Commit]:
    """One step of an execution: of where it is, or of where somebody believes it to be."""
    execution_id = draw(st.sampled_from(EXECUTIONS))
    is_stale = draw(st.integers(0, 5)) == 0
    count = draw(st.integers(1, 3))
    made = draw(st.lists(orders(execution_id), max_size=2, unique_by=lambda order: order.order_id))
    made = [one for one in made if one.lease_epoch <= 1 and (one.state is OrderState.LEASED or one.lease_epoch == 0)]
    number = draw(NUMBERS)
    wait = WaitRow(
        wait_id=f"{execution_id}-w{number}",
        execution_id=execution_id,
        step_run_id="r",
        kind=MESSAGE,
        name="n",
        correlation=canonical({"k": number}),
        opened_at=float(number),
    )
    task = TaskRow(
        task_id=f"{execution_id}-t{number}",
        execution_id=execution_id,
        step="s",
        step_run_id="r",
        title="t",
        state=draw(st.sampled_from(list(TaskState))),
        created_at=float(number),
    )
    changes: dict[str, Any] = {
        "orders": tuple(made),
        "waits": draw(st.sampled_from([(), (wait,)])),
        "closed_waits": draw(st.sampled_from([(), (f"{execution_id}-w{draw(NUMBERS)}",)])),
        "taken_messages": draw(st.sampled_from([(), (), (f"m{draw(NUMBERS)}",)])),
        "tasks": draw(st.sampled_from([(), (task,)])),
        "room": draw(st.sampled_from([(), (), (PoolCapacity("a", 1, 5.0),)])),
    }
    wake_at = draw(st.none() | MOMENTS)

    def step(at: dict[str, int]) -> Commit:
        after = at.get(execution_id, 0) + (1 if is_stale else 0)
        one = commit(*(event(after + n, execution_id=execution_id) for n in range(1, count + 1)), after=after)
        row = msgspec.structs.replace(one.execution, wake_at=wake_at)
        return msgspec.structs.replace(one, execution=row, **changes)

    return step


@st.composite
def questions(draw: st.DrawFn) -> Ask:
    number, moment, pools = draw(NUMBERS), draw(MOMENTS), draw(st.sampled_from([None, ["a"], ["b", "a"], []]))
    order_id = f"{draw(st.sampled_from(EXECUTIONS))}-o{number}"
    message = MessageRow(message_id=f"m{number}", name="n", sent_at=moment, expires_at=moment + 5)
    asked: dict[str, Ask] = {
        "renew": lambda store: store.renew(order_id, lease_epoch=1, lease_until=moment),
        "claimable": lambda store: store.claimable(now=moment, limit=number, pools=pools),
        "leased": lambda store: store.leased(now=moment, pools=pools),
        "due": lambda store: store.due(now=moment, limit=number),
        "keep": lambda store: store.waits.keep(message),
        "kept": lambda store: store.waits.stored_messages("n", now=moment),
        "discard": lambda store: store.waits.discard(before=moment),
        "put": lambda store: store.key_values.put("k", f"n{number}", b"%d" % int(moment), over=number - 1, at=moment),
        "drop": lambda store: store.key_values.delete("k", f"n{number}", version=number),
        "sweep": lambda store: store.key_values.sweep("k", before=moment),
    }
    return asked[draw(st.sampled_from(sorted(asked)))]


async def seen(store: Store) -> list[Any]:
    """Everything there is to see."""
    shown: list[Any] = [await store.next_due(), await store.executions(), await store.positions(EXECUTIONS)]
    for execution_id in EXECUTIONS:
        shown += [await store.events(execution_id), await store.orders(execution_id)]
        shown += [await store.waits.of(execution_id), await store.tasks.list(execution_id=execution_id)]
    shown += [await store.claimable(now=10.0, limit=99), await store.claimable(now=10.0, limit=99, pools=["a"])]
    shown += [
        await store.waits.stored_messages("n", now=0.0),
        await store.waits.names_kept(now=3.0),
        await store.key_values.list("k"),
    ]
    return shown


async def told(doing: Coroutine[Any, Any, Any]) -> Any:
    """The answer, or the name of the refusal."""
    try:
        return await doing
    except BackendError as problem:
        return type(problem).__name__


async def compared(steps: list[Any], folder: Path) -> None:
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(backend, folder)) for backend in BACKENDS]
        for step in steps:
            at = await stores[0].positions(EXECUTIONS)
            asked = isinstance(step, tuple)
            answers = [await told(store.commit([step[0](at)]) if asked else step(store)) for store in stores]
            assert answers == [answers[0]] * len(stores)
        views = [await seen(store) for store in stores]
        for view in views[1:]:
            assert view == views[0]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(commits().map(lambda step: (step,)) | questions(), min_size=1, max_size=25))
def test_every_backend_returns_the_same_results(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compared(steps, Path(folder)))
