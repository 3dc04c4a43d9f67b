"""The sender: takes notices that are due and hands them over, beside everything else (NTF-03 to NTF-06).

Several servers may send: a notice is claimed for a while, and whoever does not settle it in time loses it to another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, Outage
from noetl.control.notifications.destinations import TIMEOUT_S, Destinations, NotSentError
from noetl.control.notifications.notices import NoticeBody, message_of
from noetl.store.contract import Commit
from noetl.store.notices import NoticeRow, Notices, NoticeState, Settlement

POLL_S = 1.0
MOST_AT_ONCE = 16
SLOW_S, MOST_OPEN = 2.0, 256  # an attempt that takes longer makes room for others, up to so many
HELD_S = TIMEOUT_S * 2  # longer than an attempt may take
MOST_ATTEMPTS = 10
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 1800.0  # ten attempts take about two and a half hours

Sleep = Callable[[float], Awaitable[None]]
Counted = Callable[[str, str], None]
_log = logging.getLogger(__name__)


def pause_after(attempts: int) -> float:
    return float(min(FIRST_PAUSE_S * 2 ** (attempts - 1), LONGEST_PAUSE_S))


class NoticeSender:
    """`counted` hears of every attempt: the kind of destination and how it went (sent, failed, dead)."""

    def __init__(self, notices: Notices, destinations: Destinations, clock: Clock, *, counted: Counted) -> None:
        self._notices, self._destinations, self._clock, self._counted = notices, destinations, clock, counted
        self._due = asyncio.Event()
        self._sending: dict[asyncio.Task[None], float] = {}  # attempts under way, and when they began

    def stored(self, commits: Sequence[Commit]) -> None:
        """Hears of every commit: notices in it are sent at once."""
        if any(commit.notices for commit in commits):
            self._due.set()

    async def serve(self) -> None:
        outage = Outage(_log, "notices could not be looked for", "notices are looked for again")
        try:
            while True:
                self._due.clear()
                try:
                    is_full = await self.send_due()
                    outage.worked()
                except BackendError as problem:
                    is_full = False
                    outage.failed(problem)
                await self._pause(is_full)
        finally:
            # What is cut off here is due again when its time is over; another server sends it.
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)
            await self._destinations.close()

    async def _pause(self, is_full: bool) -> None:
        """Until a commit brings notices, an attempt has ended, or it is time to look what others have left."""
        if is_full and self._sending:
            await asyncio.wait(self._sending, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
            return
        try:
            async with asyncio.timeout(POLL_S):
                await self._due.wait()
        except TimeoutError:
            pass

    async def send_due(self) -> bool:
        """Begin to send what is due; True when no more can be sent at once."""
        now = self._clock.now()
        free = self._free_at(now)
        if free <= 0:
            return True
        claimed = await self._notices.claim(now=now, until=now + HELD_S, limit=free)
        for row in claimed:
            task = asyncio.create_task(self._attempt(row))
            self._sending[task] = now
            task.add_done_callback(self._sending.pop)
        return len(claimed) == free

    def _free_at(self, now: float) -> int:
        """How many may be begun. Those that a dead server keeps waiting do not hold up what goes elsewhere."""
        quick = sum(began > now - SLOW_S for began in self._sending.values())
        return min(MOST_AT_ONCE - quick, MOST_OPEN - len(self._sending))

    async def drained(self) -> None:
        """Once the attempts under way have ended."""
        while self._sending:
            await asyncio.wait(self._sending)

    async def _attempt(self, row: NoticeRow) -> None:
        kind = "unknown"
        try:
            body = msgspec.json.decode(row.body, type=NoticeBody)
            kind = body.destination.kind
            message = message_of(row, body, now=self._clock.now())
            await self._destinations.deliver(row.notice_id, body.destination, message)
            problem = None
        except NotSentError as why:
            problem = why
        except Exception as why:  # a notice that breaks the sender must become a dead letter, not be tried for ever
            problem = NotSentError(f"{type(why).__name__}: it could not be sent")
            _log.exception("notice %s broke the sender", row.notice_id)
        try:
            await self._settle(row, kind, problem)
        except BackendError as why:
            _log.warning("what became of notice %s could not be stored, it is sent again: %s", row.notice_id, why)

    async def _settle(self, row: NoticeRow, kind: str, problem: NotSentError | None) -> None:
        now = self._clock.now()
        if problem is None:
            settlement, outcome = Settlement(state=NoticeState.SENT, at=now, due_at=now), "sent"
        elif problem.is_final or row.attempts >= MOST_ATTEMPTS:
            settlement = Settlement(state=NoticeState.DEAD, at=now, due_at=now, error=str(problem))
            outcome = "dead"
        else:
            due_at = now + pause_after(row.attempts)
            settlement = Settlement(state=NoticeState.PENDING, at=now, due_at=due_at, error=str(problem))
            outcome = "failed"
        # Compare and set on the number of attempts: another server may have claimed it after HELD_S, and its word
        # counts.
        if await self._notices.settle(row.notice_id, attempts=row.attempts, settlement=settlement):
            self._counted(kind, outcome)
            if problem is not None:
                about = (row.event, row.path, row.execution_id, row.attempts, problem)
                _log.warning("notice of %s of %s (execution %s) not sent, attempt %d: %s", *about)
