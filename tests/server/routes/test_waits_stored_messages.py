"""Kept messages over the API: seen without what they say, page by page, and deleted by who may, each act audited."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.operations.administration_shapes import Role
from tests.server.talking import Talk, talking

WAITS = """
workflow:
  - step: start
    message: {name: paid, correlation: {order: 7}}
"""


async def kept(talk: Talk, query: str = "") -> list[str]:
    return [one["message_id"] for one in (await talk.get(f"/api/messages{query}"))["messages"]]


async def sent(talk: Talk, message_id: str, name: str = "paid", **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = await talk.post("/api/messages", {"name": name, "message_id": message_id, **more}, 202)
    return told


@pytest.mark.req("MSG-03")
async def test_stored_messages_are_listed_without_their_payload() -> None:
    async with talking() as talk:
        await sent(talk, "m1", correlation={"order": 7}, payload={"pin": "s3cr3t"}, ttl=60)
        viewer = await talk.as_role(Role.VIEWER)

        answer = await viewer.get("/api/messages")

        [row] = answer.json()["messages"]
        assert "s3cr3t" not in answer.text
        assert (row["message_id"], row["name"], row["correlation"]) == ("m1", "paid", {"order": 7})
        assert row["size_bytes"] == len('{"pin":"s3cr3t"}')
        assert row["sent_at"] < row["expires_at"]


@pytest.mark.req("MSG-03")
async def test_pages_are_consecutive_while_their_messages_are_deleted() -> None:
    async with talking() as talk:
        for number in range(5):
            await sent(talk, f"paid/{number}")
        await sent(talk, "b", name="billed")
        seen: list[str] = []
        cursor = ""

        while True:
            page = await talk.get("/api/messages", params={"name": "paid", "limit": 2} | _given(cursor))
            for one in page["messages"]:
                seen.append(one["message_id"])
                answer = await talk.client.delete(f"/api/messages/{one['message_id'].replace('/', '%2F')}")
                assert answer.status_code == 204
            if (cursor := page["next"]) is None:
                break

        assert seen == [f"paid/{number}" for number in (4, 3, 2, 1, 0)]
        assert await kept(talk) == ["b"]
        for wrong in ("m1", "x/m1", "nan/m1", "inf/m1", "/"):
            assert "cursor" in (await talk.get("/api/messages", 422, params={"cursor": wrong}))["detail"]


def _given(cursor: str) -> dict[str, Any]:
    return {"cursor": cursor} if cursor else {}


@pytest.mark.req("MSG-02")
async def test_deleting_a_delivered_or_unknown_message_is_reported_and_changes_nothing() -> None:
    async with talking() as talk:
        await talk.register(WAITS)
        execution_id = (await talk.start())["execution_id"]
        while not (await talk.get("/api/waits"))["waits"]:
            await asyncio.sleep(0.01)
        assert (await sent(talk, "m1", correlation={"order": 7}))["delivered_to"] == execution_id

        taken, unknown = [await talk.client.delete(f"/api/messages/{one}") for one in ("m1", "m2")]

        assert (taken.status_code, unknown.status_code) == (409, 404)
        assert f'"m1" was delivered to execution {execution_id}' in taken.json()["detail"]
        assert 'there is no message "m2" here' in unknown.json()["detail"]
        assert (await talk.client.delete("/api/messages?name=paid")).json() == {"deleted": 0}
        assert (await sent(talk, "m1", correlation={"order": 7}))["known"]


@pytest.mark.req("MSG-03")
async def test_an_operator_deletes_all_messages_of_a_name_and_it_is_audited() -> None:
    async with talking() as talk:
        for message_id, name in (("m1", "paid"), ("m2", "paid"), ("m3", "billed")):
            await sent(talk, message_id, name)
        viewer, operator = await talk.as_role(Role.VIEWER), await talk.as_role(Role.OPERATOR)

        assert (await viewer.delete("/api/messages/m1")).status_code == 403
        assert (await viewer.delete("/api/messages?name=paid")).status_code == 403
        assert (await operator.delete("/api/messages")).status_code == 422
        assert (await operator.delete("/api/messages?name=")).status_code == 422
        assert sorted(await kept(talk)) == ["m1", "m2", "m3"]
        assert (await operator.delete("/api/messages?name=paid")).json() == {"deleted": 2}
        assert (await operator.delete("/api/messages/m3")).status_code == 204

        assert await kept(talk) == []
        one, named, *_ = (await talk.get("/api/audit"))["rows"]
        assert (one["action"], one["object"], one["outcome"]) == (
            "DELETE /api/messages/{message_id:path}",
            "/api/messages/m3",
            "204",
        )
        assert (named["actor"], named["object"], named["outcome"]) == ("a operator", "/api/messages?name=paid", "200")
