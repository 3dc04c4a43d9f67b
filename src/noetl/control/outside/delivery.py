"""Delivery: a message goes to one wait, a signal to all that wait for it (MSG-01 to MSG-06, O-26).

A message is stored before waits are looked for, and a wait before messages are. So neither misses the other,
whatever crashes in between. The store decides which of two waits gets a message.
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

MESSAGE_TTL_S = 86_400.0  # message_ttl (MSG-03)
# A sender without a receiver would otherwise fill the database.
MOST_KEPT = 10_000  # messages of one name that nobody has taken
_AT_ONCE = 100  # executions that hear a broadcast in one transaction
_log = logging.getLogger(__name__)


class _RemovedError(Exception):
    """Somebody has removed the message while it was handed over."""


class DeliveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was accepted. `delivered_to` is the execution that has it, None while it is kept; `known`: it had
    been sent before, and this sending changed nothing."""

    message_id: str
    delivered_to: str | None = None
    known: bool = False


class MessageDelivery:
    """`reaches` tells whether an execution may be decided upon here: on a server any, in an embedded run its own."""

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
        """Accept a message, durably, and hand it to the one who has waited for it longest. SettledError when the id
        was given to another message."""
        now = self._clock.now()
        message = new_message(name, correlation or {}, payload, message_id=message_id, ttl_s=ttl_s, now=now)
        # Stored first, then waits are looked for: a wait that opens in between looks for messages itself (`look_for`).
        is_known = not await keep(self._store, message)
        if is_known:
            kept = await self._store.waits.message(message.message_id)
            if kept is not None and kept.taken_by is not None:
                return DeliveryResult(message_id=message.message_id, delivered_to=kept.taken_by, known=True)
        # Also where it was known: the first sender may have crashed between storing and delivering.
        delivered_to = await self.deliver(message)
        return DeliveryResult(message_id=message.message_id, delivered_to=delivered_to, known=is_known)

    async def deliver(self, message: MessageRow) -> str | None:
        """Hand a kept message to the oldest wait that takes it; the execution that has it then."""
        waits = await self._store.waits.waiting(MESSAGE, message.name, parts_of(message.correlation))
        for wait in waits:
            # An embedded run only decides for its own executions; the owner of the other one finds the message in the
            # store.
            if not self._reaches(wait.execution_id):
                continue
            try:
                taker = await self._hand(message, wait)
            except _RemovedError:
                return None
            if taker is not None:
                return taker
        return None

    async def look_for(self, waits: Iterable[WaitRow]) -> None:
        """Hand these waits the messages that are kept for them, the oldest wait and the oldest message first."""
        by_name: dict[str, list[WaitRow]] = {}
        for wait in waits:
            by_name.setdefault(wait.name, []).append(wait)
        for name, own in by_name.items():
            if kept := await self._store.waits.stored_messages(name, now=self._clock.now()):
                with suppress(_RemovedError):  # of many perhaps: the next look sees what is left
                    await self._match(kept, sorted(own, key=lambda wait: wait.opened_at))

    async def _match(self, messages: Sequence[MessageRow], waits: Sequence[WaitRow]) -> None:
        # Grouped first: matching every message with every wait would cost their product.
        wanted = {wait.correlation for wait in waits}
        fitting: dict[str, list[MessageRow]] = {}
        for message in messages:
            for part in parts_of(message.correlation):
                if part in wanted:
                    fitting.setdefault(part, []).append(message)
        # Messages that somebody has by now, of this look: the list was read before.
        gone: set[str] = set()
        for wait in waits:
            for message in fitting.get(wait.correlation, ()):
                if message.message_id in gone or (taker := await self._hand(message, wait)) is None:
                    continue
                gone.add(message.message_id)
                if taker == wait.execution_id:
                    break

    async def _hand(self, message: MessageRow, wait: WaitRow) -> str | None:
        """The execution that has the message now, None when this wait does not take it. _RemovedError when nobody will
        have it."""
        command = DeliverMessage(
            at=self._clock.now(),
            wait_id=wait.wait_id,
            message_id=message.message_id,
            name=message.name,
            correlation=message.correlation,
            payload=message.payload,
        )
        try:
            decision = await self._executions.submit(wait.execution_id, command)
        except ConflictError:
            # Another wait was quicker, or an operator deleted the message.
            kept = await self._store.waits.message(message.message_id)
            if kept is None:
                raise _RemovedError from None
            return kept.taken_by
        except NoetlError as problem:  # an execution that cannot be read is its own problem; the message is kept
            log_failure(_log, problem, "message %s was not delivered to %s", message.message_id, wait.execution_id)
            return None
        return wait.execution_id if decision.verdict in (ReportResult.ACCEPTED, ReportResult.DUPLICATE) else None

    async def send_signal(
        self, name: str, data: Any = None, *, execution_id: str | None = None, signal_id: str | None = None
    ) -> list[str]:
        """Broadcast to one execution, or to all; gives those that heard it. It is not kept for others (O-26)."""
        _check_name(name, "signal")
        command = DeliverSignal(
            at=self._clock.now(), signal_id=signal_id or uuid7(self._clock.now()), name=name, data=data
        )
        if execution_id is not None:
            decision = await self._executions.submit(execution_id, command)
            return [execution_id] if check(request_result(decision), what=f'signal "{name}"') else []
        audience = [one for one in await Subscriptions(self._store).of_signal(name) if self._reaches(one)]
        heard: list[str] = []
        for first in range(0, len(audience), _AT_ONCE):
            heard += await self._broadcast(audience[first : first + _AT_ONCE], command)
        return heard

    async def _broadcast(self, audience: Sequence[str], command: Command) -> list[str]:
        """Those that heard it. An execution that cannot be told is its own problem."""
        try:
            decisions = await self._executions.submit_all([(one, command) for one in audience])
        except NoetlError:
            if len(audience) == 1:
                return []
            return [one for alone in audience for one in await self._broadcast([alone], command)]
        return [
            one for one, decision in zip(audience, decisions, strict=True) if decision.verdict is ReportResult.ACCEPTED
        ]

    async def inject(self, execution_id: str, name: str, data: Any = None, *, event_key: str | None = None) -> bool:
        """An event of somebody outside (MSG-06). False when its key was known already."""
        _check_name(name, "event")
        command = InjectEvent(at=self._clock.now(), name=name, data=data, event_key=event_key)
        return await self._changed(execution_id, command, what=f'event "{name}"')

    async def cancel_timer(self, execution_id: str, timer_id: str, *, actor: str) -> bool:
        """Cancel a timer whose author allows it (TMR-04). False when it was cancelled before."""
        command = CancelTimer(at=self._clock.now(), timer_id=timer_id, actor=actor)
        return await self._changed(execution_id, command, what=f'timer "{timer_id}"')

    async def _changed(self, execution_id: str, command: Command, *, what: str) -> bool:
        return check(request_result(await self._executions.submit(execution_id, command)), what=what)


