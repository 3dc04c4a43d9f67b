"""Notifications: notices and dead letters, rules of the installation, and testing a rule.

The routes of a server and the CLI on a local store use this module.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from noetl.base.clock import Clock, rfc3339
from noetl.base.errors import InvalidError, NotFoundError, SettledError
from noetl.base.ids import derived
from noetl.base.redaction import Redactor
from noetl.control.notifications.notices import NoticeBody, message_of
from noetl.control.notifications.rules import (
    NotificationRule,
    NotificationRules,
    checked_rule,
    destination_secrets,
    shown_rule,
    with_stored_secrets,
)
from noetl.control.notifications.sender import Destinations, NotSentError, destination_text
from noetl.net.net import Destination
from noetl.operations.administration_shapes import LateExecution, NoticePage, NoticeView, TriedDestination
from noetl.operations.api_shapes import view_of
from noetl.store.contract import History
from noetl.store.notices import NoticeRow, Notices, NoticeState

_LONGEST_PAGE = 500
_MOST_LATE = 50  # late executions in one answer


class Notifications:
    """`destinations` is None where nothing can be sent: on a local store without a server."""

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
        """A page of notices, the newest first."""
        if cursor is not None and await self._notices.get(cursor) is None:
            raise InvalidError("cursor: this is not a cursor of this list")
        limit = min(max(limit, 1), _LONGEST_PAGE)
        # One more than the page shows whether there is a next one.
        rows = await self._notices.list(states=states, execution_id=execution_id, limit=limit + 1, beyond=cursor)
        beyond = rows[limit - 1].notice_id if len(rows) > limit else None
        return NoticePage(notices=[notice_view(row) for row in rows[:limit]], next=beyond)

    async def get(self, notice_id: str) -> NoticeView:
        row = await self._notices.get(notice_id)
        if row is None:
            raise NotFoundError(f'there is no notice "{notice_id}"')
        return notice_view(row)

    async def late(self, history: History) -> list[LateExecution]:
        """Open executions that are late, the longest late first. Every late execution has a notice, so the newest
        notices name them."""
        newest = await self._notices.list(limit=_LONGEST_PAGE)
        # The newest come first, so the last value for an execution is its first notice: since when it is late.
        since = {row.execution_id: row.created_at for row in newest if row.event == "late"}
        late_executions = []
        for execution_id, late_since in sorted(since.items(), key=lambda item: item[1]):
            row = await history.execution(execution_id)
            if row is not None and row.finished_at is None:
                began, late = rfc3339(row.created_at), rfc3339(late_since)
                late_executions.append(
                    LateExecution(execution_id=execution_id, path=row.path, started_at=began, late_since=late)
                )
        return late_executions[:_MOST_LATE]

    async def retry(self, notice_id: str) -> NoticeView:
        """Make a dead letter due again, with the full number of attempts."""
        notice = await self.get(notice_id)
        if not await self._notices.send_again(notice_id, now=self._clock.now()):
            raise SettledError(f"notice {notice_id} is {notice.state}; only dead letters can be sent again")
        return await self.get(notice_id)

    async def retry_all(self) -> int:
        """Make every dead letter due again; returns how many there were."""
        now, number = self._clock.now(), 0
        # Always read the first page: a notice that is due again is no longer in this list.
        while dead := await self._notices.list(states=(NoticeState.DEAD,), limit=_LONGEST_PAGE):
            number += sum([await self._notices.send_again(row.notice_id, now=now) for row in dead])
        return number

    async def shown_rules(self) -> list[NotificationRule]:
        """All rules, without the secrets of their destinations."""
        return [shown_rule(rule) for rule in await self.rules.all()]

    async def shown_rule(self, name: str) -> NotificationRule:
        return shown_rule(await self.rules.get(name))

    async def put_rule(self, name: str, fields: dict[str, Any]) -> NotificationRule:
        """Store a rule, and return it as it is shown: a masked URL in `fields` stands for the stored one. InvalidError
        says what is wrong with it."""
        if fields.get("name", name) != name:
            raise InvalidError(f'name: the rule is stored as "{name}", but its body says "{fields["name"]}"')
        try:
            rule = msgspec.convert({**fields, "name": name}, NotificationRule)
        except msgspec.ValidationError as problem:
            raise InvalidError(str(problem)) from None
        stored = next((one for one in await self.rules.all() if one.name == name), None)
        rule = with_stored_secrets(rule, stored)
        await self.rules.put(rule)
        return shown_rule(rule)

    async def test(self, name: str) -> list[TriedDestination]:
        """Send one test notice to every destination of a rule, and return what happened to each."""
        if self._destinations is None:
            raise InvalidError("only a server can test a rule: name one with --server, or start noetl dev")
        rule = checked_rule(await self.rules.get(name))
        notification = rule.notification(rule.on[0])
        return [
            TriedDestination(
                destination=destination_text(destination),
                error=await self._try(self._destinations, rule, destination, index),
            )
            for index, destination in enumerate(notification.notify)
        ]

    async def _try(
        self, destinations: Destinations, rule: NotificationRule, destination: Destination, index: int
    ) -> str | None:
        now = self._clock.now()
        # A new id for each test: the Message-ID of a mail follows from it, and mail servers may drop a repeated one.
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
    """A notice without the secrets of its destination."""
    body = msgspec.json.decode(row.body, type=NoticeBody)
    due_at = rfc3339(row.due_at) if row.state in (NoticeState.PENDING, NoticeState.SENDING) else None
    # Stored without secrets today; errors of earlier versions may hold the URL.
    error = row.error and Redactor(destination_secrets(body.destination.options)).text(row.error)
    destination = destination_text(body.destination)
    return view_of(NoticeView, row, destination=destination, state=row.state.value, due_at=due_at, error=error)
