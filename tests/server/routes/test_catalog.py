"""The catalogue and the language over HTTP: registering, versions, differences, proofs, checking, drawing."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from noetl.operations.administration_shapes import Role
from noetl.store.memory import MemoryStore
from tests.engine_script import playbook
from tests.server.talking import HELLO, talking
from tests.servers.mail import MailServer
from tests.servers.ports import free_port

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.mark.req("SRV-10")
async def test_registering_the_same_content_returns_the_same_version() -> None:
    async with talking(workers=0) as talk:
        first = await talk.client.post("/api/catalog", json={"source": playbook(HELLO)})
        again = await talk.client.post("/api/catalog", json={"source": playbook(HELLO), "path": "tests/test"})
        other = await talk.client.post("/api/catalog", json={"source": playbook(HELLO.replace("world", "moon"))})
        wrong = await talk.client.post("/api/catalog", json={"source": playbook(HELLO), "path": "tests/other"})

        assert [one.status_code for one in (first, again, other, wrong)] == [201, 200, 201, 422]
        assert [one.json()["version"] for one in (first, again, other)] == [1, 1, 2]
        assert first.json()["verdict"] == "sound"
        assert first.json()["dialect"] == "v10"
        assert again.json()["created"] is False


SCHEDULED = (
    """
trigger: {timer: {cron: "30 2 * * *"}}
on: {failed: {notify: {slack: {auth: ops}}}}
"""
    + HELLO
)


@pytest.mark.req("SRV-10")
async def test_a_text_replaces_only_the_version_it_was_opened_from() -> None:
    async with talking(workers=0) as talk:

        async def register(who: str, opened_from: str) -> httpx2.Response:
            source = playbook(HELLO.replace("world", who))
            return await talk.client.post("/api/catalog", json={"source": source, "opened_from": opened_from})

        first = await register("a", "")
        unseen = await register("b", "")
        second = await register("b", "tests/test@1")
        stale = await register("c", "tests/test@1")
        renamed = await register("c", "tests/other@7")
        same = await register("b", "tests/test@1")

        assert [one.status_code for one in (first, unseen, second, stale, renamed, same)] == [
            201,
            409,
            201,
            409,
            409,
            200,
        ]
        assert unseen.json()["newest"] == "tests/test@1"
        assert stale.json()["newest"] == "tests/test@2"
        assert stale.json()["type"] == "urn:noetl:problem:replaced"
        assert stale.json()["detail"] == '"tests/test" has changed since this text was opened: its newest version is 2'


@pytest.mark.req("SRV-10", "TMR-01")
async def test_removing_a_schedule_or_notifications_requires_the_role() -> None:
    async with talking(workers=0) as talk:
        await talk.register(SCHEDULED)
        asked = {"source": playbook(HELLO), "opened_from": "tests/test@1"}

        refused = await talk.client.post("/api/catalog", json={**asked, "may_remove": False})
        kept = (await talk.get("/api/schedules"))["schedules"]
        stale = await talk.client.post("/api/catalog", json={**asked, "opened_from": "", "may_remove": False})
        done = await talk.client.post("/api/catalog", json=asked)

        assert (refused.status_code, done.status_code) == (409, 201)
        assert refused.json()["removed"] == {"schedule": "30 2 * * * (UTC)", "notifications": "failed"}
        assert refused.json()["detail"] == (
            'this text removes from "tests/test" the schedule 30 2 * * * (UTC) and the notifications failed'
        )
        assert stale.json()["removed"] == refused.json()["removed"]
        assert "its newest version is 1" in stale.json()["detail"]
        assert len(kept) == 1
        assert (await talk.get("/api/schedules"))["schedules"] == []


async def test_versions_texts_and_differences_can_be_read() -> None:
    async with talking(workers=0) as talk:
        await talk.register()
        await talk.register(HELLO.replace("world", "moon"))
        url = "/api/catalog/tests/test"
        listed = (await talk.get(f"{url}/versions"))["versions"]
        newest = await talk.client.get(f"{url}/source")
        oldest = await talk.client.get(f"{url}/source", params={"version": 1})
        change = await talk.client.get(f"{url}/diff", params={"from": 1, "to": 2})

        assert [one["version"] for one in listed] == [2, 1]
        assert (await talk.get(f"{url}/versions/1"))["catalog_id"] == "tests/test@1"
        assert (await talk.get(url))["version"] == 2
        assert {one["registered_by"] for one in listed} == {"admin"}
        assert (await talk.get("/api/catalog"))["playbooks"] == [listed[0]]
        assert "moon" in newest.text
        assert oldest.text == playbook(HELLO)
        assert "-workload: {who: world}\n+workload: {who: moon}" in change.text
        await talk.get(f"{url}/source", 404, params={"version": 9})
        await talk.get(f"{url}/diff", 422, params={"from": 1})


async def test_steps_are_found_by_parts_of_their_names_in_the_newest_versions() -> None:
    def text(path: str, step: str) -> str:
        head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: x, path: PATH }\n"
        return (
            f"{head.replace('PATH', path)}workflow:\n  - step: {step}\nexecutor: {{ spec: {{ entry_step: {step} }} }}\n"
        )

    async with talking(workers=0) as talk:
        for path, step in (("sales/a", "old_name"), ("sales/a", "load_Orders"), ("crm/b", "load_items")):
            await talk.client.post("/api/catalog", json={"source": text(path, step)})

        async def found(words: str, **more: int) -> list[tuple[str, str]]:
            steps = (await talk.get("/api/steps", params={"text": words, **more}))["steps"]
            return [(one["path"], one["step"]) for one in steps]

        assert await found("load") == [("crm/b", "load_items"), ("sales/a", "load_Orders")]
        assert await found("orders LOAD") == [("sales/a", "load_Orders")]
        assert await found("load", limit=1) == [("crm/b", "load_items")]
        assert await found("old_name") == []
        assert await found("") == []


@pytest.mark.req("ADV-06")
async def test_the_certificate_of_a_version_can_be_read() -> None:
    async with talking(workers=0) as talk:
        registered = await talk.register()
        told = await talk.get("/api/catalog/tests/test/certificate")

        assert told["verdict"] == "sound"
        assert told["hash"] == registered["net_hash"]


async def test_an_operator_cannot_register() -> None:
    async with talking(workers=0) as talk:
        operator = await talk.as_role(Role.OPERATOR)
        answer = await operator.post("/api/catalog", json={"source": playbook(HELLO)})

        assert answer.status_code == 403


@pytest.mark.req("SRV-09")
async def test_validate_returns_the_dialect_and_all_findings() -> None:
    async with talking(workers=0) as talk:
        good = await talk.post("/api/validate", {"source": (FIXTURES / "F-003-A.yaml").read_text()})
        bad = await talk.client.post(
            "/api/validate",
            content=playbook("workflow: [{step: start, tool: {kind: noop}, next: {arcs: [{step: x}]}}]"),
            headers={"content-type": "text/yaml"},
        )
        found = bad.json()["diagnostics"][0]

        assert (good["dialect"], good["valid"]) == ("v2-eval", True)
        assert good["steps"]
        assert bad.status_code == 200
        assert bad.json()["valid"] is False
        assert (found["code"], found["severity"]) == ("E_NEXT_REF", "error")
        assert {"line", "column", "end_line", "end_column", "message", "hint"} <= found.keys()


async def test_a_step_is_read_changed_and_inserted_as_a_form() -> None:
    async with talking(workers=0) as talk:
        kinds = {one["name"]: one for one in (await talk.get("/api/kinds"))["kinds"]}
        source = next(one for one in (await talk.get("/api/templates"))["templates"] if one["name"] == "hello")[
            "source"
        ]
        form = await talk.post("/api/steps/form", {"source": source, "step": "start"})
        same = await talk.post("/api/steps/change", {"source": source, "form": form})
        step = {"name": "ask", "kind": "http", "after": "end", "inputs": {"url": "http://127.0.0.1/", "method": "GET"}}
        more = await talk.post("/api/steps/insert", {"source": source, "step": step})
        outline = await talk.post("/api/validate", {"source": more["source"]})
        broken = await talk.client.post("/api/steps/form", json={"source": "a: [", "step": "start"})
        taken = await talk.client.post("/api/steps/insert", json={"source": more["source"], "step": step})

        assert [one["control"] for one in kinds["http"]["inputs"]][:2] == ["text", "choice"]
        assert (same["source"], same["changed"]) == (source, False)
        assert [one["name"] for one in outline["steps"]][-1] == "ask"
        assert (broken.status_code, taken.status_code) == (422, 422)
        assert broken.json()["diagnostics"]
        assert "already" in taken.json()["detail"]


async def test_kinds_come_in_groups_with_common_ones_first() -> None:
    async with talking(workers=0) as talk:
        kinds = (await talk.get("/api/kinds"))["kinds"]

        groups = [group for group, _ in itertools.groupby(kinds, lambda one: one["group"])]
        assert (kinds[0]["name"], kinds[0]["group"]) == ("http", "HTTP and APIs")
        assert len(groups) == len(set(groups))  # what belongs together is in one place
        assert {one["name"]: one["group"] for one in kinds}["postgres"] == "Databases"
        assert [one["name"] for one in kinds if not one["doc"]] == []


async def test_the_simplest_template_comes_first() -> None:
    async with talking(workers=0) as talk:
        templates = (await talk.get("/api/templates"))["templates"]

        lengths = [one["source"].count("\n") for one in templates]
        assert lengths == sorted(lengths)
        assert len(templates) > 10


async def test_playbooks_are_formatted_migrated_and_drawn() -> None:
    async with talking(workers=0) as talk:
        formatted = await talk.post("/api/format", {"source": "b:   1\na: 2\n"})
        migrated = await talk.post("/api/migrate", {"source": (FIXTURES / "F-000-E.yaml").read_text()})
        drawn = {
            form: await talk.client.post("/api/graph", json={"source": playbook(HELLO), "format": form})
            for form in ("svg", "json", "mermaid", "dot", "text")
        }
        broken = await talk.client.post("/api/graph", json={"source": "a: 1"})

        assert formatted["changed"] is True
        assert "kind: Playbook" in migrated["source"]
        assert {one.status_code for one in drawn.values()} == {200}
        assert drawn["svg"].text.startswith("<svg")
        assert drawn["json"].json()["layout"]
        assert broken.status_code == 422
        assert broken.json()["diagnostics"]


async def test_the_schema_is_served() -> None:
    async with talking(workers=0) as talk:
        assert (await talk.get("/api/schema"))["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.req("SRV-09")
async def test_the_openapi_description_has_every_route_and_every_referenced_schema() -> None:
    async with talking(workers=0) as talk:
        api = await talk.get("/openapi.json")
        schemas = api["components"]["schemas"]

        assert api["openapi"].startswith("3.1")
        for path in ("/api/catalog", "/api/validate", "/api/render", "/api/executions", "/api/orders/turn"):
            assert path in api["paths"]
        for tail in ("events", "tokens", "result", "ctx", "vars", "pause", "resume", "cancel"):
            assert f"/api/executions/{{execution_id}}/{tail}" in api["paths"]
        body = api["paths"]["/api/orders/turn"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": "#/components/schemas/Turn"}
        for reference in _references(api):
            assert reference.rpartition("/")[2] in schemas, reference


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()


async def test_the_openapi_page_loads_nothing_from_other_hosts() -> None:
    async with talking(workers=0) as talk:
        page = await talk.client.get("/openapi")
        script = await talk.client.get("/openapi/docs.js")
        style = await talk.client.get("/openapi/docs.css")

        assert page.headers["content-type"].startswith("text/html")
        assert "script-src 'self'" in page.headers["content-security-policy"]
        for text in (page.text, script.text, style.text):
            assert "http://" not in text
            assert "https://" not in text
        assert "<script>" not in page.text
        assert "innerHTML" not in script.text


async def test_metrics_are_served_for_prometheus() -> None:
    async with talking() as talk:
        await talk.ran()
        text = (await talk.client.get("/metrics")).text

        for line in (
            "noetl_executions_started_total 1.0",
            'noetl_executions_ended_total{status="completed"} 1.0',
            'noetl_executions{status="running"} 0.0',
            'noetl_orders{state="ready"} 0.0',
            'noetl_orders{state="leased"} 0.0',
        ):
            assert line in text
        for name in ("noetl_events_total", "noetl_commit_seconds_count", "noetl_event_loop_lag_seconds"):
            assert name in text


async def test_health_needs_no_token() -> None:
    async with talking(workers=0) as talk, talk.with_token(None) as stranger:
        assert (await stranger.get("/api/health/live")).status_code == 200
        assert (await stranger.get("/api/health/ready")).status_code == 200
        assert (await stranger.get("/metrics")).status_code == 401
        assert (await stranger.get("/openapi.json")).status_code == 401
        talk.services.stopping = True
        assert (await stranger.get("/api/health/ready")).status_code == 503


async def test_credentials_are_stored_and_never_returned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    async with talking(workers=0) as talk:
        put = await talk.client.put("/api/credentials/pg", json={"value": "correct-horse", "type": "text"})
        again = await talk.client.put("/api/credentials/pg", json={"value": "battery-staple"})
        wrong = await talk.client.put("/api/credentials/pg", json={"value": "x", "type": "postgres"})
        moved = await talk.post("/api/credentials/rotate")
        listed = await talk.client.get("/api/credentials")
        gone = await talk.client.delete("/api/credentials/pg")

        assert [put.status_code, again.status_code, wrong.status_code] == [200, 200, 422]
        assert again.json()["version"] == 2
        assert moved["moved"] == 1
        assert listed.json()["credentials"][0]["key_id"] == moved["key_id"]
        for answer in (put, again, listed):
            assert "horse" not in answer.text
            assert "staple" not in answer.text
        assert gone.status_code == 204


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/api/credentials/pg", {"value": "correct-horse"}),
        ("POST", "/api/credentials/rotate", None),
        ("POST", "/api/credentials/pg/test", {}),
    ],
)
async def test_a_server_without_a_master_key_refuses_what_needs_one_and_names_the_way_out(
    method: str, path: str, body: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from noetl.server.configuration import ServerSettings

    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    async with talking(workers=0) as talk:
        talk.services.settings = ServerSettings(db=":memory:")
        answer = await talk.client.request(method, path, json=body)

        # A 503 would invite clients to try again, which cannot help.
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:noetl:problem:no-master-key"
        assert "NOETL_MASTER_KEY" in answer.json()["detail"]


async def test_incidents_are_listed() -> None:
    async with talking(workers=0) as talk:
        incident = {"record": "order 1", "problem": "it broke", "failures": 5, "since": 1.0, "last": 2.0}
        await talk.services.store.key_values.put("incident", "order 1", json.dumps(incident).encode(), over=0, at=2.0)
        (told,) = (await talk.get("/api/incidents"))["incidents"]

        assert (told["record"], told["failures"], told["since"]) == ("order 1", 5, "1970-01-01T00:00:01.000000Z")
        assert "noetl_incidents 1.0" in (await talk.client.get("/metrics")).text


WARNED = (
    playbook(HELLO).replace("noetl.io/v10", "noetl.io/v2").replace("  - step: end\n", "  - step: end\n    owner: me\n")
)


@pytest.mark.req("VAL-19", "SRV-10")
async def test_registering_and_starting_return_the_warnings() -> None:
    async with talking(workers=0) as talk:
        registered = await talk.client.post("/api/catalog", json={"source": WARNED})
        begun = [await talk.client.post("/api/executions", json={"path": "tests/test"}) for _ in range(2)]

        assert registered.status_code == 201
        told = [one["diagnostics"] for one in (registered.json(), *(one.json() for one in begun))]
        assert [[one["code"] for one in each if one["severity"] == "warning"] for each in told] == [
            ["W_UNKNOWN_KEY"]
        ] * 3


@pytest.mark.req("VAL-19", "SRV-10")
async def test_warnings_are_refused_if_a_client_or_the_server_is_strict() -> None:
    async with talking(workers=0) as talk, talking(workers=0, strict=True) as strict:
        asked = await talk.client.post("/api/catalog", json={"source": WARNED, "strict": True})
        required = await strict.client.post("/api/catalog", json={"source": WARNED})
        clean = await strict.client.post("/api/catalog", json={"source": playbook(HELLO)})

        assert [one.status_code for one in (asked, required, clean)] == [422, 422, 201]


OLDER = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: t, path: tests/older}
workflow:
  - step: start
    when: "{{ true }}"
    tool: {kind: noop}
"""


