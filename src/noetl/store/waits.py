"""Input to executions from outside: the open waits for messages and signals, the messages that no wait has taken yet
(MSG-01 to MSG-05), and requests of other processes to the one that drives an execution (SRV-07, SRV-11). Also the rows
of waits and messages, made from the effects of decisions.

Rows of waits can be rebuilt from the log. Messages cannot: a message is stored here when it is accepted, until a wait
has taken it, a person removes it, or it expires. A sender stores the message before it looks for a wait, and a wait is
stored before it looks for messages, so neither misses the other. Requests are not part of the log: a request takes
effect when it is recorded as an event.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Any, Protocol

import msgspec

from noetl.engine.decision import ChangeTask, CloseWait, Effect, OpenWait
from noetl.engine.execution import Execution
from noetl.engine.waits.state import OpenHumanTask, Wait
from noetl.events.waits import MAX_BYTES, correlated
from noetl.events.waits import MAX_KEYS as MAX_KEYS
from noetl.store.human_tasks import TaskRow, TaskState

MESSAGE, SIGNAL = "message", "signal"  # kinds of waits
Place = tuple[float, str]  # the position of a message in a list: when it was sent, and its id; valid after its deletion
KINDS = (MESSAGE, SIGNAL)  # waits that are ended from outside, by name
_OUTSIDE = frozenset({OpenWait, CloseWait, ChangeTask})


class WaitRow(msgspec.Struct, frozen=True, kw_only=True):
    """An open wait."""

    wait_id: str
    execution_id: str
    step_run_id: str
    kind: str  # MESSAGE or SIGNAL; timers and human tasks are no rows of this table
    name: str
    # The fields that a message must contain, as canonical text: an index finds it by equality with one of `parts_of`
    # the message.
    correlation: str = "{}"
    opened_at: float


Rows = tuple[tuple[WaitRow, ...], tuple[str, ...], tuple[TaskRow, ...]]


class MessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was accepted."""

    message_id: str
    name: str
    correlation: dict[str, Any] = {}
    payload: Any = None
    sent_at: float
    expires_at: float
    # The execution that has it. The row stays until it expires, so that the same id sent again is recognised.
    taken_by: str | None = None


class KeptRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message that no execution has received, without its payload, which may be large or confidential."""

    message_id: str
    name: str
    correlation: dict[str, Any]
    size_bytes: int
    sent_at: float
    expires_at: float

    @property
    def place(self) -> Place:
        return self.sent_at, self.message_id


def canonical(correlation: dict[str, Any]) -> str:
    """A correlation as text: equal ones give equal texts."""
    return correlated(correlation).decode()


def parts_of(correlation: dict[str, Any]) -> list[str]:
    """Every correlation that a message with this one satisfies: it holds each key with an equal value (MSG-01). Values
    that are too long for a wait are left out: eight of them would give 256 texts of that length."""
    # All subsets of at most MAX_KEYS keys: a message fits a wait that asks for fewer keys than it has.
    items = [(key, value) for key, value in sorted(correlation.items()) if len(correlated(value)) <= MAX_BYTES]
    return [canonical(dict(part)) for size in range(len(items) + 1) for part in combinations(items, size)]


class Waits(Protocol):
    async def waiting(self, kind: str, name: str, correlations: Collection[str] | None = None) -> list[WaitRow]:
        """The open waits for this name, of one of these correlations if given, the oldest first."""

    async def of(self, execution_id: str) -> list[WaitRow]:
        """The open waits of one execution, the oldest first."""

    async def newest(self, *, limit: int = 100) -> list[WaitRow]:
        """The open waits of all executions, the newest first."""

    async def keep(self, message: MessageRow) -> bool:
        """Store a message durably; False when one of this id is known already (MSG-02)."""

    async def message(self, message_id: str) -> MessageRow | None: ...

    async def stored_messages(self, name: str, *, now: float) -> list[MessageRow]:
        """Messages of this name that no wait has taken and that have not expired, the oldest first."""

    async def newest_kept(
        self, *, now: float, name: str | None = None, limit: int = 100, beyond: Place | None = None
    ) -> list[KeptRow]:
        """Such messages of every name, or of one, the newest first; those that come after this place, if given."""

    async def count_kept(self, name: str, *, now: float) -> int:
        """How many of these there are."""

    async def names_kept(self, *, now: float) -> list[str]:
        """The names of which there are such messages."""

    async def remove(self, message_id: str, *, now: float) -> bool:
        """Remove such a message; False when there is none of this id. A commit that takes it at the same time either
        succeeds, and this returns False, or gets a ConflictError."""

    async def remove_named(self, name: str, *, now: float) -> int:
        """Remove all such messages of this name; returns how many. Those that a commit is taking may be left."""

    async def discard(self, *, before: float) -> int:
        """Remove messages that had expired by then, taken or not; returns how many."""


class MemoryWaits:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._waits: dict[str, WaitRow] = {}
        self._messages: dict[str, MessageRow] = {}

    def is_taken(self, message_id: str) -> bool:
        message = self._messages.get(message_id)
        return message is None or message.taken_by is not None

    def write(
        self, opened: Collection[WaitRow], closed: Collection[str], taken: Collection[str], taken_by: str
    ) -> None:
        self._waits.update((wait.wait_id, wait) for wait in opened)
        for wait_id in closed:
            self._waits.pop(wait_id, None)
        for message_id in taken:
            self._messages[message_id] = msgspec.structs.replace(self._messages[message_id], taken_by=taken_by)

    def rebuilt(self, waits: Collection[WaitRow]) -> None:
        self._waits = {wait.wait_id: wait for wait in waits}

    def retire(self, execution_ids: Collection[str]) -> None:
        self._waits = {key: wait for key, wait in self._waits.items() if wait.execution_id not in execution_ids}

    def texts(self) -> list[bytes]:
        """The payloads of messages, as JSON."""
        return [msgspec.json.encode(message.payload) for message in self._messages.values()]

    async def waiting(self, kind: str, name: str, correlations: Collection[str] | None = None) -> list[WaitRow]:
        found = [
            wait
            for wait in self._waits.values()
            if (wait.kind, wait.name) == (kind, name) and (correlations is None or wait.correlation in correlations)
        ]
        return sorted(found, key=lambda wait: wait.opened_at)

    async def of(self, execution_id: str) -> list[WaitRow]:
        found = [wait for wait in self._waits.values() if wait.execution_id == execution_id]
        return sorted(found, key=lambda wait: wait.opened_at)

    async def newest(self, *, limit: int = 100) -> list[WaitRow]:
        return sorted(self._waits.values(), key=lambda wait: -wait.opened_at)[:limit]

    async def keep(self, message: MessageRow) -> bool:
        return self._messages.setdefault(message.message_id, message) is message

    async def message(self, message_id: str) -> MessageRow | None:
        return self._messages.get(message_id)

    async def stored_messages(self, name: str, *, now: float) -> list[MessageRow]:
        found = [one for one in self._messages.values() if one.name == name and _is_kept(one, now)]
        return sorted(found, key=lambda message: message.sent_at)

    async def newest_kept(
        self, *, now: float, name: str | None = None, limit: int = 100, beyond: Place | None = None
    ) -> list[KeptRow]:
        found = [
            _row_without_payload(one)
            for one in self._messages.values()
            if _is_kept(one, now) and name in (None, one.name)
        ]
        newest = sorted(found, key=lambda one: one.place, reverse=True)
        return [one for one in newest if beyond is None or one.place < beyond][:limit]

    async def count_kept(self, name: str, *, now: float) -> int:
        return sum(one.name == name and _is_kept(one, now) for one in self._messages.values())

    async def names_kept(self, *, now: float) -> list[str]:
        return sorted({message.name for message in self._messages.values() if _is_kept(message, now)})

    async def remove(self, message_id: str, *, now: float) -> bool:
        message = self._messages.get(message_id)
        if message is None or not _is_kept(message, now):
            return False
        del self._messages[message_id]
        return True

    async def remove_named(self, name: str, *, now: float) -> int:
        found = [one.message_id for one in await self.stored_messages(name, now=now)]
        for message_id in found:
            del self._messages[message_id]
        return len(found)

    async def discard(self, *, before: float) -> int:
        old = [message_id for message_id, message in self._messages.items() if message.expires_at <= before]
        for message_id in old:
            del self._messages[message_id]
        return len(old)


def _is_kept(message: MessageRow, now: float) -> bool:
    return message.taken_by is None and message.expires_at > now


def _row_without_payload(message: MessageRow) -> KeptRow:
    return KeptRow(
        message_id=message.message_id,
        name=message.name,
        correlation=message.correlation,
        size_bytes=len(msgspec.json.encode(message.payload)),
        sent_at=message.sent_at,
        expires_at=message.expires_at,
    )


# Rows of waits and human tasks, from what the engine says of them: in a commit as in a rebuilding the same.


def outside_rows(execution_id: str, effects: Sequence[Effect]) -> Rows:
    """Waits that are open after these effects, the ids of those that are over, and the tasks they change."""
    # Most commits have none of them, and this runs for every commit.
    if not [effect for effect in effects if type(effect) in _OUTSIDE]:
        return (), (), ()
    waits: dict[str, WaitRow] = {}
    closed: dict[str, None] = {}
    tasks: dict[str, TaskRow] = {}
    for effect in effects:
        match effect:
            case OpenWait():
                waits[effect.wait_id] = wait_row(execution_id, effect)
            case CloseWait():
                if waits.pop(effect.wait_id, None) is None:  # otherwise it was opened in this commit and is not stored
                    closed[effect.wait_id] = None
            case ChangeTask():
                tasks[effect.task.task_id] = task_row(execution_id, effect.task)
            case _:
                pass
    return tuple(waits.values()), tuple(closed), tuple(tasks.values())


def waits_of(execution: Execution) -> list[WaitRow]:
    """The rows of its open waits."""
    waits = (wait for wait in execution.open_waits.waits.values() if wait.kind in KINDS)
    return [wait_row(execution.execution_id, wait) for wait in waits]


def tasks_of(execution: Execution) -> list[TaskRow]:
    return [task_row(execution.execution_id, task) for task in execution.open_waits.human_tasks.values()]


def wait_row(execution_id: str, wait: OpenWait | Wait) -> WaitRow:
    return WaitRow(
        wait_id=wait.wait_id,
        execution_id=execution_id,
        step_run_id=wait.step_run_id,
        kind=str(wait.kind),
        name=wait.name,
        correlation=canonical(wait.correlation),
        opened_at=wait.opened_at,
    )


def task_row(execution_id: str, task: OpenHumanTask) -> TaskRow:
    return TaskRow(
        task_id=task.task_id,
        execution_id=execution_id,
        step=task.step,
        step_run_id=task.step_run_id,
        state=TaskState(task.state.value),
        version=task.version,
        title=task.title,
        description=task.asked.description,
        data=task.asked.data,
        history=[msgspec.to_builtins(one) for one in task.history],
        role=task.role,
        user=task.user,
        form=msgspec.json.decode(msgspec.json.encode(task.form)),  # as a store gives it back
        claimed_by=task.claimed_by,
        completed_by=task.completed_by,
        result=task.result,
        created_at=task.created_at,
        due_at=task.asked.due_at,
        overdue=task.overdue,
        escalated=task.escalated,
        ended_at=task.ended_at,
    )


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is asked of the process that drives an execution."""

    request_id: int
    execution_id: str
    # pause | resume | cancel | compensate; or the name of a command (`control/outside/requests.py`).
    action: str
    # In people's words; of a command it is the command itself, as JSON.
    reason: str | None = None
    requested_at: float
    # Its result; None until a process has answered it.
    answer: str | None = None
    answered_at: float | None = None


class Requests(Protocol):
    async def ask(self, execution_id: str, action: str, *, reason: str | None, at: float) -> int:
        """Store a request; returns its number."""

    async def pending(self) -> list[RequestRow]:
        """Requests without an answer, in the order they came."""

    async def get(self, request_id: int) -> RequestRow | None: ...

    async def answer(self, request_id: int, answer: str, *, at: float) -> None:
        """Store the outcome of a request; the first answer is kept."""


class MemoryRequests:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._rows: list[RequestRow] = []

    async def ask(self, execution_id: str, action: str, *, reason: str | None, at: float) -> int:
        number = len(self._rows) + 1
        self._rows.append(
            RequestRow(request_id=number, execution_id=execution_id, action=action, reason=reason, requested_at=at)
        )
        return number

    async def pending(self) -> list[RequestRow]:
        return [row for row in self._rows if row.answer is None]

    async def get(self, request_id: int) -> RequestRow | None:
        return self._rows[request_id - 1] if 0 < request_id <= len(self._rows) else None

    async def answer(self, request_id: int, answer: str, *, at: float) -> None:
        row = self._rows[request_id - 1]
        if row.answer is None:
            self._rows[request_id - 1] = msgspec.structs.replace(row, answer=answer, answered_at=at)
