"""Limits over HTTP: of playbooks and of steps, changed live, with roles, audited, the same twice (beyond.md §5)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.client.async_client import AsyncClient
from noetl.client.blocking_client import Client
from noetl.operations.administration_shapes import Role
from tests.server.held_executions import until_status
from tests.server.talking import Talk, talking

PATH = "tests/test"
ONE_AT_ONCE = """
executor: {spec: {concurrency: {limit: 1}}}
workflow:
  - step: start
    timer: {duration: 1h}
"""
STEPS = """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: nap}, {step: nap}, {step: nap}, {step: call}, {step: call}]}
  - {step: nap, spec: {concurrency: {limit: 1}}, timer: {duration: 1h}}
  - {step: call, spec: {rate: {limit: 1, per: 1h}}, timer: {duration: 1h}}
"""


async def put(talk: Talk, url: str, body: Any, status: int = 200) -> dict[str, Any]:
    answer = await talk.client.put(url, json=body)
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def begun(talk: Talk, text: str, count: int = 1) -> list[str]:
    await talk.register(text)
    return [str((await talk.start(PATH))["execution_id"]) for _ in range(count)]


async def test_a_playbook_limit_is_raised_and_reset_while_executions_wait() -> None:
    async with talking() as talk:
        one, two, three = await begun(talk, ONE_AT_ONCE, 3)
        await until_status(talk, two, "paused")

        told = await put(talk, f"/api/limits/{PATH}", {"limit": 2, "reason": "the window is open"})
        again = await put(talk, f"/api/limits/{PATH}", {"limit": 2})

        expected = {"path": PATH, "key": None, "written": 1, "limit": 2, "running": 2, "waiting": 1}
        assert told == {"changed": True, "limits": [expected]}
        assert again["changed"] is False
        await until_status(talk, two, "running")
        assert (await talk.get("/api/limits"))["limits"] == [expected]
        assert (await talk.get("/api/limits?path=tests/other"))["limits"] == []

        reset = await talk.client.delete(f"/api/limits/{PATH}")
        assert reset.json() == {"changed": True, "limits": [{**expected, "limit": None}]}
        assert (await talk.client.delete(f"/api/limits/{PATH}")).json()["changed"] is False
        assert (await talk.get(f"/api/executions/{three}"))["status"] == "paused"
        assert (await talk.get(f"/api/executions/{one}"))["status"] == "running"


async def test_limit_and_rate_of_a_step_are_changed_in_one_execution() -> None:
    async with talking() as talk:
        [execution_id] = await begun(talk, STEPS)
        url = f"/api/executions/{execution_id}/limits"

        told = await put(talk, f"{url}/nap", {"limit": 3})
        again = await put(talk, f"{url}/nap", {"limit": 3})
        paced = await put(talk, f"{url}/call", {"rate": {"limit": 5, "per": 60}})

        assert told["changed"] is True
        assert {name: told["limit"][name] for name in ("written", "limit", "running", "waiting")} == {
            "written": 1,
            "limit": 3,
            "running": 3,
            "waiting": 0,
        }
        assert again["changed"] is False
        assert (paced["limit"]["rate"], paced["limit"]["paced"]) == ({"limit": 5, "per": 60.0}, 0)
        events = (await talk.get(f"/api/executions/{execution_id}/events?types=limit.*"))["events"]
        assert [(event["event_type"], event["step"]) for event in events] == [
            ("limit.changed", "nap"),
            ("limit.changed", "call"),
        ]

        reset = (await talk.client.delete(f"{url}/nap")).json()
        assert (reset["changed"], reset["limit"]["limit"]) == (True, None)
        assert [one["step"] for one in (await talk.get(url))["limits"]] == ["nap", "call"]


@pytest.mark.parametrize(
    ("url", "body", "status", "said"),
    [
        ("/api/limits/tests/test", {"limit": 0}, 422, "a whole number from 1 on"),
        ("/api/limits/tests/test", {"limit": "3"}, 422, "limit"),
        ("/api/limits/tests/test", {}, 422, "limit"),
        ("/api/limits/tests/none", {"limit": 1}, 404, "tests/none"),
        ("/api/executions/{id}/limits/nap", {"limit": 0}, 422, "a whole number from 1 on"),
        ("/api/executions/{id}/limits/nap", {"rate": {"limit": 1, "per": 0}}, 422, "longer than nothing"),
        ("/api/executions/{id}/limits/nap", {"rate": {"limit": 1}}, 422, "per"),
        ("/api/executions/{id}/limits/nap", {"lmit": 1}, 422, "lmit"),
        ("/api/executions/{id}/limits/wrk", {"limit": 1}, 404, 'no step "wrk"'),
        ("/api/executions/none/limits/nap", {"limit": 1}, 404, "none"),
    ],
)
async def test_an_invalid_limit_is_a_problem_with_its_reason(url: str, body: Any, status: int, said: str) -> None:
    async with talking() as talk:
        [execution_id] = await begun(talk, STEPS)

        answer = await talk.client.put(url.format(id=execution_id), json=body)

        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert said in answer.json()["detail"]


async def test_an_ended_execution_has_no_limits_to_change() -> None:
    async with talking() as talk:
        [execution_id] = await begun(talk, STEPS)
        await talk.post(f"/api/executions/{execution_id}/cancel", {})

        await put(talk, f"/api/executions/{execution_id}/limits/nap", {"limit": 2}, 409)


async def test_operators_change_limits_viewers_see_them_and_changes_are_audited() -> None:
    async with talking() as talk:
        [execution_id] = await begun(talk, STEPS)
        viewer, operator = await talk.as_role(Role.VIEWER), await talk.as_role(Role.OPERATOR)
        urls = [f"/api/limits/{PATH}", f"/api/executions/{execution_id}/limits/nap"]

        for url in urls:
            assert (await viewer.put(url, json={"limit": 2})).status_code == 403
            assert (await viewer.delete(url)).status_code == 403
            assert (await operator.put(url, json={"limit": 2})).status_code == 200
        assert (await viewer.get("/api/limits")).status_code == 200

        rows = (await talk.get("/api/audit"))["rows"]
        assert [
            (row["actor"], row["object"]) for row in rows if row["outcome"] == "200" and "limits" in row["object"]
        ] == [("a operator", url) for url in reversed(urls)]


def test_both_clients_have_the_limit_methods() -> None:
    names = [
        "playbook_limits",
        "limit_playbook",
        "reset_playbook_limit",
        "step_limits",
        "limit_step",
        "reset_step_limit",
    ]

    assert all(callable(getattr(of, name)) for of in (Client, AsyncClient) for name in names)