@pytest.mark.req("MIG-05")
@pytest.mark.parametrize(
    ("mistake", "migration"),
    [
        ("tool: {kind: noop}", None),
        ("tool: {knd: noop}", None),
        ('when: "{{ true }}"\n    tool: {kind: noop}', "migrated"),
    ],
)
async def test_a_misspelling_in_a_v10_text_suggests_no_migration(mistake: str, migration: str | None) -> None:
    text = OLDER.replace('when: "{{ true }}"\n    tool: {kind: noop}', mistake)
    async with talking(workers=0) as talk:
        told = await talk.post("/api/validate", {"source": text})

        assert (told["dialect"], told["valid"], told["migration"]) == (
            "v10",
            mistake == "tool: {kind: noop}",
            migration,
        )


@pytest.mark.req("MIG-05", "SRV-10")
async def test_a_refusal_suggests_a_migration_and_the_migrated_text_is_accepted() -> None:
    async with talking(workers=0) as talk:
        refused = await talk.client.post("/api/catalog", json={"source": OLDER})
        migrated = await talk.post("/api/migrate", {"source": OLDER})
        accepted = await talk.client.post("/api/catalog", json={"source": migrated["source"]})
        at_once = await talk.client.post("/api/catalog", json={"source": OLDER, "migrate": True})

        assert (refused.status_code, refused.json()["migration"]) == (422, "migrated")
        assert (migrated["outcome"], migrated["blocked"]) == ("migrated", [])
        assert (accepted.status_code, at_once.status_code) == (201, 200)
        assert at_once.json()["migrated"] is True


