"""Webhooks: only what is signed, fresh, JSON and new has an effect, and has it once (reliability.md §2.4, F19)."""

from __future__ import annotations

import asyncio
import builtins
import io
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from noetl.events.executions import ExecutionRequested, Starter
from noetl.operations import webhooks
from noetl.operations.administration_shapes import Role, WebhookTarget
from noetl.operations.webhooks import Webhooks
from noetl.secrets.encryption import MasterKeys
from noetl.server.access.access import Rates, RequestRate
from noetl.server.access.webhook_deliveries import signature_of
from tests.server.access.ground import Ground
from tests.server.access.webhook_senders import BODY, Sender, sender_on


@pytest_asyncio.fixture
async def sender() -> AsyncIterator[Sender]:
    made = await sender_on(Ground())
    yield made
    await made.client.aclose()


async def test_a_signed_delivery_starts_the_playbook_with_its_body(sender: Sender) -> None:
    answer = await sender.send(headers=sender.headers(delivery="d-1"))

    assert answer.status_code == 202
    [payload] = await sender.started()
    assert payload["body"] == {"order": {"id": 7}}
    assert (payload["webhook"]["name"], payload["webhook"]["delivery"]) == ("orders", "d-1")
    execution_id = (await sender.ground.store.executions())[0].execution_id
    assert answer.json() == {"execution_id": execution_id}
    requested = (await sender.ground.store.events(execution_id))[0].payload
    assert isinstance(requested, ExecutionRequested)
    assert requested.starter == Starter(kind="webhook", name="orders")
    [row] = await sender.ground.store.audit.onward(after=0)
    assert (row.actor, row.action, row.outcome) == ("webhook orders", "POST /hooks/{hook_id}", "202")


