"""Notifications over a whole server, a real mail server and real hooks on loopback (NTF-01 to NTF-08)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from noetl.control.notifications import sender
from noetl.operations.administration_shapes import Role
from noetl.server.access.webhook_deliveries import is_signed, parse_signature
from noetl.store.memory import MemoryStore
from tests.playbook_runs import Scripted, broken
from tests.server.talking import Talk, talking
from tests.servers.http import HttpServer, reply
from tests.servers.mail import MailServer

KEY = "the key of this hook"
FAILING = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: nightly, path: billing/nightly, labels: {team: billing}}
%s
workflow:
  - step: load
    tool: [{name: work, kind: python, code: x}]
executor: {spec: {entry_step: load}}
"""
BROKEN = {"python": Scripted(work=broken("source.down", "no rows today"))}


@asynccontextmanager
async def notifying(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *, tools: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[Talk]:
    monkeypatch.setenv("NOETL_HOME", str(folder))
    async with talking(tools=tools or BROKEN, **more) as talk:
        yield talk


async def put(talk: Talk, path: str, body: Any, status: int = 200) -> Any:
    answer = await talk.client.put(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def credential(talk: Talk, name: str, value: Any) -> None:
    answer = await talk.client.put(f"/api/credentials/{name}", json={"value": value, "type": "text"})
    assert answer.is_success, answer.text


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not is_so():
            await asyncio.sleep(0.02)


async def notices(talk: Talk, state: str, number: int = 1) -> list[dict[str, Any]]:
    """Those of a state, once there are so many."""
    async with asyncio.timeout(120):
        while True:
            found: list[dict[str, Any]] = (await talk.get(f"/api/notifications?state={state}"))["notices"]
            if len(found) >= number:
                return found
            await asyncio.sleep(0.02)


@pytest.mark.req("NTF-01")
async def test_a_failure_is_sent_once_to_a_mailbox_and_a_signed_hook(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hook = HttpServer({"POST /told": reply(202)})
    with MailServer() as mail:
        async with hook, notifying(monkeypatch, tmp_path, public_url="https://noetl.example.org/") as talk:
            await credential(talk, "mail", mail.auth)
            await credential(talk, "hook", {"secret": KEY})
            own = f"on: {{failed: {{notify: [{{webhook: {{url: '{hook.url}/told', auth: hook}}}}]}}}}"
            rule = {"on": ["failed"], "path": "billing/*", "labels": {"team": "billing"}}
            await put(
                talk, "/api/notification-rules/ops", rule | {"notify": [{"email": {"to": "o@x.org", "auth": "mail"}}]}
            )
            execution_id = await talk.ran(FAILING % own)
            sent = await notices(talk, "sent", 2)

    assert {(one["rule"], one["destination"]) for one in sent} == {
        ("playbook", "webhook 127.0.0.1"),
        ("ops", "email o@x.org"),
    }
    [message] = mail.messages
    assert message["Subject"] == "[noetl] billing/nightly failed"
    text = message.get_content()
    assert "source.down: no rows today" in text
    assert "Step:      load" in text
    assert f"https://noetl.example.org/executions/{execution_id}" in text
    [delivery] = hook.requests
    told = delivery.json
    assert (told["event"], told["execution"]["id"], told["error"]["kind"]) == ("failed", execution_id, "source.down")
    at = float(delivery.headers["noetl-timestamp"])
    signed = parse_signature(delivery.headers["noetl-timestamp"], delivery.headers["noetl-signature"], now=at)
    assert signed is not None
    assert is_signed(signed, KEY, delivery.body)
    assert delivery.headers["noetl-delivery"] == next(one["notice_id"] for one in sent if one["rule"] == "playbook")


@pytest.mark.req("NTF-01")
async def test_a_rule_applies_to_its_playbooks_and_events_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with HttpServer({"*": reply()}) as hook, notifying(monkeypatch, tmp_path) as talk:
        to = [{"webhook": {"url": hook.url}}]
        await put(talk, "/api/notification-rules/other-path", {"on": ["failed"], "path": "sales/*", "notify": to})
        await put(
            talk, "/api/notification-rules/other-label", {"on": ["failed"], "labels": {"team": "x"}, "notify": to}
        )
        await put(talk, "/api/notification-rules/other-event", {"on": ["completed"], "notify": to})
        await put(talk, "/api/notification-rules/off", {"on": ["failed"], "enabled": False, "notify": to})
        await put(talk, "/api/notification-rules/mine", {"on": ["failed"], "notify": to})
        await talk.ran(FAILING % "")
        await notices(talk, "sent")

        every = (await talk.get("/api/notifications"))["notices"]
        assert [one["rule"] for one in every] == ["mine"]


@pytest.mark.req("NTF-05")
async def test_a_rejected_notice_is_a_dead_letter_until_it_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hook = HttpServer({"*": [reply(410, text="gone"), reply(200)]})
    async with hook, notifying(monkeypatch, tmp_path) as talk:
        await put(talk, "/api/notification-rules/ops", {"on": ["failed"], "notify": [{"webhook": {"url": hook.url}}]})
        await talk.ran(FAILING % "")
        [dead] = await notices(talk, "dead")
        figures = (await talk.client.get("/metrics")).text
        seen = await talk.get(f"/api/notifications/{dead['notice_id']}")
        await talk.post(f"/api/notifications/{dead['notice_id']}/retry")
        [sent] = await notices(talk, "sent")
        again = await talk.post(f"/api/notifications/{dead['notice_id']}/retry", status=409)

    assert seen["attempts"] == 1
    assert seen["error"].endswith(" answered 410 Gone: gone")
    assert 'noetl_notices{state="dead"} 1.0' in figures
    assert 'noetl_notice_attempts_total{destination="webhook",outcome="dead"} 1.0' in figures
    assert sent["notice_id"] == dead["notice_id"]
    assert len(hook.requests) == 2
    assert "only dead letters" in again["detail"]


@pytest.mark.req("NTF-05")
@pytest.mark.parametrize(
    ("mail", "said"),
    [
        (MailServer("554 5.7.1 no mail from robots"), "the mail server {} answered 554: 5.7.1 no mail from robots"),
        (
            MailServer(unknown=["p@x.org"]),
            "the mail server took it for o@x.org and refused p@x.org: 550 5.1.1 there is no such mailbox",
        ),
    ],
    ids=["refused", "refused for one of two"],
)
async def test_a_dead_letter_contains_the_answer_of_the_mail_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mail: MailServer, said: str
) -> None:
    with mail:
        async with notifying(monkeypatch, tmp_path) as talk:
            await credential(talk, "mail", mail.auth)
            notify = [{"email": {"to": ["o@x.org", "p@x.org"], "auth": "mail"}}]
            await put(talk, "/api/notification-rules/ops", {"on": ["failed"], "notify": notify})
            await talk.ran(FAILING % "")
            [dead] = await notices(talk, "dead")

    assert dead["error"] == said.format(f"127.0.0.1:{mail.port}")
    assert dead["attempts"] == 1


@pytest.mark.req("NTF-05")
async def test_a_notice_to_an_unavailable_hook_is_retried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("noetl.control.notifications.sender.FIRST_PAUSE_S", 0.01)
    async with HttpServer({"*": [reply(503), reply(503), reply()]}) as hook, notifying(monkeypatch, tmp_path) as talk:
        await put(talk, "/api/notification-rules/ops", {"on": ["failed"], "notify": [{"webhook": {"url": hook.url}}]})
        await talk.ran(FAILING % "")
        [sent] = await notices(talk, "sent")

    assert sent["attempts"] == 3
    assert len({one.headers["noetl-delivery"] for one in hook.requests}) == 1


@pytest.mark.req("NTF-06")
async def test_executions_continue_while_a_hook_never_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with HttpServer({"*": reply(hang=True)}) as hook, notifying(monkeypatch, tmp_path) as talk:
        await put(talk, "/api/notification-rules/ops", {"on": ["failed"], "notify": [{"webhook": {"url": hook.url}}]})
        first = await talk.ran(FAILING % "")
        await until(lambda: len(hook.requests) == 1)
        second = await talk.ran(FAILING % "")

        assert first != second
        assert len((await talk.get("/api/notifications?state=sending"))["notices"]) >= 1


@pytest.mark.req("NTF-04")
async def test_repeated_notices_wait_for_the_end_of_the_throttle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with HttpServer({"*": reply()}) as hook, notifying(monkeypatch, tmp_path) as talk:
        rule = {"on": ["failed"], "throttle": "1h", "notify": [{"webhook": {"url": hook.url}}]}
        await put(talk, "/api/notification-rules/ops", rule)
        await talk.ran(FAILING % "")
        await notices(talk, "sent")
        for _ in range(3):
            await talk.ran(FAILING % "")

        assert len((await talk.get("/api/notifications?state=pending"))["notices"]) == 3
    assert len(hook.requests) == 1


@pytest.mark.req("NTF-02")
async def test_the_next_server_sends_the_notice_of_a_stopped_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = MemoryStore()
    async with HttpServer({"*": reply()}) as hook:
        own = f"on: {{failed: {{notify: {{webhook: {{url: '{hook.url}'}}}}}}}}"

        async def claims_nothing(**_: Any) -> list[Any]:
            return []

        with monkeypatch.context() as patched:
            patched.setattr(store.notices, "claim", claims_nothing)
            async with notifying(monkeypatch, tmp_path, store=store) as talk:
                await talk.ran(FAILING % own)
        assert not hook.requests
        async with notifying(monkeypatch, tmp_path, store=store) as talk:
            await notices(talk, "sent")

    assert len(hook.requests) == 1


@pytest.mark.req("NTF-07")
async def test_an_execution_that_takes_longer_than_expected_is_reported_late(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waiting = """
    apiVersion: noetl.io/v10
    kind: Playbook
    metadata: {name: slow, path: billing/slow}
    workflow:
      - step: start
        message: {name: go}
    """
    async with HttpServer({"*": reply()}) as hook, notifying(monkeypatch, tmp_path) as talk:
        rule = {"on": ["late"], "late_after": 0.05, "notify": [{"webhook": {"url": hook.url}}]}
        await put(talk, "/api/notification-rules/sla", rule)
        path = (await talk.register(waiting))["path"]
        execution_id = (await talk.start(path))["execution_id"]
        await notices(talk, "sent")
        events = await talk.get(f"/api/executions/{execution_id}/events?limit=100")
        late = (await talk.get("/api/overview"))["late"]
        await talk.client.post(f"/api/executions/{execution_id}/cancel", json={})
        is_over = (await talk.get("/api/overview"))["late"]

    assert [(one["execution_id"], one["path"]) for one in late] == [(execution_id, "billing/slow")]
    assert is_over == []
    assert [one["payload"]["after_s"] for one in events["events"] if one["event_type"] == "playbook.late"] == [0.05]
    assert hook.requests[0].json["event"] == "late"


@pytest.mark.req("NTF-01")
async def test_an_assigned_task_is_reported_to_slack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = "/services/T000/B000/" + secrets.token_hex(8)
    asks = """
    apiVersion: noetl.io/v10
    kind: Playbook
    metadata: {name: asks, path: billing/asks}
    on: {task_assigned: {notify: [{slack: {auth: chat}}], text: "{{ task.title }} for {{ task.role }}"}}
    workflow:
      - step: start
        human_task: {title: Approve the bill, assignee: {role: finance}}
    """
    async with HttpServer({"*": reply(body=b"ok")}) as hook, notifying(monkeypatch, tmp_path) as talk:
        await credential(talk, "chat", {"webhook_url": hook.url + path})
        started = (await talk.register(asks))["path"]
        await talk.start(started)
        [sent] = await notices(talk, "sent")

    assert hook.requests[0].json["text"].endswith("Approve the bill for finance")
    assert sent["destination"] == "slack chat"


@pytest.mark.req("NTF-01", "HUM-01")
async def test_a_mail_about_a_task_links_to_the_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asks = """
    apiVersion: noetl.io/v10
    kind: Playbook
    metadata: {name: asks, path: billing/asks}
    on: {task_assigned: {notify: [{email: {to: f@x.org, auth: mail}}]}}
    workflow:
      - step: start
        human_task: {title: Approve the bill, assignee: {role: finance}}
    """
    with MailServer() as mail:
        async with notifying(monkeypatch, tmp_path, public_url="https://noetl.example.org") as talk:
            await credential(talk, "mail", mail.auth)
            await talk.start((await talk.register(asks))["path"])
            await notices(talk, "sent")
            [task] = (await talk.client.get("/api/tasks")).json()["tasks"]

    [message] = mail.messages
    assert f"Link:      https://noetl.example.org/tasks/{task['task_id']}" in message.get_content()


@pytest.mark.req("NTF-08")
async def test_a_failing_destination_reveals_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = secrets.token_hex(16)

    async with HttpServer({"*": reply(404, text="no_service")}) as hook, notifying(monkeypatch, tmp_path) as talk:
        await credential(talk, "chat", {"webhook_url": f"{hook.url}/services/{secret}"})
        await put(talk, "/api/notification-rules/ops", {"on": ["failed"], "notify": [{"slack": {"auth": "chat"}}]})
        await talk.ran(FAILING % "")
        await notices(talk, "dead")
        shown = [
            (await talk.client.get(path)).text
            for path in ("/api/notifications", "/api/notification-rules", "/metrics", "/api/audit")
        ]

    assert "no_service" in shown[0]
    assert not any(secret in one for one in shown)


@pytest.mark.req("NTF-08")
async def test_a_failing_template_does_not_stop_the_notice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with HttpServer({"*": reply()}) as hook, notifying(monkeypatch, tmp_path) as talk:
        rule = {
            "on": ["failed"],
            "notify": [{"webhook": {"url": hook.url}}],
            "text": "{{ 1 / 0 }}",
            "subject": "{{ error.kind }}!",
        }
        await put(talk, "/api/notification-rules/ops", rule)
        await talk.ran(FAILING % "")
        await notices(talk, "sent")

    told = hook.requests[0].json
    assert told["subject"] == "source.down!"
    assert "billing/nightly failed." in told["text"]
    assert "A template of this notice failed" in told["text"]


@pytest.mark.req("NTF-08")
async def test_notices_obey_the_address_policy_of_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from noetl.base.addresses.policy import CLOSED, AddressGuard
    from noetl.tools.registry import Permissions, guarded_registry

    async with HttpServer({"*": reply()}) as hook:
        with monkeypatch.context() as patched:
            patched.setattr("noetl.server.services.tools_of", lambda _: guarded_registry(Permissions(addresses=CLOSED)))
            async with notifying(monkeypatch, tmp_path) as talk:
                assert isinstance(talk.services.tools.addresses, AddressGuard)
                rule = {"on": ["failed"], "notify": [{"webhook": {"url": hook.url}}]}
                await put(talk, "/api/notification-rules/ops", rule)
                await talk.ran(FAILING % "")
                [dead] = await notices(talk, "dead")

    assert not hook.requests
    assert "127.0.0.1" in dead["error"]


@pytest.mark.req("NTF-08")
async def test_the_secret_path_and_headers_of_a_hook_are_never_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, query, token = (secrets.token_hex(16) for _ in range(3))
    options = {"url": "", "headers": {"Authorization": f"Bearer {token}"}}

    async with HttpServer({"*": reply(404, text=f"no {path}")}) as hook, notifying(monkeypatch, tmp_path) as talk:
        options["url"] = f"{hook.url}/services/{path}?key={query}"
        rule = {"on": ["failed"], "notify": [{"webhook": options}]}
        answer = await put(talk, "/api/notification-rules/ops", rule)
        # As an editor does: what was read is stored again, with one change.
        edited = await put(talk, "/api/notification-rules/ops", {**answer, "throttle": "1s"})
        moved = [{"webhook": {**answer["notify"][0]["webhook"], "url": "https://other.example.org/***"}}]
        await put(talk, "/api/notification-rules/ops", {**answer, "notify": moved}, 422)
        await put(talk, "/api/notification-rules/new", {**answer, "name": "new"}, 422)
        await talk.ran(FAILING % "")
        [dead] = await notices(talk, "dead")
        tried = (await talk.post("/api/notification-rules/ops/test"))["destinations"]
        author = await talk.as_role(Role.AUTHOR)
        shown = [
            (await client.get(read)).text
            for client in (author, talk.client)
            for read in ("/api/notifications", "/api/notification-rules", "/api/notification-rules/ops")
        ]
        shown += [(await talk.client.get("/api/audit")).text, str(answer), str(edited), str(tried), dead["error"]]

    masked = {"url": f"{hook.url}/***", "headers": {"Authorization": "***"}}
    assert answer["notify"] == edited["notify"] == [{"webhook": masked}]
    assert [request.target for request in hook.requests] == [f"/services/{path}?key={query}"] * 2
    assert {request.headers["authorization"] for request in hook.requests} == {f"Bearer {token}"}
    assert "404" in dead["error"]
    assert not [one for one in shown if any(secret in one for secret in (path, query, token))]


async def test_a_test_of_a_rule_reports_what_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with HttpServer({"*": reply()}) as hook, notifying(monkeypatch, tmp_path) as talk:
        to = [{"webhook": {"url": hook.url}}, {"email": {"to": "o@x.org", "auth": "nowhere"}}]
        await put(talk, "/api/notification-rules/ops", {"on": ["failed"], "notify": to})
        tried = (await talk.post("/api/notification-rules/ops/test"))["destinations"]

        assert [one["error"] is None for one in tried] == [True, False]
        assert "nowhere" in tried[1]["error"]
        assert hook.requests[0].json["event"] == "test"
        assert (await talk.get("/api/notifications"))["notices"] == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"on": ["fail"], "notify": [{"slack": {"auth": "x"}}]}, 'no event "fail"'),
        ({"on": ["failed"], "notify": []}, "at least one destination"),
        ({"on": ["failed"], "notify": [{"pager": {}}]}, 'no destination "pager"'),
        ({"on": ["failed"], "notify": [{"email": {"to": "a@b.c"}}]}, '"auth" of email'),
        ({"on": ["late"], "notify": [{"slack": {"auth": "x"}}]}, "late_after"),
        ({"on": ["failed"], "throttle": "soon", "notify": [{"slack": {"auth": "x"}}]}, "throttle"),
        ({"on": ["failed"], "wait": 1, "notify": [{"slack": {"auth": "x"}}]}, "wait"),
    ],
)
async def test_an_impossible_notification_rule_is_a_refusal(rule: dict[str, Any], said: str) -> None:
    async with talking() as talk:
        told = await put(talk, "/api/notification-rules/ops", rule, 422)

        assert said in told["detail"]
        assert (await talk.get("/api/notification-rules"))["rules"] == []


