"""Notices: messages of servers to people and other programs about executions (NTF-01 to NTF-06).

A notice is written in the commit of the event that it reports, so a crash loses none. It is sent at least once, with an
id by which a receiver recognises a repetition, and by one server at a time: a claim lasts until `due_at`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec


class NoticeState(StrEnum):
    PENDING = "pending"
    SENDING = "sending"  # a server has claimed it
    SENT = "sent"
    FOLDED = "folded"  # another notice was sent for it, with a count
    DEAD = "dead"  # every attempt has failed: a dead letter


OPEN = (NoticeState.PENDING, NoticeState.SENDING)


class NoticeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One notice, for one destination."""

    notice_id: str
    execution_id: str
    path: str
    event: str
    # The name of the rule that asks for it; "playbook" when the playbook does.
    rule: str
    state: NoticeState = NoticeState.PENDING
    created_at: float
    # While it is pending, when it is to be sent; while a server has it, when others may take it.
    due_at: float
    # Counts claims. Settling an attempt requires its number, so that a server that was too slow changes nothing.
    attempts: int = 0
    # Notices with the same key are sent at most once in `throttle_s`: those that come meanwhile are folded into the
    # next one, whose `folded` counts them.
    fold_key: str | None = None
    throttle_s: float = 0.0
    folded: int = 0
    error: str | None = None
    ended_at: float | None = None
    # JSON: the event, and the destination (`NoticeBody` of the control plane).
    body: bytes


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an attempt. Pending again: the next one is at `due_at`."""

    state: NoticeState
    at: float
    due_at: float
    error: str | None = None


class Notices(Protocol):
    async def get(self, notice_id: str) -> NoticeRow | None: ...

    async def list(
        self,
        *,
        states: Collection[NoticeState] = (),
        execution_id: str | None = None,
        limit: int = 100,
        beyond: str | None = None,
    ) -> list[NoticeRow]:
        """The newest first. `beyond` is the last notice of the page before."""

    async def claim(self, *, now: float, until: float, limit: int) -> Sequence[NoticeRow]:
        """Claim notices that are due or whose claim has run out, and count an attempt of each. No other server gets
        them before `until`. Of notices with the same fold key, the oldest is returned with the others folded into it,
        unless one of them is being sent or was sent within `throttle_s`."""

    async def settle(self, notice_id: str, *, attempts: int, settlement: Settlement) -> bool:
        """Record the outcome of the attempt with this number; False if another server has claimed the notice since."""

    async def send_again(self, notice_id: str, *, now: float) -> bool:
        """Make a dead letter due again, with its full number of attempts; False if it is no dead letter."""

    async def tally(self) -> dict[str, int]:
        """How many there are, by state."""

    async def sweep(self, *, before: float, states: Collection[NoticeState]) -> int:
        """Remove those of these states that ended before then; returns how many."""


class MemoryNotices:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._notices: dict[str, NoticeRow] = {}

    def write(self, notices: Iterable[NoticeRow]) -> None:
        for notice in notices:
            self._notices.setdefault(notice.notice_id, notice)

    def retire(self, execution_ids: Collection[str]) -> None:
        self._notices = {key: one for key, one in self._notices.items() if one.execution_id not in execution_ids}

    async def get(self, notice_id: str) -> NoticeRow | None:
        return self._notices.get(notice_id)

    async def list(
        self,
        *,
        states: Collection[NoticeState] = (),
        execution_id: str | None = None,
        limit: int = 100,
        beyond: str | None = None,
    ) -> list[NoticeRow]:
        last = self._notices.get(beyond) if beyond is not None else None
        found = [
            one
            for one in self._notices.values()
            if (not states or one.state in states)
            and execution_id in (None, one.execution_id)
            and (last is None or _age(one) > _age(last))
        ]
        return sorted(found, key=_age)[:limit]

    async def claim(self, *, now: float, until: float, limit: int) -> Sequence[NoticeRow]:
        due = [one for one in self._notices.values() if one.state in OPEN and one.due_at <= now]
        free = [one for one in due if not any(_keeps_back(other, one, now) for other in self._notices.values())]
        taken = [self._take(one, until) for one in sorted(free, key=lambda one: (one.due_at, one.notice_id))[:limit]]
        for leader in taken:
            followers = [one for one in self._notices.values() if _follows(one, leader)]
            for one in followers:
                self._change(one, state=NoticeState.FOLDED, ended_at=now)
            self._change(leader, folded=leader.folded + sum(1 + one.folded for one in followers))
        return [self._notices[one.notice_id] for one in taken]

    def _take(self, notice: NoticeRow, until: float) -> NoticeRow:
        return self._change(notice, state=NoticeState.SENDING, due_at=until, attempts=notice.attempts + 1)

    def _change(self, notice: NoticeRow, **values: object) -> NoticeRow:
        changed = msgspec.structs.replace(notice, **values)
        self._notices[notice.notice_id] = changed
        return changed

    async def settle(self, notice_id: str, *, attempts: int, settlement: Settlement) -> bool:
        notice = self._notices.get(notice_id)
        if notice is None or (notice.state, notice.attempts) != (NoticeState.SENDING, attempts):
            return False
        ended_at = None if settlement.state is NoticeState.PENDING else settlement.at
        self._change(
            notice, state=settlement.state, due_at=settlement.due_at, error=settlement.error, ended_at=ended_at
        )
        return True

    async def send_again(self, notice_id: str, *, now: float) -> bool:
        notice = self._notices.get(notice_id)
        if notice is None or notice.state is not NoticeState.DEAD:
            return False
        self._change(notice, state=NoticeState.PENDING, due_at=now, attempts=0, ended_at=None)
        return True

    async def tally(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for one in self._notices.values():
            counts[one.state.value] = counts.get(one.state.value, 0) + 1
        return counts

    async def sweep(self, *, before: float, states: Collection[NoticeState]) -> int:
        old = [
            key
            for key, one in self._notices.items()
            if one.state in states and one.ended_at is not None and one.ended_at < before
        ]
        for key in old:
            del self._notices[key]
        return len(old)


def _age(notice: NoticeRow) -> tuple[float, str]:
    return -notice.created_at, notice.notice_id


def _keeps_back(other: NoticeRow, notice: NoticeRow, now: float) -> bool:
    """Whether `notice` has to wait for another of its fold key."""
    if notice.fold_key is None or other.fold_key != notice.fold_key or other.notice_id == notice.notice_id:
        return False
    if other.state is NoticeState.SENT:
        return other.ended_at is not None and other.ended_at > now - notice.throttle_s
    if other.state is NoticeState.SENDING and other.due_at > now:
        return True
    is_older = (other.created_at, other.notice_id) < (notice.created_at, notice.notice_id)
    return other.state in OPEN and is_older


def _follows(notice: NoticeRow, leader: NoticeRow) -> bool:
    """Whether it is folded into `leader`, which is about to be sent."""
    return (
        leader.fold_key is not None
        and notice.fold_key == leader.fold_key
        and notice.notice_id != leader.notice_id
        and notice.state in OPEN
    )
