"""Delivery: a message goes to one wait, a signal to all that wait for it (MSG-01 to MSG-06, O-26).

A message is stored before the search for a wait, and a wait before the search for a message. So neither misses the
other, even if a process crashes in between. The store decides which of two waits gets a message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from shlex import quote
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import InvalidError, NoetlError, RefusedError, SettledError, log_failure
from noetl.base.ids import uuid7
from noetl.control.outside.human_tasks import TakesCommands, check, request_result
from noetl.engine.commands import CancelTimer, Command, DeliverMessage, DeliverSignal, InjectEvent
from noetl.events.orders import ReportResult
from noetl.events.waits import MAX_NAME
from noetl.net.net import Net, from_json
from noetl.store.contract import ConflictError, Store
from noetl.store.waits import MAX_KEYS, MESSAGE, SIGNAL, MessageRow, WaitRow, parts_of

MESSAGE_TTL_S = 86_400.0  # of a message whose sender says nothing (MSG-03)
# Messages of one name that no wait has taken. A sender without a receiver would otherwise fill the database.
MOST_KEPT = 10_000
_AT_ONCE = 100  # executions that receive a signal in one transaction
_log = logging.getLogger(__name__)


class _RemovedError(Exception):
    """The message was deleted while it was being delivered."""


class DeliveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted message. `delivered_to` is the execution that has it, None while it is stored; `known`: it was sent
    before, and this request changed nothing."""

    message_id: str
    delivered_to: str | None = None
    known: bool = False