async def test_only_administrators_change_rules_and_every_role_reads_notices() -> None:
    async with talking() as talk:
        viewer, author = await talk.as_role(Role.VIEWER), await talk.as_role(Role.AUTHOR)
        rule = {"on": ["failed"], "notify": [{"slack": {"auth": "x"}}]}
        await put(talk, "/api/notification-rules/ops", rule)

        assert (await viewer.get("/api/notifications")).status_code == 200
        assert (await viewer.get("/api/notification-rules")).status_code == 403
        assert (await author.put("/api/notification-rules/ops", json=rule)).status_code == 403
        assert (await author.get("/api/notification-rules/ops")).json()["on"] == ["failed"]
        assert (await talk.client.delete("/api/notification-rules/ops")).status_code == 204
        assert (await talk.client.delete("/api/notification-rules/ops")).status_code == 404


@pytest.mark.req("NTF-06")
async def test_hooks_that_never_answer_do_not_delay_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sender, "SLOW_S", 0.0)
    is_over = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await is_over.wait()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with HttpServer({"*": reply()}) as hook, notifying(monkeypatch, tmp_path) as talk:
        for number in range(sender.MOST_AT_ONCE + 1):
            to = [{"webhook": {"url": f"http://127.0.0.1:{port}/{number}"}}]
            await put(talk, f"/api/notification-rules/dead-{number}", {"on": ["failed"], "notify": to})
        await talk.ran(FAILING % "")
        await put(talk, "/api/notification-rules/alive", {"on": ["failed"], "notify": [{"webhook": {"url": hook.url}}]})
        await talk.ran(FAILING % "")

        assert [one["rule"] for one in await notices(talk, "sent")] == ["alive"]
        is_over.set()
    silent.close()
    await silent.wait_closed()