def _without(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: {key: value for key, value in headers.items() if key != name}


def _with(**changed: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: headers | {name.replace("_", "-"): value for name, value in changed.items()}


def _but_signature(change: Callable[[str], str]) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: headers | {"noetl-signature": change(headers["noetl-signature"])}


FORGED: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "no signature": _without("noetl-signature"),
    "no timestamp": _without("noetl-timestamp"),
    "empty signature": _with(noetl_signature=""),
    "bare hex": _but_signature(lambda text: text.removeprefix("v1=")),
    "other version": _but_signature(lambda text: text.replace("v1", "v2")),
    "upper case": _but_signature(lambda text: "v1=" + text[3:].upper()),
    "cut short": _but_signature(lambda text: text[:-2]),
    "longer": _but_signature(lambda text: text + "00"),
    "one digit": _but_signature(lambda text: text[:-1] + ("0" if text[-1] != "0" else "1")),
    "zeros": _with(noetl_signature="v1=" + "0" * 64),
    "two in one": _but_signature(lambda text: f"{text},{text}"),
    "padded": _but_signature(lambda text: f"{text} x"),
    "other algorithm": _with(noetl_signature="sha1=" + "0" * 40),
    "timestamp moved": _with(noetl_timestamp="1735689601"),
    "timestamp as float": _with(noetl_timestamp="1735689600.0"),
    "timestamp signed": _with(noetl_timestamp="+1735689600"),
    "timestamp in words": _with(noetl_timestamp="now"),
    "timestamp huge": _with(noetl_timestamp="9" * 400),
    "timestamp with zeros": _with(noetl_timestamp="01735689600"),
    "timestamp twice": _with(noetl_timestamp="1735689600, 1735689600"),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
async def test_a_forged_signature_gets_the_answer_of_an_unknown_address(
    sender: Sender, forge: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    headers = forge(sender.headers())

    refused = await sender.send(headers=headers)
    unknown = await sender.client.post(f"/hooks/{'0' * 32}", content=BODY, headers=headers)

    assert refused.status_code == unknown.status_code == 404
    assert _told(refused) == _told(unknown)
    assert await sender.started() == []


def _told(answer: httpx2.Response) -> tuple[object, ...]:
    body = {key: value for key, value in answer.json().items() if key != "instance"}
    return (
        answer.status_code,
        body,
        sorted((name, value) for name, value in answer.headers.items() if "length" not in name),
    )


async def test_another_key_another_webhooks_key_and_a_changed_body_are_refused(sender: Sender) -> None:
    other_key, _ = await sender.ground.access.webhooks.create("other", WebhookTarget(path="demo/hooked"), by="ann")

    assert (await sender.send(key="guess")).status_code == 404
    assert (await sender.send(key=other_key)).status_code == 404
    assert (await sender.send(b'{"order": {"id": 8}}', headers=sender.headers(BODY))).status_code == 404
    assert (await sender.send(b"", headers=sender.headers(BODY))).status_code == 404
    assert await sender.started() == []


@pytest.mark.parametrize(
    ("age_s", "status"), [(0, 202), (299, 202), (300, 202), (301, 404), (86_400, 404), (-300, 202), (-302, 404)]
)
async def test_a_delivery_is_accepted_within_five_minutes(sender: Sender, age_s: float, status: int) -> None:
    assert (await sender.send(age_s=age_s)).status_code == status


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/jsonp",
        "application/json-seq",
        "application/octet-stream",
    ],
)
async def test_only_json_is_accepted(sender: Sender, kind: str) -> None:
    answer = await sender.send(headers=sender.headers() | {"content-type": kind})

    assert answer.status_code == 415
    assert await sender.started() == []


async def test_the_content_type_may_name_the_encoding(sender: Sender) -> None:
    headers = sender.headers() | {"content-type": "application/json; charset=utf-8"}

    assert (await sender.send(headers=headers)).status_code == 202


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nothing", b"NaN", b'{"a": 1, "a": 2}', b"[" * 10_000, b'"\\ud800"', b"\xff", b"{} {}", b"1e999"],
)
async def test_a_signed_body_that_is_not_json_is_refused(sender: Sender, body: bytes) -> None:
    assert (await sender.send(body)).status_code == 400
    assert await sender.started() == []


async def test_a_body_is_at_most_one_mebibyte(sender: Sender) -> None:
    fits = b'"' + b"x" * ((1 << 20) - 2) + b'"'

    assert (await sender.send(fits)).status_code == 202
    assert (await sender.send(fits + b" ")).status_code == 413

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * (1 << 16)

    answer = await sender.client.post(f"/hooks/{sender.hook_id}", content=endless(), headers=sender.headers())
    assert answer.status_code == 413


async def test_a_forged_files_object_is_treated_as_data(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form webhook elsewhere read whatever path such an object named (CVE-2026-21858)."""
    forged = {"files": {"f": {"filepath": "/etc/passwd", "path": "/etc/passwd", "mimetype": "text/plain"}}}
    paths: list[object] = []
    for module, name in ((builtins, "open"), (io, "open"), (os, "open")):
        real = getattr(module, name)

        def noting(path: object, *rest: Any, _real: Any = real, **more: Any) -> Any:
            paths.append(path)
            return _real(path, *rest, **more)

        monkeypatch.setattr(module, name, noting)

    assert (await sender.send(json.dumps(forged).encode())).status_code == 202

    monkeypatch.undo()
    assert not [path for path in paths if "passwd" in str(path)]
    assert (await sender.started())[0]["body"] == forged


async def test_a_replayed_delivery_changes_nothing(sender: Sender) -> None:
    headers = sender.headers()
    first = await sender.send(headers=headers)
    sender.ground.clock.advance(200)

    again = await sender.send(headers=headers)

    assert again.status_code == 202
    assert again.json() == first.json() | {"repeated": True}
    assert len(await sender.started()) == 1


async def test_a_replayed_delivery_with_another_id_changes_nothing(sender: Sender) -> None:
    """The id is not signed, so whoever catches a delivery can change it; its signature is known, though."""
    headers = sender.headers(delivery="d-1")
    first = await sender.send(headers=headers)
    for other in ("d-2", "d-3"):
        again = await sender.send(headers=headers | {"noetl-delivery": other})
        assert again.json()["execution_id"] == first.json()["execution_id"]
    await sender.send(headers={key: value for key, value in headers.items() if key != "noetl-delivery"})

    assert len(await sender.started()) == 1


async def test_a_repeated_delivery_with_its_id_is_recognised(sender: Sender) -> None:
    first = await sender.send(headers=sender.headers(delivery="d-1"))
    sender.ground.clock.advance(3_600)

    again = await sender.send(headers=sender.headers(delivery="d-1"))

    assert again.json()["execution_id"] == first.json()["execution_id"]
    assert len(await sender.started()) == 1


async def test_another_body_under_a_known_id_is_refused(sender: Sender) -> None:
    await sender.send(headers=sender.headers(delivery="d-1"))
    other = b'{"order": {"id": 8}}'

    answer = await sender.send(other, headers=sender.headers(other, delivery="d-1"))

    assert answer.status_code == 422
    assert len(await sender.started()) == 1


async def test_concurrent_copies_of_a_delivery_have_one_effect(sender: Sender) -> None:
    headers = sender.headers(delivery="d-1")

    answers = await asyncio.gather(*(sender.send(headers=headers) for _ in range(10)))

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["execution_id"] for answer in answers}) == 1
    assert len(await sender.started()) == 1


@pytest.mark.parametrize("delivery", ["", "x" * 201])
async def test_an_invalid_delivery_id_is_refused(sender: Sender, delivery: str) -> None:
    assert (await sender.send(headers=sender.headers(delivery=delivery))).status_code == 400
    assert await sender.started() == []


@pytest.mark.parametrize(
    "address",
    ["", "x", "0" * 31, "0" * 33, "%2e%2e", "..", "A" * 32, "%00" * 32, "*", "orders", "{hook_id}", "0" * 32 + "%2Fx"],
)
async def test_other_addresses_are_not_found(sender: Sender, address: str) -> None:
    answer = await sender.client.post(f"/hooks/{address}", content=BODY, headers=sender.headers())

    assert answer.status_code in (400, 401, 404)
    assert await sender.started() == []


async def test_an_unknown_address_does_the_same_work(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that how long an answer takes tells nobody which addresses there are."""
    steps: list[str] = []
    for name in ("opened", "_decode_webhook"):
        real = getattr(webhooks, name)

        def noting(*given: Any, _name: str = name, _real: Any = real) -> Any:
            steps.append(_name)
            return _real(*given)

        monkeypatch.setattr(webhooks, name, noting)
    await sender.ground.access.webhooks.find(sender.hook_id)
    known, steps[:] = list(steps), []
    hook, key = await sender.ground.access.webhooks.find("f" * 32)

    assert (hook, steps) == (None, known)
    assert key != sender.key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the example uses openssl")
async def test_the_example_in_the_documentation_signs_correctly() -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    script = page.partition("```sh\n")[2].partition("curl")[0]
    done = subprocess.run(
        ["sh", "-c", f'{script}\nprintf "%s %s %s" "$time" "$mark" "$body"'],
        env={**os.environ, "SECRET": "the key"},
        capture_output=True,
        text=True,
        check=True,
    )

    time, mark, body = done.stdout.split(" ", 2)
    assert mark == signature_of("the key", time, body.encode())


async def test_a_flood_is_rate_limited_alike_for_known_and_unknown_addresses() -> None:
    """Whoever knocks too often is slowed, at a door that is there as at one that is not."""
    codes = {}
    for name, address in (("known", None), ("unknown", "f" * 32)):
        sender = await sender_on(Ground(rates=Rates(failures=RequestRate(5, 0.5))))
        path = f"/hooks/{address or sender.hook_id}"
        headers = sender.headers(key="guess")
        answers = [await sender.client.post(path, content=BODY, headers=headers) for _ in range(8)]
        codes[name] = [answer.status_code for answer in answers]
        await sender.client.aclose()

    assert codes["known"] == codes["unknown"] == [404] * 5 + [429] * 3


async def test_signed_deliveries_are_rate_limited_too() -> None:
    sender = await sender_on(Ground(rates=Rates(webhooks=RequestRate(2, 1))))

    answers = [await sender.send(b"%d" % number) for number in range(3)]

    assert [answer.status_code for answer in answers] == [202, 202, 429]
    assert answers[2].headers["retry-after"] == "2"
    await sender.client.aclose()


async def test_a_webhook_address_accepts_post_only(sender: Sender) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
        assert (await sender.client.request(method, f"/hooks/{sender.hook_id}")).status_code == 401


async def test_a_page_of_another_origin_cannot_deliver(sender: Sender) -> None:
    answer = await sender.send(headers={**sender.headers(), "origin": "https://evil.example"})

    assert answer.status_code == 403
    assert await sender.started() == []


async def test_a_deleted_webhook_is_gone(sender: Sender) -> None:
    async with await sender.ground.as_(Role.ADMIN) as admin:
        gone = await admin.delete("/api/webhooks/orders")
        assert (gone.status_code, gone.content) == (204, b"")  # a body would break the connection
        assert (await admin.delete("/api/webhooks/orders")).status_code == 404

    assert (await sender.send()).status_code == 404


async def test_a_webhook_for_a_missing_playbook_reports_it_to_signed_callers() -> None:
    sender = await sender_on(Ground(), WebhookTarget(path="demo/none"))

    answer = await sender.send()

    assert (answer.status_code, "not registered" in answer.json()["detail"]) == (409, True)
    await sender.client.aclose()


async def test_a_webhook_sends_one_message_correlated_by_fields_of_the_body() -> None:
    sender = await sender_on(Ground(), WebhookTarget(message="order.paid", correlation={"order": "order.id"}))
    headers = sender.headers()

    first = await sender.send(headers=headers)
    again = await sender.send(headers=headers)

    assert first.status_code == 202
    assert again.json() == first.json() | {"repeated": True}
    [kept] = await sender.ground.store.waits.stored_messages("order.paid", now=sender.ground.clock.now())
    assert (kept.correlation, kept.payload) == ({"order": 7}, {"order": {"id": 7}})
    for body in (b"{}", b"[]", b'{"order": {}}', b'{"order": {"id": {}}}', b'"text"'):
        assert (await sender.send(body)).status_code == 422
    await sender.client.aclose()


async def test_administrators_create_webhooks_and_the_key_is_shown_once() -> None:
    ground = Ground()
    async with await ground.as_(Role.ADMIN) as admin, await ground.as_(Role.AUTHOR) as author:
        made = await admin.post("/api/webhooks", json={"name": "orders", "path": "demo/hooked"})
        assert made.status_code == 201
        assert made.json()["url"].startswith("/hooks/")
        listed = await author.get("/api/webhooks")
        assert made.json()["secret"] not in listed.text
        assert listed.json()["webhooks"][0]["created_by"] == "a admin"
        for body in (
            {"name": "orders", "path": "demo/hooked"},
            {"name": "both", "path": "a", "message": "b"},
            {"name": "none"},
            {"name": "bad name", "path": "a"},
            {"name": "c", "path": "a", "correlation": {"x": "y"}},
            {"name": "c", "message": "a", "version": "1"},
            {"name": "c", "message": "a", "correlation": {"x": "a..b"}},
        ):
            assert (await admin.post("/api/webhooks", json=body)).status_code == 422, body
    things = await ground.store.key_values.list("webhook")
    assert made.json()["secret"].encode() not in things[0].body


async def test_a_server_without_a_master_key_has_no_webhooks() -> None:
    ground = Ground(keys=MasterKeys([]))
    async with await ground.as_(Role.ADMIN) as admin:
        answer = await admin.post("/api/webhooks", json={"name": "orders", "path": "demo/hooked"})

        assert answer.status_code == 422
        assert "NOETL_MASTER_KEY" in answer.json()["detail"]

        ground.keys = MasterKeys([b"k" * 32])  # the first credential makes one, while the server runs
        answer = await admin.post("/api/webhooks", json={"name": "orders", "path": "demo/hooked"})
        assert answer.status_code == 201


async def test_a_webhook_survives_a_rotation_of_the_master_key(sender: Sender) -> None:
    old, new = b"k" * 32, b"n" * 32
    rotated = Webhooks(sender.ground.store.key_values, lambda: MasterKeys([old, new]), sender.ground.clock)

    assert (await rotated.find(sender.hook_id))[1] == sender.key
    only_new = Webhooks(sender.ground.store.key_values, lambda: MasterKeys([new]), sender.ground.clock)
    assert (await only_new.find(sender.hook_id))[1] == sender.key