def new_message(
    name: str, correlation: dict[str, Any], payload: Any, *, message_id: str | None, ttl_s: float, now: float
) -> MessageRow:
    """InvalidError says what is wrong with it."""
    _check_name(name, "message")
    if len(correlation) > MAX_KEYS:
        raise InvalidError(f"this correlation has {len(correlation)} keys, and {MAX_KEYS} is the limit: leave some out")
    if message_id is not None and len(message_id) > MAX_NAME:
        raise InvalidError(f"the id of a message is text of 1 to {MAX_NAME} characters")
    if not 0 < ttl_s <= 366 * 86_400:
        raise InvalidError("a message is kept for more than nothing and for a year at most")
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
    there = await store.waits.message(message.message_id)
    if there is not None and _body(there) != _body(message):
        raise SettledError(f"another message was sent as {message.message_id}: give this one an id of its own")
    return False


async def _is_full(store: Store, message: MessageRow) -> bool:
    """Whether nobody would take it and there is no room to keep it (reliability.md §2.4)."""
    if await store.waits.count_kept(message.name, now=message.sent_at) < MOST_KEPT:
        return False
    return not await store.waits.waiting(MESSAGE, message.name, parts_of(message.correlation))


def _body(message: MessageRow) -> bytes:
    return msgspec.json.encode((message.name, message.correlation, message.payload), order="sorted")


def _check_name(name: str, what: str) -> None:
    if not name or len(name) > MAX_NAME:
        raise InvalidError(f"the name of a {what} is text of 1 to {MAX_NAME} characters")


# The audience of a broadcast: executions in which somebody waits for it by name, or listens to what comes (MSG-05).
# Who listens is known from the playbook alone, so of many open executions only those are told that could hear it.
_PAGE = 1_000
_OPEN = ("running", "paused")


class Subscriptions:
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
    """Whether a step of it may hear events that it does not wait for by name."""
    return any(step.handlers is not None or (step.case is not None and step.case.on_event) for step in net.transitions)
