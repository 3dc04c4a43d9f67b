"""Waits of executions: running timers (TMR-04), undelivered messages (MSG-02, MSG-03), human tasks (HUM-01 to HUM-03).

Lists show the size of a message, not its content. A delivered message stays delivered: the store decides in one
statement whether a message goes to its receiver or is deleted. Claiming and completing tasks is in
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
from noetl.operations import api_shapes
from noetl.store.contract import EventFilter, Store
from noetl.store.human_tasks import TaskRow, Tasks, TaskState
from noetl.store.waits import KeptRow, Place, Waits

_AMONG = 500  # open executions whose timers are listed


async def running_timers(store: Store, execution_id: str | None = None) -> list[api_shapes.TimerView]:
    """Timers that have neither fired nor been cancelled, the nearest first, of one execution or of all open ones. At
    most `_AMONG` executions with a due time and as many paused ones are searched."""
    if execution_id is not None:
        return await _execution_timers(store, execution_id)
    rows = [
        *await store.due(now=math.inf, limit=_AMONG),
        # `due` leaves out paused executions.
        *await store.executions(limit=_AMONG, status="paused"),
    ]
    timers = [timer for row in rows for timer in await _execution_timers(store, row.execution_id)]
    return sorted(timers, key=lambda timer: (timer.due_at, timer.id))


async def _execution_timers(store: Store, execution_id: str) -> list[api_shapes.TimerView]:
    timers: dict[str, tuple[float, api_shapes.TimerView]] = {}
    for event in await store.events(execution_id, only=EventFilter(types=("timer.*",))):
        payload = event.payload
        if isinstance(payload, TimerScheduled):
            timers[payload.wait_id] = (
                payload.due_at,
                api_shapes.TimerView(
                    id=payload.wait_id,
                    timer=payload.timer_id,
                    execution_id=execution_id,
                    step=event.step,
                    due_at=rfc3339(payload.due_at),
                    cancellable=payload.cancellable,
                ),
            )
        elif isinstance(payload, TimerFired | TimerCancelled):
            timers.pop(payload.wait_id, None)
    return [view for _, view in sorted(timers.values(), key=lambda item: item[0])]


_MARK = "/"  # in a cursor, between the time and the id


async def message_page(
    waits: Waits, *, now: float, name: str | None, limit: int, cursor: str | None
) -> api_shapes.StoredMessagePage:
    """A page of undelivered messages, the newest first."""
    beyond = _cursor_position(cursor) if cursor is not None else None
    rows = await waits.newest_kept(now=now, name=name, limit=limit + 1, beyond=beyond)
    page = rows[:limit]
    return api_shapes.StoredMessagePage(
        messages=[api_shapes.view_of(api_shapes.StoredMessage, row) for row in page],
        next=_cursor(page[-1]) if len(rows) > limit else None,
    )


async def delete_message(waits: Waits, message_id: str, *, now: float) -> None:
    """Delete an undelivered message. SettledError if it was delivered, NotFoundError if there is none with this id."""
    if await waits.remove(message_id, now=now):
        return
    message = await waits.message(message_id)
    if message is not None and message.taken_by is not None:
        raise SettledError(f'message "{message_id}" was delivered to execution {message.taken_by} already')
    raise NotFoundError(f'there is no message "{message_id}" here: it was deleted, has expired, or never arrived')


def _cursor(row: KeptRow) -> str:
    """The position of a message as text. The next page works even if this message has been deleted by then."""
    return f"{row.sent_at!r}{_MARK}{row.message_id}"


def _cursor_position(cursor: str) -> Place:
    sent_at, mark, message_id = cursor.partition(_MARK)
    try:
        if mark and math.isfinite(moment := float(sent_at)):
            return moment, message_id
    except ValueError:
        pass
    raise InvalidError("cursor: this is not a cursor of this list")


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filter of a task list, by default open and claimed tasks. `mine` selects those that `actor` may do:
    assigned to the actor, to one of the actor's roles or to anybody, and not claimed by another person."""

    states: Collection[TaskState] = (TaskState.OPEN, TaskState.CLAIMED)
    role: str | None = None
    user: str | None = None
    execution_id: str | None = None
    mine: bool = False


async def task_page(
    tasks: Tasks, wanted: TaskFilter, *, actor: str, roles: Collection[str], limit: int, cursor: str | None
) -> api_shapes.TaskPage:
    """A page of tasks, the newest first. With `mine`, a page may be shorter than `limit` without being the last."""
    if cursor is not None and await tasks.get(cursor) is None:
        raise InvalidError("cursor: this is not a cursor of this list")
    if wanted.mine and (wanted.role is not None or wanted.user is not None):
        raise InvalidError("mine selects the tasks by role and user itself: leave role and user out")
    whose: list[dict[str, Any]] = [{"role": wanted.role, "user": wanted.user}]
    if wanted.mine:
        whose = [{"user": actor}, *({"role": filters} for filters in roles), {"for_anybody": True}]
    rows_by_id: dict[str, TaskRow] = {}
    for filters in whose:
        rows = await tasks.list(
            states=wanted.states, execution_id=wanted.execution_id, limit=limit + 1, beyond=cursor, **filters
        )
        rows_by_id.update((row.task_id, row) for row in rows)
    newest = sorted(rows_by_id.values(), key=lambda row: (-row.created_at, row.task_id))
    beyond = newest[limit - 1].task_id if len(newest) > limit else None
    # Filter after the cut: the cursor must be the last row that was read. Otherwise a page with only tasks that others
    # have claimed would end the list.
    page = [row for row in newest[:limit] if not wanted.mine or row.claimed_by in (None, actor)]
    return api_shapes.TaskPage(tasks=[task_view(row) for row in page], next=beyond)


def task_view(row: TaskRow) -> api_shapes.TaskView:
    history = [
        api_shapes.TaskHistoryEntry(
            at=rfc3339(entry["at"]), what=entry["what"], actor=entry.get("actor"), text=entry.get("text", "")
        )
        for entry in row.history
    ]
    return api_shapes.view_of(api_shapes.TaskView, row, state=row.state.value, data=row.data, history=history)
