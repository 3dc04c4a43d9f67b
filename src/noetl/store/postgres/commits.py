"""Commits as the values that the statement `commit` and those beside it take: an array of rows, or one per column,
whatever the number of executions, so that a batch costs as many round trips as a single step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from noetl.base.crash_points import crash_point
from noetl.store.contract import Commit, ConflictError, StoreSpace, TakenError
from noetl.store.event_batches import batch_values
from noetl.store.postgres.database import QUERIES
from noetl.store.row_codecs import execution_values, notice_values, order_values, task_values, wait_values

# The number of columns of each, for `columns` of no rows: PostgreSQL must be given as many arrays as the statement has
# parameters.
_NET, _WAIT, _TASK, _NOTICE, _PAIR = 2, 7, 8, 15, 2


def columns(rows: Iterable[Sequence[Any]], width: int) -> list[Sequence[Any]]:
    """Rows turned into columns, of which there are `width` also when there is no row."""
    turned: list[Sequence[Any]] = list(zip(*rows, strict=True))
    return turned or [()] * width


class Written:
    """What a batch of commits writes. Executions are sorted: two batches may wait for each other, but in no circle."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        self._commits = sorted(commits, key=lambda commit: commit.execution.execution_id)
        self._batches = batch_values(self._commits)

    async def write(self, connection: Any) -> None:
        """All of it or nothing. The usual commit is a single statement, which is a transaction of its own."""
        # One round trip instead of four (BEGIN, statement, more, COMMIT): most commits have nothing else.
        if not any(map(_has_more, self._commits)):
            await connection.execute(QUERIES["commit"], *self._main_values())
            return
        rooms = {room for one in self._commits for room in one.room}
        async with connection.transaction():
            if rooms:
                # Two claims that count at the same time would both find room. The lock makes count and claim one
                # step.
                await connection.execute(QUERIES["lock_pools"], [room.pool for room in rooms])
            await connection.execute(QUERIES["commit"], *self._main_values())
            await self._write_more(connection)
            crash_point("append.locked")
            # After the write: it counts what is held now, ours included.
            for room in rooms:
                await _check_room(connection, room)

    def _main_values(self) -> list[Sequence[Any]]:
        """The values of the statement `commit`."""
        commits = self._commits
        # A hundred starts of one playbook in a batch send its net once.
        nets = {one.execution.net_hash: one.net for one in commits if one.net is not None}
        return [
            [(*execution_values(one.execution), one.after) for one in commits],
            self._batches,
            [order_values(order) for one in commits for order in one.orders],
            *columns(nets.items(), _NET),
        ]

    async def _write_more(self, connection: Any) -> None:
        """Waits, messages, human tasks and notices. TakenError when a message was delivered elsewhere, or removed."""
        closed = {(one.execution.execution_id, wait_id) for one in self._commits for wait_id in one.closed_waits}
        opened = {(wait.execution_id, wait.wait_id): wait for one in self._commits for wait in one.waits}
        # Opened and closed in the same batch: it never has to be written.
        waits = [wait_values(wait) for key, wait in opened.items() if key not in closed]
        tasks = {task.task_id: task_values(task) for one in self._commits for task in one.tasks}
        if waits:
            await connection.execute(QUERIES["put_waits"], *columns(waits, _WAIT))
        if closed:
            await connection.execute(QUERIES["delete_waits"], *columns(sorted(closed), _PAIR))
        if tasks:
            await connection.execute(QUERIES["put_tasks"], *columns(tasks.values(), _TASK))
        if notices := [notice_values(one) for commit in self._commits for one in commit.notices]:
            await connection.execute(QUERIES["put_notices"], *columns(notices, _NOTICE))
        await self._take_messages(connection)

    async def _take_messages(self, connection: Any) -> None:
        wanted = [(message, one.execution.execution_id) for one in self._commits for message in one.taken_messages]
        if not wanted:
            return
        taken = {row[0] for row in await connection.fetch(QUERIES["take_messages"], *columns(sorted(wanted), _PAIR))}
        seen: set[str] = set()
        for message_id, _ in wanted:
            # The second check is for two executions of this very batch that took the same message.
            if message_id not in taken or message_id in seen:
                raise TakenError(f"message {message_id} was delivered to another wait, or removed")
            seen.add(message_id)

    @property
    def is_new(self) -> bool:
        """Whether it does nothing but begin executions."""
        return all(one.after == 0 for one in self._commits)

    async def is_stored(self, connection: Any) -> bool:
        """Whether the log holds exactly these batches where they belong, whoever has moved it further since."""
        stored = [await connection.fetchrow(QUERIES["select_batch"], *batch[:2]) for batch in self._batches]
        # Compared as a whole: the same positions may hold the events of another server.
        return bool(stored) and [tuple(row or ()) for row in stored] == self._batches


def _has_more(commit: Commit) -> bool:
    """Whether there is something beside events, executions, orders and nets."""
    return bool(
        commit.waits or commit.closed_waits or commit.taken_messages or commit.tasks or commit.room or commit.notices
    )


async def _check_room(connection: Any, room: StoreSpace) -> None:
    """ConflictError when more orders of a pool are held now than may be."""
    held = dict(await connection.fetch(QUERIES["select_leased"], room.now, [room.pool]))
    if held.get(room.pool, 0) > room.capacity:
        raise ConflictError(f'pool "{room.pool}" is full: {room.capacity} orders of it are held')
