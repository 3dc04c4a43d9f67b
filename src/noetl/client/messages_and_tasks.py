"""What comes from outside, for both clients: messages, signals, events, human tasks, timers, schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.client import requests
from noetl.client.sender import Sends, SendsLater
from noetl.operations.api_shapes import (
    Backfilled,
    ScheduleList,
    ScheduleView,
    StoredMessagePage,
    TaskPage,
    TaskView,
    TimerView,
)


class AsyncOutside(SendsLater):
    """The part of the asynchronous client that tells executions something."""

    async def send_message(
        self,
        name: str,
        correlation: Mapping[str, Any] | None = None,
        payload: Any = None,
        *,
        message_id: str | None = None,
        ttl: float | None = None,
    ) -> dict[str, Any]:
        """Tell the step that waits for this message, now or within `ttl` seconds. The same id counts once."""
        return await self.send(requests.message(name, correlation or {}, payload, message_id, ttl))

    async def messages(
        self, *, name: str | None = None, limit: int = 200, cursor: str | None = None
    ) -> StoredMessagePage:
        """Messages that nobody has taken yet, the newest first; `next` is the `cursor` of the page after."""
        return await self.send(requests.messages(name, limit, cursor))

    async def delete_message(self, message_id: str) -> None:
        """Nobody will receive it. ApiError when it was delivered (409), or none of this id is kept (404)."""
        await self.send(requests.delete_message(message_id))

    async def delete_messages(self, name: str) -> int:
        """All of this name that nobody has taken; gives how many."""
        return await self.send(requests.delete_messages(name))

    async def send_signal(
        self, name: str, data: Any = None, *, execution_id: str | None = None, signal_id: str | None = None
    ) -> list[str]:
        """Tell everybody who listens now, or one execution; gives those that heard it."""
        return await self.send(requests.signal(name, data, execution_id, signal_id))

    async def inject(self, execution_id: str, name: str, data: Any = None, *, key: str | None = None) -> bool:
        """Put an event of your own into an execution; False when the same key came before."""
        return await self.send(requests.inject(execution_id, name, data, key))

    async def tasks(self, **filters: Any) -> list[TaskView]:
        """Human tasks, open and claimed ones; filters are those of the API (state, role, user, mine, …)."""
        return await self.send(requests.tasks(filters))

    async def task_page(self, **filters: Any) -> TaskPage:
        """The same as a page; its `next` is the `cursor` of the page after."""
        return await self.send(requests.task_page(filters))

    async def task(self, task_id: str) -> TaskView:
        return await self.send(requests.task(task_id))

    async def claim_task(self, task_id: str, *, version: int | None = None) -> TaskView:
        return await self.send(requests.act_on_task(task_id, "claim", version=version))

    async def release_task(self, task_id: str, *, version: int | None = None) -> TaskView:
        return await self.send(requests.act_on_task(task_id, "release", version=version))

    async def complete_task(self, task_id: str, values: Mapping[str, Any], *, version: int | None = None) -> TaskView:
        """Fill in its form. ApiError (422) names every field that does not fit, and the task stays open."""
        return await self.send(requests.act_on_task(task_id, "complete", values=values, version=version))

    async def timers(self, execution_id: str | None = None) -> list[TimerView]:
        """The timers that run, of an execution or of all, the nearest first."""
        return await self.send(requests.timers(execution_id))

    async def cancel_timer(self, timer_id: str) -> bool:
        """By its own id; False when it was cancelled before. Only a timer whose author allows it can be."""
        return await self.send(requests.cancel_timer(timer_id))

    async def schedules(self) -> ScheduleList:
        """What the clock starts, and what is made up for now."""
        return await self.send(requests.schedules())

    async def schedule(self, path: str, *, count: int = 5) -> ScheduleView:
        """One schedule with so many of its coming times."""
        return await self.send(requests.schedule(path, count))

    async def pause_schedule(self, path: str) -> ScheduleView:
        return await self.send(requests.steer_schedule(path, "pause"))

    async def resume_schedule(self, path: str) -> ScheduleView:
        return await self.send(requests.steer_schedule(path, "resume"))

    async def backfill(
        self, path: str, since: str, until: str | None = None, *, limit: int = 5, dry_run: bool = False
    ) -> Backfilled:
        """Run a playbook for times that have passed, at most `limit` at once; times are RFC 3339 texts."""
        return await self.send(requests.backfill(path, since, until, limit, dry_run))


class Outside(Sends):
    """The same of the blocking client."""

    def send_message(
        self,
        name: str,
        correlation: Mapping[str, Any] | None = None,
        payload: Any = None,
        *,
        message_id: str | None = None,
        ttl: float | None = None,
    ) -> dict[str, Any]:
        """Tell the step that waits for this message, now or within `ttl` seconds. The same id counts once."""
        return self.send(requests.message(name, correlation or {}, payload, message_id, ttl))

    def messages(self, *, name: str | None = None, limit: int = 200, cursor: str | None = None) -> StoredMessagePage:
        """Messages that nobody has taken yet, the newest first; `next` is the `cursor` of the page after."""
        return self.send(requests.messages(name, limit, cursor))

    def delete_message(self, message_id: str) -> None:
        """Nobody will receive it. ApiError when it was delivered (409), or none of this id is kept (404)."""
        self.send(requests.delete_message(message_id))

    def delete_messages(self, name: str) -> int:
        """All of this name that nobody has taken; gives how many."""
        return self.send(requests.delete_messages(name))

    def send_signal(
        self, name: str, data: Any = None, *, execution_id: str | None = None, signal_id: str | None = None
    ) -> list[str]:
        """Tell everybody who listens now, or one execution; gives those that heard it."""
        return self.send(requests.signal(name, data, execution_id, signal_id))

    def inject(self, execution_id: str, name: str, data: Any = None, *, key: str | None = None) -> bool:
        """Put an event of your own into an execution; False when the same key came before."""
        return self.send(requests.inject(execution_id, name, data, key))

    def tasks(self, **filters: Any) -> list[TaskView]:
        """Human tasks, open and claimed ones; filters are those of the API (state, role, user, mine, …)."""
        return self.send(requests.tasks(filters))

    def task_page(self, **filters: Any) -> TaskPage:
        """The same as a page; its `next` is the `cursor` of the page after."""
        return self.send(requests.task_page(filters))

    def task(self, task_id: str) -> TaskView:
        return self.send(requests.task(task_id))

    def claim_task(self, task_id: str, *, version: int | None = None) -> TaskView:
        return self.send(requests.act_on_task(task_id, "claim", version=version))

    def release_task(self, task_id: str, *, version: int | None = None) -> TaskView:
        return self.send(requests.act_on_task(task_id, "release", version=version))

    def complete_task(self, task_id: str, values: Mapping[str, Any], *, version: int | None = None) -> TaskView:
        """Fill in its form. ApiError (422) names every field that does not fit, and the task stays open."""
        return self.send(requests.act_on_task(task_id, "complete", values=values, version=version))

    def timers(self, execution_id: str | None = None) -> list[TimerView]:
        """The timers that run, of an execution or of all, the nearest first."""
        return self.send(requests.timers(execution_id))

    def cancel_timer(self, timer_id: str) -> bool:
        """By its own id; False when it was cancelled before. Only a timer whose author allows it can be."""
        return self.send(requests.cancel_timer(timer_id))

    def schedules(self) -> ScheduleList:
        """What the clock starts, and what is made up for now."""
        return self.send(requests.schedules())

    def schedule(self, path: str, *, count: int = 5) -> ScheduleView:
        """One schedule with so many of its coming times."""
        return self.send(requests.schedule(path, count))

    def pause_schedule(self, path: str) -> ScheduleView:
        return self.send(requests.steer_schedule(path, "pause"))

    def resume_schedule(self, path: str) -> ScheduleView:
        return self.send(requests.steer_schedule(path, "resume"))

    def backfill(
        self, path: str, since: str, until: str | None = None, *, limit: int = 5, dry_run: bool = False
    ) -> Backfilled:
        """Run a playbook for times that have passed, at most `limit` at once; times are RFC 3339 texts."""
        return self.send(requests.backfill(path, since, until, limit, dry_run))
