"""Requests of administrators: credentials, tokens, webhooks, notifications, the audit log, pools and workers.

Like those of `requests.py` they are values; nothing here sends anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from noetl.client.api_request import ApiRequest, get, post, read_as, read_json, read_list, read_nothing
from noetl.operations import administration_shapes
from noetl.store.audit import AuditChainCheck


def set_credential(name: str, value: Any, kind: str) -> ApiRequest[administration_shapes.CredentialView]:
    body = msgspec.json.encode({"value": value, "type": kind})
    path = f"/api/credentials/{quote(name, safe='')}"
    return ApiRequest(
        method="PUT", path=path, read=read_as(administration_shapes.CredentialView), content=body, again=True
    )


def credentials() -> ApiRequest[list[administration_shapes.CredentialView]]:
    return get("/api/credentials", read_list("credentials", administration_shapes.CredentialView))


def delete_credential(name: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=f"/api/credentials/{quote(name, safe='')}", read=read_nothing)


def make_token(body: Mapping[str, Any]) -> ApiRequest[administration_shapes.MadeToken]:
    return post("/api/tokens", read_as(administration_shapes.MadeToken), body)


def check_credential(name: str, kind: str | None, url: str | None) -> ApiRequest[administration_shapes.CredentialCheck]:
    body = {key: value for key, value in (("kind", kind), ("url", url)) if value is not None}
    return post(f"/api/credentials/{quote(name, safe='')}/test", read_as(administration_shapes.CredentialCheck), body)


def rotate_credentials() -> ApiRequest[administration_shapes.Rotated]:
    return post("/api/credentials/rotate", read_as(administration_shapes.Rotated))


def tokens() -> ApiRequest[list[administration_shapes.AccessTokenView]]:
    return get("/api/tokens", read_list("tokens", administration_shapes.AccessTokenView))


def revoke_token(token_id: str) -> ApiRequest[administration_shapes.AccessTokenView]:
    path = f"/api/tokens/{quote(token_id, safe='')}"
    return ApiRequest(method="DELETE", path=path, read=read_as(administration_shapes.AccessTokenView))


def webhooks() -> ApiRequest[list[administration_shapes.WebhookShape]]:
    return get("/api/webhooks", read_list("webhooks", administration_shapes.WebhookShape))


def make_webhook(body: Mapping[str, Any]) -> ApiRequest[administration_shapes.MadeWebhook]:
    return post("/api/webhooks", read_as(administration_shapes.MadeWebhook), body)


def delete_webhook(name: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=f"/api/webhooks/{quote(name, safe='')}", read=read_nothing)


def notices(
    states: Sequence[str], execution_id: str | None, limit: int, cursor: str | None
) -> ApiRequest[administration_shapes.NoticePage]:
    read = read_as(administration_shapes.NoticePage)
    return get("/api/notifications", read, state=list(states), execution_id=execution_id, limit=limit, cursor=cursor)


def notice(notice_id: str) -> ApiRequest[administration_shapes.NoticeView]:
    return get(f"/api/notifications/{quote(notice_id, safe='')}", read_as(administration_shapes.NoticeView))


def retry_notice(notice_id: str) -> ApiRequest[administration_shapes.NoticeView]:
    return post(f"/api/notifications/{quote(notice_id, safe='')}/retry", read_as(administration_shapes.NoticeView))


def retry_notices() -> ApiRequest[int]:
    return post("/api/notifications/retry", lambda response: int(read_json(response)["retried"]))


def notification_rules() -> ApiRequest[list[dict[str, Any]]]:
    return get("/api/notification-rules", read_list("rules", dict[str, Any]))


def set_notification_rule(name: str, rule: Mapping[str, Any]) -> ApiRequest[dict[str, Any]]:
    return ApiRequest(
        method="PUT",
        path=f"/api/notification-rules/{quote(name, safe='')}",
        read=read_json,
        content=msgspec.json.encode(rule),
        again=True,
    )


def delete_notification_rule(name: str) -> ApiRequest[None]:
    return ApiRequest(method="DELETE", path=f"/api/notification-rules/{quote(name, safe='')}", read=read_nothing)


def test_notification_rule(name: str) -> ApiRequest[list[administration_shapes.TriedDestination]]:
    path = f"/api/notification-rules/{quote(name, safe='')}/test"
    return post(path, read_list("destinations", administration_shapes.TriedDestination), wait_s=60.0)


def audit(limit: int, before: int | None) -> ApiRequest[administration_shapes.AuditPage]:
    return get("/api/audit", read_as(administration_shapes.AuditPage), limit=limit, cursor=before)


def verify_audit(holds: str | None) -> ApiRequest[AuditChainCheck]:
    return get("/api/audit/verify", read_as(AuditChainCheck), holds=holds)


def pools() -> ApiRequest[list[administration_shapes.PoolInfo]]:
    return get("/api/pools", read_list("pools", administration_shapes.PoolInfo))


def set_pool(name: str, body: Mapping[str, Any]) -> ApiRequest[administration_shapes.PoolInfo]:
    content = msgspec.json.encode(body)
    path = f"/api/pools/{quote(name, safe='')}"
    return ApiRequest(
        method="PUT", path=path, read=read_as(administration_shapes.PoolInfo), content=content, again=True
    )


def workers() -> ApiRequest[list[administration_shapes.WorkerInfo]]:
    return get("/api/workers", read_list("workers", administration_shapes.WorkerInfo))


def drain_worker(worker_id: str) -> ApiRequest[administration_shapes.WorkerInfo]:
    path = f"/api/workers/{quote(worker_id)}/drain"
    return ApiRequest(method="POST", path=path, read=read_as(administration_shapes.WorkerInfo), again=True)


def resume_worker(worker_id: str) -> ApiRequest[administration_shapes.WorkerInfo]:
    path = f"/api/workers/{quote(worker_id)}/resume"
    return ApiRequest(method="POST", path=path, read=read_as(administration_shapes.WorkerInfo), again=True)


def who_am_i() -> ApiRequest[administration_shapes.SessionShape]:
    return get("/api/session", read_as(administration_shapes.SessionShape))


def ready() -> ApiRequest[dict[str, Any]]:
    return get("/api/health/ready", read_json)
