"""What executions wait for: timers that run (TMR-04), messages that nobody has taken yet (MSG-02, MSG-03), human tasks
(HUM-01 to HUM-03).

The content of a message is not shown, only its size. A delivered message stays delivered: the store decides, in one
statement, whether a message goes to its receiver or is deleted. What people do with a task is in
`control/outside/human_tasks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.errors import InvalidError, NotFoundError, SettledError
from noetl.events.waits import TimerCancelled, TimerFired, TimerScheduled
from noetl.operations.api_shapes import (
    StoredMessage,
    StoredMessagePage,
    TaskHistoryEntry,
    TaskPage,
    TaskView,
    TimerView,
    view_of,
)
from noetl.store.contract import SingleRow, Store
from noetl.store.human_tasks import TaskRow, Tasks, TaskState
from noetl.store.waits import KeptRow, Place, Waits

_AMONG = 500  # open executions whose timers are listed


async def running_timers(store: Store, execution_id: str | None = None) -> list[TimerView]:
    """Those that have neither fired nor been cancelled, the nearest first. Without an execution: of those that time
    will move, the nearest first, and of paused ones, the newest first."""
    if execution_id is not None:
        return await _of_execution(store, execution_id)
    rows = [
        *await store.due(now=math.inf, limit=_AMONG),
        *await store.executions(limit=_AMONG, status="paused"),
    ]
    found = [timer for row in rows for timer in await _of_execution(store, row.execution_id)]
    return sorted(found, key=lambda timer: (timer.due_at, timer.id))


async def _of_execution(store: Store, execution_id: str) -> list[TimerView]:
    found: dict[str, tuple[float, TimerView]] = {}
    for event in await store.events(execution_id, only=SingleRow(types=("timer.*",))):
        payload = event.payload
        if isinstance(payload, TimerScheduled):
            found[payload.wait_id] = (
                payload.due_at,
                TimerView(
                    id=payload.wait_id,
                    timer=payload.timer_id,
                    execution_id=execution_id,
                    step=event.step,
                    due_at=rfc3339(payload.due_at),
                    cancellable=payload.cancellable,
                ),
            )
        elif isinstance(payload, TimerFired | TimerCancelled):
            found.pop(payload.wait_id, None)
    return [view for _, view in sorted(found.values(), key=lambda one: one[0])]


_MARK = "/"  # in a cursor, between the time and the id


async def message_page(
    waits: Waits, *, now: float, name: str | None, limit: int, cursor: str | None
) -> StoredMessagePage:
    """Messages that nobody has taken, the newest first."""
    beyond = _place(cursor) if cursor is not None else None
    rows = await waits.newest_kept(now=now, name=name, limit=limit + 1, beyond=beyond)
    page = rows[:limit]
    return StoredMessagePage(
        messages=[view_of(StoredMessage, row) for row in page], next=_cursor(page[-1]) if len(rows) > limit else None
    )


async def delete_message(waits: Waits, message_id: str, *, now: float) -> None:
    """SettledError when an execution has it, NotFoundError when none of this id is kept; either changes nothing."""
    if await waits.remove(message_id, now=now):
        return
    there = await waits.message(message_id)
    if there is not None and there.taken_by is not None:
        raise SettledError(f'message "{message_id}" was delivered to execution {there.taken_by}: it stays there')
    raise NotFoundError(f'no message "{message_id}" is kept here: it was removed, its time was over, or it never came')


def _cursor(row: KeptRow) -> str:
    """Its place itself, so that a page follows also when this message is gone by then."""
    return f"{row.sent_at!r}{_MARK}{row.message_id}"


def _place(cursor: str) -> Place:
    sent_at, mark, message_id = cursor.partition(_MARK)
    try:
        if mark and math.isfinite(moment := float(sent_at)):
            return moment, message_id
    except ValueError:
        pass
    raise InvalidError("cursor: it is none that was given out here")


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Open and claimed ones without `states`. With `mine` those that `actor` may do: for them, for a role of theirs, or
    for anybody; or claimed by them."""

    states: Collection[TaskState] = (TaskState.OPEN, TaskState.CLAIMED)
    role: str | None = None
    user: str | None = None
    execution_id: str | None = None
    mine: bool = False


async def task_page(
    tasks: Tasks, wanted: TaskFilter, *, actor: str, roles: Collection[str], limit: int, cursor: str | None
) -> TaskPage:
    """The newest first. A page of `mine` may be shorter than `limit` before the last one."""
    if cursor is not None and await tasks.get(cursor) is None:
        raise InvalidError("cursor: it is none that was given out here")
    if wanted.mine and (wanted.role is not None or wanted.user is not None):
        raise InvalidError("mine says already whose tasks are meant: leave role and user out")
    whose: list[dict[str, Any]] = [{"role": wanted.role, "user": wanted.user}]
    if wanted.mine:
        whose = [{"user": actor}, *({"role": one} for one in roles), {"for_anybody": True}]
    found: dict[str, TaskRow] = {}
    for one in whose:
        rows = await tasks.list(
            states=wanted.states, execution_id=wanted.execution_id, limit=limit + 1, beyond=cursor, **one
        )
        found.update((row.task_id, row) for row in rows)
    newest = sorted(found.values(), key=lambda row: (-row.created_at, row.task_id))
    beyond = newest[limit - 1].task_id if len(newest) > limit else None
    page = [row for row in newest[:limit] if not wanted.mine or row.claimed_by in (None, actor)]
    return TaskPage(tasks=[task_view(row) for row in page], next=beyond)


def task_view(row: TaskRow) -> TaskView:
    history = [
        TaskHistoryEntry(at=rfc3339(one["at"]), what=one["what"], actor=one.get("actor"), text=one.get("text", ""))
        for one in row.history
    ]
    return view_of(TaskView, row, state=row.state.value, data=row.data, history=history)
