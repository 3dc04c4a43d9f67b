"""Requests: every call of the API as a value, so that the blocking and the asynchronous client say the same.

Nothing here sends anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec

from noetl.client.api_request import (
    ApiRequest,
    get,
    post,
    read_as,
    read_changed,
    read_count,
    read_deleted,
    read_json,
    read_list,
    read_nothing,
    read_text,
    set_params,
)
from noetl.operations import administration_shapes, api_shapes, attempt_shapes

_YAML = "text/yaml"


def _execution(execution_id: str, rest: str = "") -> str:
    return f"/api/executions/{quote(execution_id, safe='')}{rest}"


def _schedule(path: str, rest: str = "") -> str:
    return f"/api/schedules/{quote(path)}{rest}"


def _catalog(path: str, rest: str = "") -> str:
    return f"/api/catalog/{quote(path)}{rest}"


# the catalogue


def register(source: str, *, schedule: bool = True) -> ApiRequest[api_shapes.PlaybookInfo]:
    read = read_as(api_shapes.PlaybookInfo)
    # the same text is the same version, so it may be sent again
    if not schedule:
        return post("/api/catalog", read, {"source": source, "schedule": False}, again=True)
    return ApiRequest(
        method="POST", path="/api/catalog", read=read, content=source.encode(), media_type=_YAML, again=True
    )


def playbooks(limit: int) -> ApiRequest[list[api_shapes.VersionView]]:
    return get("/api/catalog", lambda response: read_as(api_shapes.CatalogPage)(response).playbooks, limit=limit)


def playbook(path: str, version: str | int | None) -> ApiRequest[api_shapes.PlaybookInfo]:
    rest = "" if version is None else f"/versions/{quote(str(version), safe='')}"
    return get(_catalog(path, rest), read_as(api_shapes.PlaybookInfo))


def versions(path: str) -> ApiRequest[list[api_shapes.VersionView]]:
    return get(_catalog(path, "/versions"), lambda response: read_as(api_shapes.Versions)(response).versions)


def source(path: str, version: str | int | None) -> ApiRequest[str]:
    return get(_catalog(path, "/source"), read_text, version=version)


# executions


def start(
    path: str, payload: Mapping[str, Any], version: str | int | None, wait_s: float, key: str | None
) -> ApiRequest[api_shapes.StartedExecution]:
    body = {"path": path, "payload": payload, **set_params(version=version, wait=wait_s or None)}
    # So that a repeated request starts nothing twice.
    key = key or uuid4().hex
    headers = {"Idempotency-Key": key}
    return post(
        "/api/executions", read_as(api_shapes.StartedExecution), body, headers=headers, wait_s=wait_s, again=True
    )


def execution(execution_id: str) -> ApiRequest[api_shapes.ExecutionDetail]:
    return get(_execution(execution_id), read_as(api_shapes.ExecutionDetail))


def execution_with_children(execution_id: str) -> ApiRequest[dict[str, Any]]:
    return get(_execution(execution_id), read_json)


def executions(
    status: str | None, path: str | None, text: str | None, limit: int, cursor: str | None
) -> ApiRequest[api_shapes.ExecutionPage]:
    params = {"status": status, "path": path, "text": text, "limit": limit, "cursor": cursor}
    return get("/api/executions", read_as(api_shapes.ExecutionPage), **params)


def events(
    execution_id: str, after: int, limit: int, types: tuple[str, ...], step: str | None
) -> ApiRequest[api_shapes.EventPage]:
    params = {"after": after, "limit": limit, "types": ",".join(types) or None, "step": step}
    return get(_execution(execution_id, "/events"), read_as(api_shapes.EventPage), **params)


def result(execution_id: str, step: str | None) -> ApiRequest[api_shapes.ResultView]:
    return get(_execution(execution_id, "/result"), read_as(api_shapes.ResultView), step=step)


def ctx(execution_id: str) -> ApiRequest[dict[str, Any]]:
    return get(_execution(execution_id, "/ctx"), read_json)


def logs(
    execution_id: str, step: str | None, task: str | None, after: int, limit: int
) -> ApiRequest[api_shapes.LogPage]:
    params = {"step": step, "task": task, "after": after, "limit": limit}
    return get(_execution(execution_id, "/logs"), read_as(api_shapes.LogPage), **params)


def output(execution_id: str, after: str, step: str | None) -> ApiRequest[api_shapes.LiveOutputPage]:
    return get(_execution(execution_id, "/output"), read_as(api_shapes.LiveOutputPage), after=after, step=step)


def steer(execution_id: str, action: str, reason: str | None) -> ApiRequest[api_shapes.Steered]:
    """`compensate` is a cancellation that undoes first what was done (O-02)."""
    compensates = action == "compensate"
    body = set_params(reason=reason, compensate=True if compensates else None)
    return post(
        _execution(execution_id, f"/{'cancel' if compensates else action}"),
        read_as(api_shapes.Steered),
        body,
        again=True,
    )


def rerun(
    execution_id: str,
    version: str | int | None,
    payload: Mapping[str, Any] | None,
    from_step: str | None = None,
    approve: bool = False,
    failed_items: bool = False,
) -> ApiRequest[api_shapes.StartedExecution]:
    fields = {"version": version, "payload": payload, "from": from_step, "approve": approve or None}
    body = set_params(**fields, failed_items=failed_items or None)
    headers = {"Idempotency-Key": uuid4().hex}
    return post(
        _execution(execution_id, "/rerun"), read_as(api_shapes.StartedExecution), body, headers=headers, again=True
    )


def explain(execution_id: str) -> ApiRequest[dict[str, Any]]:
    return get(_execution(execution_id, "/explain"), read_json)


def attempts(
    execution_id: str, step: str | None, task: str | None, after: int, limit: int
) -> ApiRequest[attempt_shapes.AttemptPage]:
    read = read_as(attempt_shapes.AttemptPage)
    return get(_execution(execution_id, "/attempts"), read, step=step, task=task, after=after, limit=limit)


def attempt_inputs(execution_id: str, seq: int, against: str | None) -> ApiRequest[attempt_shapes.AttemptInputs]:
    read = read_as(attempt_shapes.AttemptInputs)
    return get(_execution(execution_id, f"/attempts/{seq}/inputs"), read, against=against)


def compare(execution_id: str, against: str | None) -> ApiRequest[attempt_shapes.ExecutionComparison]:
    return get(_execution(execution_id, "/compare"), read_as(attempt_shapes.ExecutionComparison), against=against)


def cost(source: str, path: str | None) -> ApiRequest[dict[str, Any]]:
    return post("/api/cost", read_json, {"source": source, **set_params(path=path)}, again=True)


def step_inputs(execution_id: str, step: str) -> ApiRequest[attempt_shapes.RecordedInputs]:
    return get(_execution(execution_id, "/step-inputs"), read_as(attempt_shapes.RecordedInputs), step=step)


def test_step(
    source: str, step: str, inputs: attempt_shapes.StepTestInputs, execution_id: str | None
) -> ApiRequest[api_shapes.StartedExecution]:
    body = {"source": source, "step": step, "inputs": inputs, **set_params(execution_id=execution_id)}
    return post("/api/executions/step-test", read_as(api_shapes.StartedExecution), body)


def stored(checksum: str) -> ApiRequest[bytes]:
    return get(f"/api/results/{quote(checksum, safe='')}", lambda response: response.content)


def table_page(checksum: str, *, offset: int, limit: int) -> ApiRequest[api_shapes.TablePage]:
    path = f"/api/results/{quote(checksum, safe='')}/rows"
    return get(path, read_as(api_shapes.TablePage), offset=offset, limit=limit)


def net(net_hash: str) -> ApiRequest[bytes]:
    return get(f"/api/nets/{quote(net_hash, safe='')}", lambda response: response.content)


# messages, signals, human tasks


def message(
    name: str, correlation: Mapping[str, Any], payload: Any, message_id: str | None, ttl: float | None
) -> ApiRequest[dict[str, Any]]:
    body = {"name": name, "correlation": correlation, "payload": payload, "message_id": message_id or uuid4().hex}
    return post("/api/messages", read_json, {**body, **set_params(ttl=ttl)}, again=True)


def messages(name: str | None, limit: int, cursor: str | None) -> ApiRequest[api_shapes.StoredMessagePage]:
    return get("/api/messages", read_as(api_shapes.StoredMessagePage), name=name, limit=limit, cursor=cursor)


def delete_message(message_id: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=f"/api/messages/{quote(message_id, safe='')}", read=read_nothing)


def delete_messages(name: str) -> ApiRequest[int]:
    return ApiRequest(method="DELETE", path="/api/messages", read=read_deleted, params={"name": name})


def signal(name: str, data: Any, execution_id: str | None, signal_id: str | None) -> ApiRequest[list[str]]:
    body = {"name": name, "data": data, "signal_id": signal_id or uuid4().hex, **set_params(execution_id=execution_id)}
    return post("/api/signals", lambda response: list(read_json(response)["heard"]), body, again=True)


def inject(execution_id: str, name: str, data: Any, key: str | None) -> ApiRequest[bool]:
    body = {"name": name, "data": data, "key": key or uuid4().hex}
    return post(_execution(execution_id, "/events"), read_changed, body, again=True)


def tasks(params: Mapping[str, Any]) -> ApiRequest[list[api_shapes.TaskView]]:
    return get("/api/tasks", read_list("tasks", api_shapes.TaskView), **params)


def task_page(params: Mapping[str, Any]) -> ApiRequest[api_shapes.TaskPage]:
    return get("/api/tasks", read_as(api_shapes.TaskPage), **params)


def task(task_id: str) -> ApiRequest[api_shapes.TaskView]:
    return get(f"/api/tasks/{quote(task_id, safe='')}", read_as(api_shapes.TaskView))


def act_on_task(task_id: str, action: str, **body: Any) -> ApiRequest[api_shapes.TaskView]:
    headers = {"Idempotency-Key": uuid4().hex}
    path = f"/api/tasks/{quote(task_id, safe='')}/{action}"
    return post(path, read_as(api_shapes.TaskView), set_params(**body), headers=headers, again=action == "complete")


def timers(execution_id: str | None) -> ApiRequest[list[api_shapes.TimerView]]:
    path = "/api/timers" if execution_id is None else _execution(execution_id, "/timers")
    return get(path, read_list("timers", api_shapes.TimerView))


def cancel_timer(timer_id: str) -> ApiRequest[bool]:
    path = f"/api/timers/{quote(timer_id, safe='')}/cancel"
    return post(path, read_changed, again=True)


def schedules() -> ApiRequest[administration_shapes.ScheduleList]:
    return get("/api/schedules", read_as(administration_shapes.ScheduleList))


def schedule(path: str, count: int) -> ApiRequest[administration_shapes.ScheduleView]:
    return get(_schedule(path), read_as(administration_shapes.ScheduleView), count=count)


def steer_schedule(path: str, action: str) -> ApiRequest[administration_shapes.ScheduleView]:
    return post(_schedule(path, f"/{action}"), read_as(administration_shapes.ScheduleView), again=True)


def backfill(
    path: str, since: str, until: str | None, limit: int, dry_run: bool
) -> ApiRequest[administration_shapes.Backfilled]:
    body = {"since": since, "limit": limit, "dry_run": dry_run, **set_params(until=until)}
    # what has run for a time is not run again
    return post(_schedule(path, "/backfill"), read_as(administration_shapes.Backfilled), body, again=True)


def triggers() -> ApiRequest[list[administration_shapes.TriggerView]]:
    return get("/api/triggers", read_list("triggers", administration_shapes.TriggerView))


def make_trigger(new: administration_shapes.NewTrigger) -> ApiRequest[administration_shapes.TriggerView]:
    return post("/api/triggers", read_as(administration_shapes.TriggerView), msgspec.to_builtins(new))


def trigger(name: str) -> ApiRequest[administration_shapes.TriggerView]:
    return get(_trigger(name), read_as(administration_shapes.TriggerView))


def steer_trigger(name: str, action: str) -> ApiRequest[administration_shapes.TriggerView]:
    return post(_trigger(name, f"/{action}"), read_as(administration_shapes.TriggerView), again=True)


def delete_trigger(name: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=_trigger(name), read=read_nothing)


def dead_letters(name: str) -> ApiRequest[list[administration_shapes.DeadLetterView]]:
    return get(_trigger(name, "/dead-letters"), read_list("dead_letters", administration_shapes.DeadLetterView))


def retry_dead_letters(name: str, item: str | None) -> ApiRequest[int]:
    path = _trigger(name, "/dead-letters/retry")
    return ApiRequest(method="POST", path=path, read=read_count, params=set_params(item=item), again=True)


def discard_dead_letters(name: str, item: str | None) -> ApiRequest[int]:
    path = _trigger(name, "/dead-letters")
    return ApiRequest(method="DELETE", path=path, read=read_count, params=set_params(item=item))


def _trigger(name: str, rest: str = "") -> str:
    return f"/api/triggers/{quote(name, safe='')}{rest}"


def playbook_limits(path: str | None) -> ApiRequest[list[api_shapes.PlaybookLimitView]]:
    return get("/api/limits", read_list("limits", api_shapes.PlaybookLimitView), path=path)


def limit_playbook(path: str, limit: int, reason: str | None) -> ApiRequest[bool]:
    content = msgspec.json.encode({"limit": limit, **set_params(reason=reason)})
    return ApiRequest(method="PUT", path=f"/api/limits/{quote(path)}", read=read_changed, content=content, again=True)


def reset_playbook_limit(path: str) -> ApiRequest[bool]:
    return ApiRequest(method="DELETE", path=f"/api/limits/{quote(path)}", read=read_changed, again=True)


def step_limits(execution_id: str) -> ApiRequest[list[api_shapes.StepLimitView]]:
    return get(_execution(execution_id, "/limits"), read_list("limits", api_shapes.StepLimitView))


def limit_step(execution_id: str, step: str, body: Mapping[str, Any]) -> ApiRequest[bool]:
    path, content = _execution(execution_id, f"/limits/{quote(step)}"), msgspec.json.encode(body)
    return ApiRequest(method="PUT", path=path, read=read_changed, content=content, again=True)


def reset_step_limit(execution_id: str, step: str) -> ApiRequest[bool]:
    path = _execution(execution_id, f"/limits/{quote(step)}")
    return ApiRequest(method="DELETE", path=path, read=read_changed, again=True)