class MessageDelivery:
    """Delivers messages, signals and injected events. `reaches` says whether this process may decide upon an execution:
    a server upon any, an embedded run upon its own."""

    def __init__(
        self, executions: TakesCommands, store: Store, clock: Clock, *, reaches: Callable[[str], bool] | None = None
    ) -> None:
        self._executions, self._store, self._clock = executions, store, clock
        self._reaches = reaches or (lambda _: True)

    async def send_message(
        self,
        name: str,
        correlation: dict[str, Any] | None = None,
        payload: Any = None,
        *,
        message_id: str | None = None,
        ttl_s: float = MESSAGE_TTL_S,
    ) -> DeliveryResult:
        """Store a message and deliver it to the oldest wait for it. SettledError when another message has its id."""
        now = self._clock.now()
        message = new_message(name, correlation or {}, payload, message_id=message_id, ttl_s=ttl_s, now=now)
        # Stored first: a wait that opens after the search for waits looks for stored messages itself (`look_for`).
        is_known = not await keep(self._store, message)
        if is_known:
            kept = await self._store.waits.message(message.message_id)
            if kept is not None and kept.taken_by is not None:
                return DeliveryResult(message_id=message.message_id, delivered_to=kept.taken_by, known=True)
        # Also if it was known: the first sender may have crashed between storing and delivering.
        delivered_to = await self.deliver(message)
        return DeliveryResult(message_id=message.message_id, delivered_to=delivered_to, known=is_known)

    async def deliver(self, message: MessageRow) -> str | None:
        """Deliver a stored message to the oldest wait that takes it; returns the execution that has it then."""
        waits = await self._store.waits.waiting(MESSAGE, message.name, parts_of(message.correlation))
        for wait in waits:
            # An embedded run only decides for its own executions; the owner of the other one finds the message in the
            # store.
            if not self._reaches(wait.execution_id):
                continue
            try:
                receiver = await self._deliver_to(message, wait)
            except _RemovedError:
                return None
            if receiver is not None:
                return receiver
        return None

    async def look_for(self, waits: Iterable[WaitRow]) -> None:
        """Deliver stored messages to these waits, the oldest wait and the oldest message first."""
        by_name: dict[str, list[WaitRow]] = {}
        for wait in waits:
            by_name.setdefault(wait.name, []).append(wait)
        for name, waits_of_name in by_name.items():
            if messages := await self._store.waits.stored_messages(name, now=self._clock.now()):
                with suppress(_RemovedError):  # an operator deletes messages; the next sweep delivers the others
                    await self._match(messages, sorted(waits_of_name, key=lambda wait: wait.opened_at))

    async def _match(self, messages: Sequence[MessageRow], waits: Sequence[WaitRow]) -> None:
        # Grouped first: matching every message with every wait would cost their product.
        wanted = {wait.correlation for wait in waits}
        fitting: dict[str, list[MessageRow]] = {}
        for message in messages:
            for part in parts_of(message.correlation):
                if part in wanted:
                    fitting.setdefault(part, []).append(message)
        # The list of messages was read before: these have a receiver by now.
        delivered: set[str] = set()
        for wait in waits:
            for message in fitting.get(wait.correlation, ()):
                if message.message_id in delivered or (receiver := await self._deliver_to(message, wait)) is None:
                    continue
                delivered.add(message.message_id)
                if receiver == wait.execution_id:
                    break

    async def _deliver_to(self, message: MessageRow, wait: WaitRow) -> str | None:
        """Deliver a message to a wait. Returns the execution that has the message now, None when the wait did not take
        it. _RemovedError when the message was deleted."""
        command = DeliverMessage(
            at=self._clock.now(),
            wait_id=wait.wait_id,
            message_id=message.message_id,
            name=message.name,
            correlation=message.correlation,
            payload=message.payload,
            sent_at=message.sent_at,
        )
        try:
            decision = await self._executions.submit(wait.execution_id, command)
        except ConflictError:
            # Another wait has taken the message, or an operator deleted it.
            kept = await self._store.waits.message(message.message_id)
            if kept is None:
                raise _RemovedError from None
            return kept.taken_by
        except NoetlError as problem:  # the execution cannot be read; the message stays stored
            log_failure(_log, problem, "message %s was not delivered to %s", message.message_id, wait.execution_id)
            return None
        return wait.execution_id if decision.verdict in (ReportResult.ACCEPTED, ReportResult.DUPLICATE) else None

    async def send_signal(
        self, name: str, data: Any = None, *, execution_id: str | None = None, signal_id: str | None = None
    ) -> list[str]:
        """Send a signal to one execution, or to all that wait for it; returns those that received it. A signal is not
        stored for later waits (O-26)."""
        _check_name(name, "signal")
        command = DeliverSignal(
            at=self._clock.now(), signal_id=signal_id or uuid7(self._clock.now()), name=name, data=data
        )
        if execution_id is not None:
            decision = await self._executions.submit(execution_id, command)
            return [execution_id] if check(request_result(decision), what=f'signal "{name}"') else []
        subscribers = await Subscriptions(self._store).of_signal(name)
        targets = [subscriber for subscriber in subscribers if self._reaches(subscriber)]
        received: list[str] = []
        for first in range(0, len(targets), _AT_ONCE):
            received += await self._broadcast(targets[first : first + _AT_ONCE], command)
        return received

    async def _broadcast(self, execution_ids: Sequence[str], command: Command) -> list[str]:
        """The executions that accepted the command. One that cannot be read does not keep it from the others."""
        try:
            decisions = await self._executions.submit_all([(execution_id, command) for execution_id in execution_ids])
        except NoetlError:
            if len(execution_ids) == 1:
                return []
            return [accepted for alone in execution_ids for accepted in await self._broadcast([alone], command)]
        return [
            execution_id
            for execution_id, decision in zip(execution_ids, decisions, strict=True)
            if decision.verdict is ReportResult.ACCEPTED
        ]

    async def inject(self, execution_id: str, name: str, data: Any = None, *, event_key: str | None = None) -> bool:
        """Record an event from outside (MSG-06). False when its key was recorded before."""
        _check_name(name, "event")
        command = InjectEvent(at=self._clock.now(), name=name, data=data, event_key=event_key)
        return await self._submit_command(execution_id, command, what=f'event "{name}"')

    async def cancel_timer(self, execution_id: str, timer_id: str, *, actor: str) -> bool:
        """Cancel a timer whose author allows it (TMR-04). False when it was cancelled before."""
        command = CancelTimer(at=self._clock.now(), timer_id=timer_id, actor=actor)
        return await self._submit_command(execution_id, command, what=f'timer "{timer_id}"')

    async def _submit_command(self, execution_id: str, command: Command, *, what: str) -> bool:
        return check(request_result(await self._executions.submit(execution_id, command)), what=what)