async def test_a_server_tests_a_credential_without_returning_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    with MailServer() as mail:
        async with talking(workers=0) as talk:
            stored = {
                "mail": mail.auth,
                "wrong": {**mail.auth, "port": free_port(), "password": "correct-horse-battery"},
            }
            for name, value in stored.items():
                await talk.client.put(f"/api/credentials/{name}", json={"value": value, "type": "email"})
            reached = await talk.post("/api/credentials/mail/test", {})
            wrong = await talk.client.post("/api/credentials/wrong/test", json={})
            absent = await talk.client.post("/api/credentials/nothing/test", json={})
            author = await talk.as_role(Role.AUTHOR)
            refused = await author.post("/api/credentials/mail/test", json={})

    assert str(mail.auth["port"]) in reached["reached"]
    assert [wrong.status_code, absent.status_code, refused.status_code] == [409, 404, 403]
    assert "horse" not in wrong.text
    assert mail.messages == []


async def test_a_credential_test_obeys_the_address_policy_of_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    with MailServer() as mail:
        store = MemoryStore()
        async with talking(workers=0, store=store) as talk:
            await talk.client.put("/api/credentials/mail", json={"value": mail.auth, "type": "email"})
        async with talking(workers=0, store=store, local=False) as talk:
            told = await talk.client.post("/api/credentials/mail/test", json={})

    assert told.status_code == 409
    assert "--allow-address 127.0.0.1" in told.json()["detail"]
