"""Requests: every call of the API as a value, so that the blocking and the asynchronous client say the same.

Nothing here sends anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx2
import msgspec

from noetl.client import models
from noetl.operations import api_shapes
from noetl.store.audit import AuditChainCheck

T = TypeVar("T")
Read = Callable[[httpx2.Response], T]
_YAML = "text/yaml"
_JSON = "application/json"


class ApiRequest(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """`read` makes its value of the answer. `again`: it may be sent twice and means the same."""

    method: str
    path: str
    read: Callable[[httpx2.Response], T]
    params: Mapping[str, Any] = {}
    content: bytes | None = None
    media_type: str = _JSON
    headers: Mapping[str, str] = {}
    wait_s: float = 0.0
    again: bool = False


def _as(kind: type[T]) -> Callable[[httpx2.Response], T]:
    return lambda response: msgspec.json.decode(response.content, type=kind)


def _plain(response: httpx2.Response) -> Any:
    return msgspec.json.decode(response.content) if response.content else None


def _text(response: httpx2.Response) -> str:
    return response.text


def _changed(response: httpx2.Response) -> bool:
    return bool(_plain(response)["changed"])


def _deleted(response: httpx2.Response) -> int:
    return int(_plain(response)["deleted"])


def _nothing(_: httpx2.Response) -> None:
    return None


def _listed(name: str, kind: type[T]) -> Callable[[httpx2.Response], list[T]]:
    """A list, given as such or under its name."""

    def read(response: httpx2.Response) -> list[T]:
        told = msgspec.json.decode(response.content)
        return msgspec.convert(told[name] if isinstance(told, dict) else told, list[kind])  # type: ignore[valid-type]

    return read


def _set_params(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _get(path: str, read: Callable[[httpx2.Response], T], /, **params: Any) -> ApiRequest[T]:
    return ApiRequest(method="GET", path=path, read=read, params=_set_params(**params), again=True)


def _post(path: str, read: Callable[[httpx2.Response], T], body: Any = None, **more: Any) -> ApiRequest[T]:
    content = msgspec.json.encode(body) if body is not None else None
    return ApiRequest(method="POST", path=path, read=read, content=content, **more)


def _execution(execution_id: str, rest: str = "") -> str:
    return f"/api/executions/{quote(execution_id, safe='')}{rest}"


def _schedule(path: str, rest: str = "") -> str:
    return f"/api/schedules/{quote(path)}{rest}"


def _catalog(path: str, rest: str = "") -> str:
    return f"/api/catalog/{quote(path)}{rest}"


# the catalogue


def register(source: str) -> ApiRequest[models.PlaybookInfo]:
    return ApiRequest(
        method="POST",
        path="/api/catalog",
        read=_as(models.PlaybookInfo),
        content=source.encode(),
        media_type=_YAML,
        again=True,  # the same text is the same version
    )


def playbooks(limit: int) -> ApiRequest[list[api_shapes.VersionView]]:
    return _get("/api/catalog", lambda response: _as(api_shapes.CatalogPage)(response).playbooks, limit=limit)


def playbook(path: str, version: str | int | None) -> ApiRequest[models.PlaybookInfo]:
    rest = "" if version is None else f"/versions/{quote(str(version), safe='')}"
    return _get(_catalog(path, rest), _as(models.PlaybookInfo))


def versions(path: str) -> ApiRequest[list[api_shapes.VersionView]]:
    return _get(_catalog(path, "/versions"), lambda response: _as(api_shapes.Versions)(response).versions)


def source(path: str, version: str | int | None) -> ApiRequest[str]:
    return _get(_catalog(path, "/source"), _text, version=version)


# executions


def start(
    path: str, payload: Mapping[str, Any], version: str | int | None, wait_s: float, key: str | None
) -> ApiRequest[models.StartedExecution]:
    body = {"path": path, "payload": payload, **_set_params(version=version, wait=wait_s or None)}
    key = key or uuid4().hex  # so that a repeated request starts nothing twice
    headers = {"Idempotency-Key": key}
    return _post("/api/executions", _as(models.StartedExecution), body, headers=headers, wait_s=wait_s, again=True)


def execution(execution_id: str) -> ApiRequest[api_shapes.ExecutionDetail]:
    return _get(_execution(execution_id), _as(api_shapes.ExecutionDetail))


def execution_with_children(execution_id: str) -> ApiRequest[dict[str, Any]]:
    return _get(_execution(execution_id), _plain)


def executions(
    status: str | None, path: str | None, text: str | None, limit: int, cursor: str | None
) -> ApiRequest[api_shapes.ExecutionPage]:
    params = {"status": status, "path": path, "text": text, "limit": limit, "cursor": cursor}
    return _get("/api/executions", _as(api_shapes.ExecutionPage), **params)


def events(
    execution_id: str, after: int, limit: int, types: tuple[str, ...], step: str | None
) -> ApiRequest[api_shapes.EventPage]:
    params = {"after": after, "limit": limit, "types": ",".join(types) or None, "step": step}
    return _get(_execution(execution_id, "/events"), _as(api_shapes.EventPage), **params)


def result(execution_id: str, step: str | None) -> ApiRequest[api_shapes.ResultView]:
    return _get(_execution(execution_id, "/result"), _as(api_shapes.ResultView), step=step)


def ctx(execution_id: str) -> ApiRequest[dict[str, Any]]:
    return _get(_execution(execution_id, "/ctx"), _plain)


def logs(
    execution_id: str, step: str | None, task: str | None, after: int, limit: int
) -> ApiRequest[api_shapes.LogPage]:
    params = {"step": step, "task": task, "after": after, "limit": limit}
    return _get(_execution(execution_id, "/logs"), _as(api_shapes.LogPage), **params)


def steer(execution_id: str, action: str, reason: str | None) -> ApiRequest[api_shapes.Steered]:
    """`compensate` is a cancellation that undoes first what was done (O-02)."""
    compensates = action == "compensate"
    body = _set_params(reason=reason, compensate=True if compensates else None)
    return _post(
        _execution(execution_id, f"/{'cancel' if compensates else action}"), _as(api_shapes.Steered), body, again=True
    )


def rerun(
    execution_id: str,
    version: str | int | None,
    payload: Mapping[str, Any] | None,
    from_step: str | None = None,
    approve: bool = False,
) -> ApiRequest[models.StartedExecution]:
    body = _set_params(**{"version": version, "payload": payload, "from": from_step, "approve": approve or None})
    headers = {"Idempotency-Key": uuid4().hex}
    return _post(_execution(execution_id, "/rerun"), _as(models.StartedExecution), body, headers=headers, again=True)


def explain(execution_id: str) -> ApiRequest[dict[str, Any]]:
    return _get(_execution(execution_id, "/explain"), _plain)


def stored(checksum: str) -> ApiRequest[bytes]:
    return _get(f"/api/results/{quote(checksum, safe='')}", lambda response: response.content)


def net(net_hash: str) -> ApiRequest[bytes]:
    return _get(f"/api/nets/{quote(net_hash, safe='')}", lambda response: response.content)


# messages, signals, human tasks


def message(
    name: str, correlation: Mapping[str, Any], payload: Any, message_id: str | None, ttl: float | None
) -> ApiRequest[dict[str, Any]]:
    body = {"name": name, "correlation": correlation, "payload": payload, "message_id": message_id or uuid4().hex}
    return _post("/api/messages", _plain, {**body, **_set_params(ttl=ttl)}, again=True)


def messages(name: str | None, limit: int, cursor: str | None) -> ApiRequest[api_shapes.StoredMessagePage]:
    return _get("/api/messages", _as(api_shapes.StoredMessagePage), name=name, limit=limit, cursor=cursor)


def delete_message(message_id: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=f"/api/messages/{quote(message_id, safe='')}", read=_nothing)


def delete_messages(name: str) -> ApiRequest[int]:
    return ApiRequest(method="DELETE", path="/api/messages", read=_deleted, params={"name": name})


def signal(name: str, data: Any, execution_id: str | None, signal_id: str | None) -> ApiRequest[list[str]]:
    body = {"name": name, "data": data, "signal_id": signal_id or uuid4().hex, **_set_params(execution_id=execution_id)}
    return _post("/api/signals", lambda response: list(_plain(response)["heard"]), body, again=True)


def inject(execution_id: str, name: str, data: Any, key: str | None) -> ApiRequest[bool]:
    body = {"name": name, "data": data, "key": key or uuid4().hex}
    return _post(
        _execution(execution_id, "/events"), lambda response: bool(_plain(response)["changed"]), body, again=True
    )


def tasks(params: Mapping[str, Any]) -> ApiRequest[list[api_shapes.TaskView]]:
    return _get("/api/tasks", _listed("tasks", api_shapes.TaskView), **params)


def task_page(params: Mapping[str, Any]) -> ApiRequest[api_shapes.TaskPage]:
    return _get("/api/tasks", _as(api_shapes.TaskPage), **params)


def task(task_id: str) -> ApiRequest[api_shapes.TaskView]:
    return _get(f"/api/tasks/{quote(task_id, safe='')}", _as(api_shapes.TaskView))


def act_on_task(task_id: str, action: str, **body: Any) -> ApiRequest[api_shapes.TaskView]:
    headers = {"Idempotency-Key": uuid4().hex}
    path = f"/api/tasks/{quote(task_id, safe='')}/{action}"
    return _post(path, _as(api_shapes.TaskView), _set_params(**body), headers=headers, again=action == "complete")


def timers(execution_id: str | None) -> ApiRequest[list[api_shapes.TimerView]]:
    path = "/api/timers" if execution_id is None else _execution(execution_id, "/timers")
    return _get(path, _listed("timers", api_shapes.TimerView))


def cancel_timer(timer_id: str) -> ApiRequest[bool]:
    path = f"/api/timers/{quote(timer_id, safe='')}/cancel"
    return _post(path, lambda response: bool(_plain(response)["changed"]), again=True)


def schedules() -> ApiRequest[api_shapes.ScheduleList]:
    return _get("/api/schedules", _as(api_shapes.ScheduleList))


def schedule(path: str, count: int) -> ApiRequest[api_shapes.ScheduleView]:
    return _get(_schedule(path), _as(api_shapes.ScheduleView), count=count)


def steer_schedule(path: str, action: str) -> ApiRequest[api_shapes.ScheduleView]:
    return _post(_schedule(path, f"/{action}"), _as(api_shapes.ScheduleView), again=True)


def backfill(path: str, since: str, until: str | None, limit: int, dry_run: bool) -> ApiRequest[api_shapes.Backfilled]:
    body = {"since": since, "limit": limit, "dry_run": dry_run, **_set_params(until=until)}
    # what has run for a time is not run again
    return _post(_schedule(path, "/backfill"), _as(api_shapes.Backfilled), body, again=True)


def triggers() -> ApiRequest[list[api_shapes.TriggerView]]:
    return _get("/api/triggers", _listed("triggers", api_shapes.TriggerView))


def make_trigger(new: api_shapes.NewTrigger) -> ApiRequest[api_shapes.TriggerView]:
    return _post("/api/triggers", _as(api_shapes.TriggerView), msgspec.to_builtins(new))


def trigger(name: str) -> ApiRequest[api_shapes.TriggerView]:
    return _get(_trigger(name), _as(api_shapes.TriggerView))


def steer_trigger(name: str, action: str) -> ApiRequest[api_shapes.TriggerView]:
    return _post(_trigger(name, f"/{action}"), _as(api_shapes.TriggerView), again=True)


def delete_trigger(name: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=_trigger(name), read=_nothing)


def dead_letters(name: str) -> ApiRequest[list[api_shapes.DeadLetterView]]:
    return _get(_trigger(name, "/dead-letters"), _listed("dead_letters", api_shapes.DeadLetterView))


def retry_dead_letters(name: str, item: str | None) -> ApiRequest[int]:
    path = _trigger(name, "/dead-letters/retry")
    return ApiRequest(method="POST", path=path, read=_count, params=_set_params(item=item), again=True)


def discard_dead_letters(name: str, item: str | None) -> ApiRequest[int]:
    path = _trigger(name, "/dead-letters")
    return ApiRequest(method="DELETE", path=path, read=_count, params=_set_params(item=item))


def _count(response: httpx2.Response) -> int:
    return int(_plain(response)["count"])


def _trigger(name: str, rest: str = "") -> str:
    return f"/api/triggers/{quote(name, safe='')}{rest}"


# what a server has


def set_credential(name: str, value: Any, kind: str) -> ApiRequest[api_shapes.CredentialView]:
    body = msgspec.json.encode({"value": value, "type": kind})
    path = f"/api/credentials/{quote(name, safe='')}"
    return ApiRequest(method="PUT", path=path, read=_as(api_shapes.CredentialView), content=body, again=True)


def credentials() -> ApiRequest[list[api_shapes.CredentialView]]:
    return _get("/api/credentials", _listed("credentials", api_shapes.CredentialView))


def delete_credential(name: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=f"/api/credentials/{quote(name, safe='')}", read=_nothing)


def make_token(body: Mapping[str, Any]) -> ApiRequest[api_shapes.MadeToken]:
    return _post("/api/tokens", _as(api_shapes.MadeToken), body)


def check_credential(name: str, kind: str | None, url: str | None) -> ApiRequest[api_shapes.CredentialCheck]:
    body = {key: value for key, value in (("kind", kind), ("url", url)) if value is not None}
    return _post(f"/api/credentials/{quote(name, safe='')}/test", _as(api_shapes.CredentialCheck), body)


def rotate_credentials() -> ApiRequest[api_shapes.Rotated]:
    return _post("/api/credentials/rotate", _as(api_shapes.Rotated))


def tokens() -> ApiRequest[list[api_shapes.AccessTokenView]]:
    return _get("/api/tokens", _listed("tokens", api_shapes.AccessTokenView))


def revoke_token(token_id: str) -> ApiRequest[api_shapes.AccessTokenView]:
    path = f"/api/tokens/{quote(token_id, safe='')}"
    return ApiRequest(method="DELETE", path=path, read=_as(api_shapes.AccessTokenView))


def webhooks() -> ApiRequest[list[api_shapes.WebhookShape]]:
    return _get("/api/webhooks", _listed("webhooks", api_shapes.WebhookShape))


def make_webhook(body: Mapping[str, Any]) -> ApiRequest[api_shapes.MadeWebhook]:
    return _post("/api/webhooks", _as(api_shapes.MadeWebhook), body)


def delete_webhook(name: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=f"/api/webhooks/{quote(name, safe='')}", read=_nothing)


def notices(
    states: Sequence[str], execution_id: str | None, limit: int, cursor: str | None
) -> ApiRequest[api_shapes.NoticePage]:
    read = _as(api_shapes.NoticePage)
    return _get("/api/notifications", read, state=list(states), execution_id=execution_id, limit=limit, cursor=cursor)


def notice(notice_id: str) -> ApiRequest[api_shapes.NoticeView]:
    return _get(f"/api/notifications/{quote(notice_id, safe='')}", _as(api_shapes.NoticeView))


def retry_notice(notice_id: str) -> ApiRequest[api_shapes.NoticeView]:
    return _post(f"/api/notifications/{quote(notice_id, safe='')}/retry", _as(api_shapes.NoticeView))


def retry_notices() -> ApiRequest[int]:
    return _post("/api/notifications/retry", lambda response: int(_plain(response)["retried"]))


def notification_rules() -> ApiRequest[list[dict[str, Any]]]:
    return _get("/api/notification-rules", _listed("rules", dict[str, Any]))


def set_notification_rule(name: str, rule: Mapping[str, Any]) -> ApiRequest[dict[str, Any]]:
    return ApiRequest(
        method="PUT",
        path=f"/api/notification-rules/{quote(name, safe='')}",
        read=_plain,
        content=msgspec.json.encode(rule),
        again=True,
    )


def delete_notification_rule(name: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=f"/api/notification-rules/{quote(name, safe='')}", read=_nothing)


def test_notification_rule(name: str) -> ApiRequest[list[api_shapes.TriedDestination]]:
    path = f"/api/notification-rules/{quote(name, safe='')}/test"
    return _post(path, _listed("destinations", api_shapes.TriedDestination), wait_s=60.0)


def audit(limit: int, before: int | None) -> ApiRequest[api_shapes.AuditPage]:
    return _get("/api/audit", _as(api_shapes.AuditPage), limit=limit, cursor=before)


def verify_audit(holds: str | None) -> ApiRequest[AuditChainCheck]:
    return _get("/api/audit/verify", _as(AuditChainCheck), holds=holds)


def pools() -> ApiRequest[list[models.PoolInfo]]:
    return _get("/api/pools", _listed("pools", models.PoolInfo))


def set_pool(name: str, body: Mapping[str, Any]) -> ApiRequest[models.PoolInfo]:
    content = msgspec.json.encode(body)
    path = f"/api/pools/{quote(name, safe='')}"
    return ApiRequest(method="PUT", path=path, read=_as(models.PoolInfo), content=content, again=True)


def playbook_limits(path: str | None) -> ApiRequest[list[api_shapes.PlaybookLimitView]]:
    return _get("/api/limits", _listed("limits", api_shapes.PlaybookLimitView), path=path)


def limit_playbook(path: str, limit: int, reason: str | None) -> ApiRequest[bool]:
    content = msgspec.json.encode({"limit": limit, **_set_params(reason=reason)})
    return ApiRequest(method="PUT", path=f"/api/limits/{quote(path)}", read=_changed, content=content, again=True)


def reset_playbook_limit(path: str) -> ApiRequest[bool]:
    return ApiRequest(method="DELETE", path=f"/api/limits/{quote(path)}", read=_changed, again=True)


def step_limits(execution_id: str) -> ApiRequest[list[api_shapes.StepLimitView]]:
    return _get(_execution(execution_id, "/limits"), _listed("limits", api_shapes.StepLimitView))


def limit_step(execution_id: str, step: str, body: Mapping[str, Any]) -> ApiRequest[bool]:
    path, content = _execution(execution_id, f"/limits/{quote(step)}"), msgspec.json.encode(body)
    return ApiRequest(method="PUT", path=path, read=_changed, content=content, again=True)


def reset_step_limit(execution_id: str, step: str) -> ApiRequest[bool]:
    path = _execution(execution_id, f"/limits/{quote(step)}")
    return ApiRequest(method="DELETE", path=path, read=_changed, again=True)


def workers() -> ApiRequest[list[models.WorkerInfo]]:
    return _get("/api/workers", _listed("workers", models.WorkerInfo))


def who_am_i() -> ApiRequest[api_shapes.SessionShape]:
    return _get("/api/session", _as(api_shapes.SessionShape))


def ready() -> ApiRequest[dict[str, Any]]:
    return _get("/api/health/ready", _plain)
