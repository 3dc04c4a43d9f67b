"""Calls of the API that are one request each: the catalogue, messages, human tasks, timers, schedules, triggers, limits
and what administrators ask for.

The blocking client is generated from this module and `async_client.py`: `make client`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from noetl.client import administration_requests, requests
from noetl.client.api_request import ApiRequest
from noetl.operations import administration_shapes, api_shapes
from noetl.store.audit import AuditChainCheck

T = TypeVar("T")


class AsyncCalls(ABC):
    """They rely on `send` and on nothing else."""

    @abstractmethod
    async def send(self, request: ApiRequest[T]) -> T: ...

    # the catalogue

    async def playbooks(self, *, limit: int = 200) -> list[api_shapes.VersionView]:
        """The newest version of each playbook, by path."""
        return await self.send(requests.playbooks(limit))

    async def playbook(self, path: str, version: str | int | None = None) -> api_shapes.PlaybookInfo:
        return await self.send(requests.playbook(path, version))

    async def versions(self, path: str) -> list[api_shapes.VersionView]:
        """All versions of a playbook, the newest first."""
        return await self.send(requests.versions(path))

    async def source(self, path: str, version: str | int | None = None) -> str:
        """The text of a playbook as it was registered."""
        return await self.send(requests.source(path, version))

    # what comes from outside: messages, signals, events, human tasks, timers, schedules

    async def send_message(
        self,
        name: str,
        correlation: Mapping[str, Any] | None = None,
        payload: Any = None,
        *,
        message_id: str | None = None,
        ttl: float | None = None,
    ) -> dict[str, Any]:
        """Send a message to the step that waits for it, now or within `ttl` seconds. A repeated id is ignored."""
        return await self.send(requests.message(name, correlation or {}, payload, message_id, ttl))

    async def messages(
        self, *, name: str | None = None, limit: int = 200, cursor: str | None = None
    ) -> api_shapes.StoredMessagePage:
        """Undelivered messages, the newest first; `next` is the `cursor` of the page after."""
        return await self.send(requests.messages(name, limit, cursor))

    async def delete_message(self, message_id: str) -> None:
        """Nobody will receive it. ApiError when it was delivered (409), or none of this id is kept (404)."""
        await self.send(requests.delete_message(message_id))

    async def delete_messages(self, name: str) -> int:
        """Delete all undelivered messages of this name; returns how many."""
        return await self.send(requests.delete_messages(name))

    async def send_signal(
        self, name: str, data: Any = None, *, execution_id: str | None = None, signal_id: str | None = None
    ) -> list[str]:
        """Send a signal to all executions that wait for it, or to one; returns those that received it."""
        return await self.send(requests.signal(name, data, execution_id, signal_id))

    async def inject(self, execution_id: str, name: str, data: Any = None, *, key: str | None = None) -> bool:
        """Put an event of your own into an execution; False when the same key came before."""
        return await self.send(requests.inject(execution_id, name, data, key))

    async def tasks(self, **filters: Any) -> list[api_shapes.TaskView]:
        """Human tasks, open and claimed ones; filters are those of the API (state, role, user, mine, …)."""
        return await self.send(requests.tasks(filters))

    async def task_page(self, **filters: Any) -> api_shapes.TaskPage:
        """The same as a page; its `next` is the `cursor` of the page after."""
        return await self.send(requests.task_page(filters))

    async def task(self, task_id: str) -> api_shapes.TaskView:
        return await self.send(requests.task(task_id))

    async def claim_task(self, task_id: str, *, version: int | None = None) -> api_shapes.TaskView:
        return await self.send(requests.act_on_task(task_id, "claim", version=version))

    async def release_task(self, task_id: str, *, version: int | None = None) -> api_shapes.TaskView:
        return await self.send(requests.act_on_task(task_id, "release", version=version))

    async def comment_task(self, task_id: str, text: str) -> api_shapes.TaskView:
        """Write something about a task; it stands in its history."""
        return await self.send(requests.act_on_task(task_id, "comment", text=text))

    async def complete_task(
        self, task_id: str, values: Mapping[str, Any], *, version: int | None = None
    ) -> api_shapes.TaskView:
        """Fill in its form. ApiError (422) names every field that does not fit, and the task stays open."""
        return await self.send(requests.act_on_task(task_id, "complete", values=values, version=version))

    async def timers(self, execution_id: str | None = None) -> list[api_shapes.TimerView]:
        """The timers that run, of an execution or of all, the nearest first."""
        return await self.send(requests.timers(execution_id))

    async def cancel_timer(self, timer_id: str) -> bool:
        """By its own id; False when it was cancelled before. Only a timer whose author allows it can be."""
        return await self.send(requests.cancel_timer(timer_id))

    async def schedules(self) -> administration_shapes.ScheduleList:
        """What the clock starts, and what is made up for now."""
        return await self.send(requests.schedules())

    async def schedule(self, path: str, *, count: int = 5) -> administration_shapes.ScheduleView:
        """One schedule with so many of its coming times."""
        return await self.send(requests.schedule(path, count))

    async def pause_schedule(self, path: str) -> administration_shapes.ScheduleView:
        return await self.send(requests.steer_schedule(path, "pause"))

    async def resume_schedule(self, path: str) -> administration_shapes.ScheduleView:
        return await self.send(requests.steer_schedule(path, "resume"))

    async def backfill(
        self, path: str, since: str, until: str | None = None, *, limit: int = 5, dry_run: bool = False
    ) -> administration_shapes.Backfilled:
        """Run a playbook for times that have passed, at most `limit` at once; times are RFC 3339 texts."""
        return await self.send(requests.backfill(path, since, until, limit, dry_run))

    async def triggers(self) -> list[administration_shapes.TriggerView]:
        """What starts playbooks by itself."""
        return await self.send(requests.triggers())

    async def trigger(self, name: str) -> administration_shapes.TriggerView:
        return await self.send(requests.trigger(name))

    async def make_trigger(self, new: administration_shapes.NewTrigger) -> administration_shapes.TriggerView:
        """ApiError (409) says what is wrong with it."""
        return await self.send(requests.make_trigger(new))

    async def pause_trigger(self, name: str) -> administration_shapes.TriggerView:
        return await self.send(requests.steer_trigger(name, "pause"))

    async def resume_trigger(self, name: str) -> administration_shapes.TriggerView:
        return await self.send(requests.steer_trigger(name, "resume"))

    async def delete_trigger(self, name: str) -> None:
        """Its executions go on."""
        await self.send(requests.delete_trigger(name))

    async def dead_letters(self, name: str) -> list[administration_shapes.DeadLetterView]:
        """The items of a trigger that no execution could be started for."""
        return await self.send(requests.dead_letters(name))

    async def retry_dead_letters(self, name: str, item: str | None = None) -> int:
        """Have one tried again, or all; returns how many."""
        return await self.send(requests.retry_dead_letters(name, item))

    async def discard_dead_letters(self, name: str, item: str | None = None) -> int:
        return await self.send(requests.discard_dead_letters(name, item))

    # limits, changed while executions run

    async def playbook_limits(self, path: str | None = None) -> list[api_shapes.PlaybookLimitView]:
        """Those that were set, and those that somebody runs under, of all playbooks or of one."""
        return await self.send(requests.playbook_limits(path))

    async def limit_playbook(self, path: str, limit: int, *, reason: str | None = None) -> bool:
        """So many executions at once from now on, whatever the playbook says; False when it was so already."""
        return await self.send(requests.limit_playbook(path, limit, reason))

    async def reset_playbook_limit(self, path: str) -> bool:
        """As the playbook says again; False when it was so already."""
        return await self.send(requests.reset_playbook_limit(path))

    async def step_limits(self, execution_id: str) -> list[api_shapes.StepLimitView]:
        """Of the steps that have a limit or a rate, with how many run and wait under it."""
        return await self.send(requests.step_limits(execution_id))

    async def limit_step(self, execution_id: str, step: str, **settings: Any) -> bool:
        """Change `limit`, or `rate` ({limit, per}, `per` in seconds), of a step in one execution; None: as the playbook
        says, and what is left out stays as it is. False when it was so already."""
        return await self.send(requests.limit_step(execution_id, step, settings))

    async def reset_step_limit(self, execution_id: str, step: str) -> bool:
        """Both as the playbook says again; False when they were so already."""
        return await self.send(requests.reset_step_limit(execution_id, step))

    # administration: credentials, tokens, webhooks, pools, workers, notifications, the audit log

    async def set_credential(
        self, name: str, value: Any, *, kind: str = "text"
    ) -> administration_shapes.CredentialView:
        """Store a credential. No call returns its value."""
        return await self.send(administration_requests.set_credential(name, value, kind))

    async def credentials(self) -> list[administration_shapes.CredentialView]:
        return await self.send(administration_requests.credentials())

    async def delete_credential(self, name: str) -> None:
        await self.send(administration_requests.delete_credential(name))

    async def check_credential(
        self, name: str, *, kind: str | None = None, url: str | None = None
    ) -> administration_shapes.CredentialCheck:
        """Have the server connect with a credential, and do nothing else."""
        return await self.send(administration_requests.check_credential(name, kind, url))

    async def pools(self) -> list[administration_shapes.PoolInfo]:
        return await self.send(administration_requests.pools())

    async def set_pool(self, name: str, **settings: Any) -> administration_shapes.PoolInfo:
        return await self.send(administration_requests.set_pool(name, settings))

    async def workers(self) -> list[administration_shapes.WorkerInfo]:
        return await self.send(administration_requests.workers())

    async def drain_worker(self, worker_id: str) -> administration_shapes.WorkerInfo:
        """Give it nothing more; what it holds it finishes."""
        return await self.send(administration_requests.drain_worker(worker_id))

    async def resume_worker(self, worker_id: str) -> administration_shapes.WorkerInfo:
        """Give orders to a drained worker again."""
        return await self.send(administration_requests.resume_worker(worker_id))

    async def who_am_i(self) -> administration_shapes.SessionShape:
        return await self.send(administration_requests.who_am_i())

    async def ready(self) -> dict[str, Any]:
        """Whether the server and what it stands on are well."""
        return await self.send(administration_requests.ready())

    async def rotate_credentials(self) -> administration_shapes.Rotated:
        """Put every credential under a new master key."""
        return await self.send(administration_requests.rotate_credentials())

    async def tokens(self) -> list[administration_shapes.AccessTokenView]:
        """All tokens, revoked ones too, without their secrets."""
        return await self.send(administration_requests.tokens())

    async def make_token(self, subject: str, role: str, **more: Any) -> administration_shapes.MadeToken:
        """Its text is under `token`, this once. `more` are human_roles, pools and expires_in_s."""
        return await self.send(administration_requests.make_token({"subject": subject, "role": role, **more}))

    async def revoke_token(self, token_id: str) -> administration_shapes.AccessTokenView:
        return await self.send(administration_requests.revoke_token(token_id))

    async def webhooks(self) -> list[administration_shapes.WebhookShape]:
        return await self.send(administration_requests.webhooks())

    async def make_webhook(self, name: str, **target: Any) -> administration_shapes.MadeWebhook:
        """Its key is under `secret`, this once. `target` is path (and version), or message (and correlation)."""
        return await self.send(administration_requests.make_webhook({"name": name, **target}))

    async def delete_webhook(self, name: str) -> None:
        await self.send(administration_requests.delete_webhook(name))

    async def notices(
        self,
        *,
        states: Sequence[str] = (),
        execution_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> administration_shapes.NoticePage:
        """Notices, the newest first; those with the state dead are dead letters."""
        return await self.send(administration_requests.notices(states, execution_id, limit, cursor))

    async def notice(self, notice_id: str) -> administration_shapes.NoticeView:
        return await self.send(administration_requests.notice(notice_id))

    async def retry_notice(self, notice_id: str) -> administration_shapes.NoticeView:
        """Send a dead letter again."""
        return await self.send(administration_requests.retry_notice(notice_id))

    async def retry_notices(self) -> int:
        """Send all dead letters again; returns how many there were."""
        return await self.send(administration_requests.retry_notices())

    async def notification_rules(self) -> list[dict[str, Any]]:
        return await self.send(administration_requests.notification_rules())

    async def set_notification_rule(self, name: str, rule: dict[str, Any]) -> dict[str, Any]:
        """Make a rule, or replace the one of that name."""
        return await self.send(administration_requests.set_notification_rule(name, rule))

    async def delete_notification_rule(self, name: str) -> None:
        await self.send(administration_requests.delete_notification_rule(name))

    async def test_notification_rule(self, name: str) -> list[administration_shapes.TriedDestination]:
        """Send a test notice to each destination of a rule."""
        return await self.send(administration_requests.test_notification_rule(name))

    async def audit(self, *, limit: int = 100, before: int | None = None) -> administration_shapes.AuditPage:
        """Rows of the audit log, the newest first, and where the page after begins."""
        return await self.send(administration_requests.audit(limit, before))

    async def verify_audit(self, *, holds: str | None = None) -> AuditChainCheck:
        """Walk the chain of hashes; `holds` is one that was noted earlier."""
        return await self.send(administration_requests.verify_audit(holds))
