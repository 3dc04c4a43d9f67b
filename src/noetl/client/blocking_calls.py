"""Generated from `async_calls.py` by `make client`: edit that one.

Calls of the API that are one request each: the catalogue, messages, human tasks, timers, schedules, triggers, limits
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


class Calls(ABC):
    """They rely on `send` and on nothing else."""

    @abstractmethod
    def send(self, request: ApiRequest[T]) -> T: ...

    # the catalogue

    def playbooks(self, *, limit: int = 200) -> list[api_shapes.VersionView]:
        """The newest version of each playbook, by path."""
        return self.send(requests.playbooks(limit))

    def playbook(self, path: str, version: str | int | None = None) -> api_shapes.PlaybookInfo:
        return self.send(requests.playbook(path, version))

    def versions(self, path: str) -> list[api_shapes.VersionView]:
        """All versions of a playbook, the newest first."""
        return self.send(requests.versions(path))

    def source(self, path: str, version: str | int | None = None) -> str:
        """The text of a playbook as it was registered."""
        return self.send(requests.source(path, version))

    # what comes from outside: messages, signals, events, human tasks, timers, schedules

    def send_message(
        self,
        name: str,
        correlation: Mapping[str, Any] | None = None,
        payload: Any = None,
        *,
        message_id: str | None = None,
        ttl: float | None = None,
    ) -> dict[str, Any]:
        """Send a message to the step that waits for it, now or within `ttl` seconds. A repeated id is ignored."""
        return self.send(requests.message(name, correlation or {}, payload, message_id, ttl))

    def messages(
        self, *, name: str | None = None, limit: int = 200, cursor: str | None = None
    ) -> api_shapes.StoredMessagePage:
        """Undelivered messages, the newest first; `next` is the `cursor` of the page after."""
        return self.send(requests.messages(name, limit, cursor))

    def delete_message(self, message_id: str) -> None:
        """Nobody will receive it. ApiError when it was delivered (409), or none of this id is kept (404)."""
        self.send(requests.delete_message(message_id))

    def delete_messages(self, name: str) -> int:
        """Delete all undelivered messages of this name; returns how many."""
        return self.send(requests.delete_messages(name))

    def send_signal(
        self, name: str, data: Any = None, *, execution_id: str | None = None, signal_id: str | None = None
    ) -> list[str]:
        """Send a signal to all executions that wait for it, or to one; returns those that received it."""
        return self.send(requests.signal(name, data, execution_id, signal_id))

    def inject(self, execution_id: str, name: str, data: Any = None, *, key: str | None = None) -> bool:
        """Put an event of your own into an execution; False when the same key came before."""
        return self.send(requests.inject(execution_id, name, data, key))

    def tasks(self, **filters: Any) -> list[api_shapes.TaskView]:
        """Human tasks, open and claimed ones; filters are those of the API (state, role, user, mine, …)."""
        return self.send(requests.tasks(filters))

    def task_page(self, **filters: Any) -> api_shapes.TaskPage:
        """The same as a page; its `next` is the `cursor` of the page after."""
        return self.send(requests.task_page(filters))

    def task(self, task_id: str) -> api_shapes.TaskView:
        return self.send(requests.task(task_id))

    def claim_task(self, task_id: str, *, version: int | None = None) -> api_shapes.TaskView:
        return self.send(requests.act_on_task(task_id, "claim", version=version))

    def release_task(self, task_id: str, *, version: int | None = None) -> api_shapes.TaskView:
        return self.send(requests.act_on_task(task_id, "release", version=version))

    def comment_task(self, task_id: str, text: str) -> api_shapes.TaskView:
        """Write something about a task; it stands in its history."""
        return self.send(requests.act_on_task(task_id, "comment", text=text))

    def complete_task(
        self, task_id: str, values: Mapping[str, Any], *, version: int | None = None
    ) -> api_shapes.TaskView:
        """Fill in its form. ApiError (422) names every field that does not fit, and the task stays open."""
        return self.send(requests.act_on_task(task_id, "complete", values=values, version=version))

    def timers(self, execution_id: str | None = None) -> list[api_shapes.TimerView]:
        """The timers that run, of an execution or of all, the nearest first."""
        return self.send(requests.timers(execution_id))

    def cancel_timer(self, timer_id: str) -> bool:
        """By its own id; False when it was cancelled before. Only a timer whose author allows it can be."""
        return self.send(requests.cancel_timer(timer_id))

    def schedules(self) -> administration_shapes.ScheduleList:
        """What the clock starts, and what is made up for now."""
        return self.send(requests.schedules())

    def schedule(self, path: str, *, count: int = 5) -> administration_shapes.ScheduleView:
        """One schedule with so many of its coming times."""
        return self.send(requests.schedule(path, count))

    def pause_schedule(self, path: str) -> administration_shapes.ScheduleView:
        return self.send(requests.steer_schedule(path, "pause"))

    def resume_schedule(self, path: str) -> administration_shapes.ScheduleView:
        return self.send(requests.steer_schedule(path, "resume"))

    def backfill(
        self, path: str, since: str, until: str | None = None, *, limit: int = 5, dry_run: bool = False
    ) -> administration_shapes.Backfilled:
        """Run a playbook for times that have passed, at most `limit` at once; times are RFC 3339 texts."""
        return self.send(requests.backfill(path, since, until, limit, dry_run))

    def triggers(self) -> list[administration_shapes.TriggerView]:
        """What starts playbooks by itself."""
        return self.send(requests.triggers())

    def trigger(self, name: str) -> administration_shapes.TriggerView:
        return self.send(requests.trigger(name))

    def make_trigger(self, new: administration_shapes.NewTrigger) -> administration_shapes.TriggerView:
        """ApiError (409) says what is wrong with it."""
        return self.send(requests.make_trigger(new))

    def pause_trigger(self, name: str) -> administration_shapes.TriggerView:
        return self.send(requests.steer_trigger(name, "pause"))

    def resume_trigger(self, name: str) -> administration_shapes.TriggerView:
        return self.send(requests.steer_trigger(name, "resume"))

    def delete_trigger(self, name: str) -> None:
        """Its executions go on."""
        self.send(requests.delete_trigger(name))

    def dead_letters(self, name: str) -> list[administration_shapes.DeadLetterView]:
        """The items of a trigger that no execution could be started for."""
        return self.send(requests.dead_letters(name))

    def retry_dead_letters(self, name: str, item: str | None = None) -> int:
        """Have one tried again, or all; returns how many."""
        return self.send(requests.retry_dead_letters(name, item))

    def discard_dead_letters(self, name: str, item: str | None = None) -> int:
        return self.send(requests.discard_dead_letters(name, item))

    # limits, changed while executions run

    def playbook_limits(self, path: str | None = None) -> list[api_shapes.PlaybookLimitView]:
        """Those that were set, and those that somebody runs under, of all playbooks or of one."""
        return self.send(requests.playbook_limits(path))

    def limit_playbook(self, path: str, limit: int, *, reason: str | None = None) -> bool:
        """So many executions at once from now on, whatever the playbook says; False when it was so already."""
        return self.send(requests.limit_playbook(path, limit, reason))

    def reset_playbook_limit(self, path: str) -> bool:
        """As the playbook says again; False when it was so already."""
        return self.send(requests.reset_playbook_limit(path))

    def step_limits(self, execution_id: str) -> list[api_shapes.StepLimitView]:
        """Of the steps that have a limit or a rate, with how many run and wait under it."""
        return self.send(requests.step_limits(execution_id))

    def limit_step(self, execution_id: str, step: str, **settings: Any) -> bool:
        """Change `limit`, or `rate` ({limit, per}, `per` in seconds), of a step in one execution; None: as the playbook
        says, and what is left out stays as it is. False when it was so already."""
        return self.send(requests.limit_step(execution_id, step, settings))

    def reset_step_limit(self, execution_id: str, step: str) -> bool:
        """Both as the playbook says again; False when they were so already."""
        return self.send(requests.reset_step_limit(execution_id, step))

    # administration: credentials, tokens, webhooks, pools, workers, notifications, the audit log

    def set_credential(self, name: str, value: Any, *, kind: str = "text") -> administration_shapes.CredentialView:
        """Store a credential. No call returns its value."""
        return self.send(administration_requests.set_credential(name, value, kind))

    def credentials(self) -> list[administration_shapes.CredentialView]:
        return self.send(administration_requests.credentials())

    def delete_credential(self, name: str) -> None:
        self.send(administration_requests.delete_credential(name))

    def check_credential(
        self, name: str, *, kind: str | None = None, url: str | None = None
    ) -> administration_shapes.CredentialCheck:
        """Have the server connect with a credential, and do nothing else."""
        return self.send(administration_requests.check_credential(name, kind, url))

    def pools(self) -> list[administration_shapes.PoolInfo]:
        return self.send(administration_requests.pools())

    def set_pool(self, name: str, **settings: Any) -> administration_shapes.PoolInfo:
        return self.send(administration_requests.set_pool(name, settings))

    def workers(self) -> list[administration_shapes.WorkerInfo]:
        return self.send(administration_requests.workers())

    def drain_worker(self, worker_id: str) -> administration_shapes.WorkerInfo:
        """Give it nothing more; what it holds it finishes."""
        return self.send(administration_requests.drain_worker(worker_id))

    def resume_worker(self, worker_id: str) -> administration_shapes.WorkerInfo:
        """Give orders to a drained worker again."""
        return self.send(administration_requests.resume_worker(worker_id))

    def who_am_i(self) -> administration_shapes.SessionShape:
        return self.send(administration_requests.who_am_i())

    def ready(self) -> dict[str, Any]:
        """Whether the server and what it stands on are well."""
        return self.send(administration_requests.ready())

    def rotate_credentials(self) -> administration_shapes.Rotated:
        """Put every credential under a new master key."""
        return self.send(administration_requests.rotate_credentials())

    def tokens(self) -> list[administration_shapes.AccessTokenView]:
        """All tokens, revoked ones too, without their secrets."""
        return self.send(administration_requests.tokens())

    def make_token(self, subject: str, role: str, **more: Any) -> administration_shapes.MadeToken:
        """Its text is under `token`, this once. `more` are human_roles, pools and expires_in_s."""
        return self.send(administration_requests.make_token({"subject": subject, "role": role, **more}))

    def revoke_token(self, token_id: str) -> administration_shapes.AccessTokenView:
        return self.send(administration_requests.revoke_token(token_id))

    def webhooks(self) -> list[administration_shapes.WebhookShape]:
        return self.send(administration_requests.webhooks())

    def make_webhook(self, name: str, **target: Any) -> administration_shapes.MadeWebhook:
        """Its key is under `secret`, this once. `target` is path (and version), or message (and correlation)."""
        return self.send(administration_requests.make_webhook({"name": name, **target}))

    def delete_webhook(self, name: str) -> None:
        self.send(administration_requests.delete_webhook(name))

    def notices(
        self,
        *,
        states: Sequence[str] = (),
        execution_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> administration_shapes.NoticePage:
        """Notices, the newest first; those with the state dead are dead letters."""
        return self.send(administration_requests.notices(states, execution_id, limit, cursor))

    def notice(self, notice_id: str) -> administration_shapes.NoticeView:
        return self.send(administration_requests.notice(notice_id))

    def retry_notice(self, notice_id: str) -> administration_shapes.NoticeView:
        """Send a dead letter again."""
        return self.send(administration_requests.retry_notice(notice_id))

    def retry_notices(self) -> int:
        """Send all dead letters again; returns how many there were."""
        return self.send(administration_requests.retry_notices())

    def notification_rules(self) -> list[dict[str, Any]]:
        return self.send(administration_requests.notification_rules())

    def set_notification_rule(self, name: str, rule: dict[str, Any]) -> dict[str, Any]:
        """Make a rule, or replace the one of that name."""
        return self.send(administration_requests.set_notification_rule(name, rule))

    def delete_notification_rule(self, name: str) -> None:
        self.send(administration_requests.delete_notification_rule(name))

    def test_notification_rule(self, name: str) -> list[administration_shapes.TriedDestination]:
        """Send a test notice to each destination of a rule."""
        return self.send(administration_requests.test_notification_rule(name))

    def audit(self, *, limit: int = 100, before: int | None = None) -> administration_shapes.AuditPage:
        """Rows of the audit log, the newest first, and where the page after begins."""
        return self.send(administration_requests.audit(limit, before))

    def verify_audit(self, *, holds: str | None = None) -> AuditChainCheck:
        """Walk the chain of hashes; `holds` is one that was noted earlier."""
        return self.send(administration_requests.verify_audit(holds))
