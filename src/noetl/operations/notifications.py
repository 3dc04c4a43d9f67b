"""Notifications as people see them: notices and dead letters, rules of the installation, and trying a rule.

Used by the routes of a server and by the CLI on a store.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from noetl.base.clock import Clock, rfc3339
from noetl.base.errors import InvalidError, NotFoundError, SettledError
from noetl.base.ids import derived
from noetl.control.notifications.destinations import Destinations, NotSentError, shown_destination
from noetl.control.notifications.notices import NoticeBody, message_of
from noetl.control.notifications.rules import NotificationRule, NotificationRules, checked_rule
from noetl.net.net import Destination
from noetl.operations.administration_shapes import LateExecution, NoticePage, NoticeView, TriedDestination
from noetl.store.contract import History
from noetl.store.notices import NoticeRow, Notices, NoticeState

_LONGEST_PAGE = 500
_MOST_LATE = 50  # that are shown


class Notifications:
    """`destinations` is None where nothing can be sent: on a store without its server."""

    def __init__(
        self, notices: Notices, rules: NotificationRules, destinations: Destinations | None, clock: Clock
    ) -> None:
        self._notices, self.rules, self._destinations, self._clock = notices, rules, destinations, clock

    async def page(
        self,
        *,
        states: Collection[NoticeState] = (),
        execution_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> NoticePage:
        """The newest first."""
        if cursor is not None and await self._notices.get(cursor) is None:
            raise InvalidError("cursor: it is none that was given out here")
        limit = min(max(limit, 1), _LONGEST_PAGE)
        rows = await self._notices.list(states=states, execution_id=execution_id, limit=limit + 1, beyond=cursor)
        beyond = rows[limit - 1].notice_id if len(rows) > limit else None
        return NoticePage(notices=[notice_view(row) for row in rows[:limit]], next=beyond)

    async def get(self, notice_id: str) -> NoticeView:
        row = await self._notices.get(notice_id)
        if row is None:
            raise NotFoundError(f'there is no notice "{notice_id}"')
        return notice_view(row)

    async def late(self, history: History) -> list[LateExecution]:
        """Executions that are late and still open, the longest late first. Being late always writes a notice, so the
        newest notices name them."""
        newest = await self._notices.list(limit=_LONGEST_PAGE)
        since = {row.execution_id: row.created_at for row in newest if row.event == "late"}  # the first of each stays
        found = []
        for execution_id, late_since in sorted(since.items(), key=lambda one: one[1]):
            row = await history.execution(execution_id)
            if row is not None and row.finished_at is None:
                began, late = rfc3339(row.created_at), rfc3339(late_since)
                found.append(LateExecution(execution_id=execution_id, path=row.path, started_at=began, late_since=late))
        return found[:_MOST_LATE]

    async def retry(self, notice_id: str) -> NoticeView:
        """Make a dead letter due again, with all its attempts."""
        found = await self.get(notice_id)
        if not await self._notices.send_again(notice_id, now=self._clock.now()):
            raise SettledError(f"notice {notice_id} is {found.state}, and only dead letters are sent again")
        return await self.get(notice_id)

    async def retry_all(self) -> int:
        """Make every dead letter due again; gives how many there were."""
        dead = await self._notices.list(states=(NoticeState.DEAD,), limit=_LONGEST_PAGE)
        now = self._clock.now()
        return sum([await self._notices.send_again(row.notice_id, now=now) for row in dead])

    async def put_rule(self, name: str, wanted: dict[str, Any]) -> NotificationRule:
        """InvalidError says what is wrong with it."""
        if wanted.get("name", name) != name:
            raise InvalidError(f'name: found "{wanted["name"]}", and the rule is put as "{name}"')
        try:
            rule = msgspec.convert({**wanted, "name": name}, NotificationRule)
        except msgspec.ValidationError as problem:
            raise InvalidError(str(problem)) from None
        await self.rules.put(rule)
        return rule

    async def test(self, name: str) -> list[TriedDestination]:
        """Send a test notice to every destination of a rule, now and once, and say what became of it."""
        if self._destinations is None:
            raise InvalidError("a rule is tried by a server: name it with --server, or start noetl dev")
        rule = checked_rule(await self.rules.get(name))
        wanted = rule.notification(rule.on[0])
        return [
            TriedDestination(
                destination=shown_destination(one),
                error=await self._try(self._destinations, rule, one, index),
            )
            for index, one in enumerate(wanted.notify)
        ]

    async def _try(
        self, destinations: Destinations, rule: NotificationRule, destination: Destination, index: int
    ) -> str | None:
        now = self._clock.now()
        notice_id = derived("test", rule.name, index, now)
        body = NoticeBody(destination=destination, facts={"event": "test", "at": rfc3339(now)})
        row = NoticeRow(
            notice_id=notice_id,
            execution_id="",
            path=rule.name,
            event="test",
            rule=rule.name,
            created_at=now,
            due_at=now,
            body=b"",
        )
        try:
            await destinations.deliver(notice_id, destination, message_of(row, body, now=now))
        except NotSentError as problem:
            return str(problem)
        return None


def notice_view(row: NoticeRow) -> NoticeView:
    """A notice without what its destination keeps secret."""
    body = msgspec.json.decode(row.body, type=NoticeBody)
    return NoticeView(
        notice_id=row.notice_id,
        event=row.event,
        path=row.path,
        execution_id=row.execution_id,
        rule=row.rule,
        destination=shown_destination(body.destination),
        state=row.state.value,
        attempts=row.attempts,
        folded=row.folded,
        error=row.error,
        created_at=rfc3339(row.created_at),
        due_at=rfc3339(row.due_at) if row.state in (NoticeState.PENDING, NoticeState.SENDING) else None,
        ended_at=rfc3339(row.ended_at) if row.ended_at is not None else None,
    )