def new_message(
    name: str, correlation: dict[str, Any], payload: Any, *, message_id: str | None, ttl_s: float, now: float
) -> MessageRow:
    """A message as it is stored. InvalidError says what is wrong with it."""
    _check_name(name, "message")
    if len(correlation) > MAX_KEYS:
        raise InvalidError(f"this correlation has {len(correlation)} keys, and {MAX_KEYS} is the limit: leave some out")
    if message_id is not None and len(message_id) > MAX_NAME:
        raise InvalidError(f"the id of a message is text of 1 to {MAX_NAME} characters")
    if not 0 < ttl_s <= 366 * 86_400:
        raise InvalidError("a message is kept for more than 0 seconds and a year at most")
    return MessageRow(
        message_id=message_id or uuid7(now),
        name=name,
        correlation=correlation,
        payload=payload,
        sent_at=now,
        expires_at=now + ttl_s,
    )


async def keep(store: Store, message: MessageRow) -> bool:
    """Store a message; False when it is there already. SettledError when another one has its id (MSG-02), RefusedError
    when too many of its name wait for a receiver."""
    if await _is_full(store, message) and await store.waits.message(message.message_id) is None:
        raise RefusedError(
            f'{MOST_KEPT:,} messages "{message.name}" wait for a receiver already, which is the limit: have them '
            f"received, or look at them with noetl message list --name {quote(message.name)} and remove them with "
            f"noetl message delete --name {quote(message.name)}"
        )
    if await store.waits.keep(message):
        return True
    stored = await store.waits.message(message.message_id)
    if stored is not None and _body(stored) != _body(message):
        raise SettledError(f"another message was sent as {message.message_id}: give this one an id of its own")
    return False


async def _is_full(store: Store, message: MessageRow) -> bool:
    """Whether no wait would take the message and too many of its name are stored (reliability.md §2.4)."""
    if await store.waits.count_kept(message.name, now=message.sent_at) < MOST_KEPT:
        return False
    return not await store.waits.waiting(MESSAGE, message.name, parts_of(message.correlation))


def _body(message: MessageRow) -> bytes:
    return msgspec.json.encode((message.name, message.correlation, message.payload), order="sorted")


def _check_name(name: str, what: str) -> None:
    if not name or len(name) > MAX_NAME:
        raise InvalidError(f"the name of a {what} is text of 1 to {MAX_NAME} characters")


_PAGE = 1_000
_OPEN = ("running", "paused")


class Subscriptions:
    """The executions that receive a signal: those that wait for it by name, and those that listen to events (MSG-05).
    Whether a step listens follows from the playbook, so the other open executions get no command."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # By net: whether a step of it listens to events follows from the playbook alone.
        self._listens: dict[str, bool] = {}

    async def of_signal(self, name: str) -> list[str]:
        """The executions that wait for this signal, the oldest wait first, then those that listen."""
        waiting = [wait.execution_id for wait in await self._store.waits.waiting(SIGNAL, name)]
        return list(dict.fromkeys([*waiting, *await self._listening()]))

    async def _listening(self) -> list[str]:
        found: list[str] = []
        for status in _OPEN:
            beyond: str | None = None
            while True:
                page = await self._store.executions(limit=_PAGE, status=status, beyond=beyond)
                found += [row.execution_id for row in page if await self._is_listening(row.net_hash)]
                if len(page) < _PAGE:
                    break
                beyond = page[-1].execution_id
        return found

    async def _is_listening(self, net_hash: str) -> bool:
        if net_hash not in self._listens:
            self._listens[net_hash] = listens(from_json(await self._store.net(net_hash)))
        return self._listens[net_hash]


def listens(net: Net) -> bool:
    """Whether a step of the net receives events that it does not wait for by name."""
    return any(step.handlers is not None or (step.case is not None and step.case.on_event) for step in net.transitions)
