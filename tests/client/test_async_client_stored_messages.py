"""Both clients list, page and delete undelivered messages, and report refusals in plain words (MSG-03)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.client import ApiError, AsyncClient, Client
from tests.client.serving_here import served


@pytest.mark.req("MSG-03")
async def test_the_async_client_lists_and_deletes_stored_messages(tmp_path: Path) -> None:
    async with served(tmp_path) as server, AsyncClient(server.url, server.first_token) as client:
        for message_id in ("a b/1", "a b/2", "a b/3"):
            await client.send_message("paid & more", {"order": 7}, {"sum": 3}, message_id=message_id)

        first = await client.messages(name="paid & more", limit=2)
        rest = await client.messages(name="paid & more", limit=2, cursor=first.next)
        assert [one.message_id for one in first.messages + rest.messages] == ["a b/3", "a b/2", "a b/1"]
        assert (rest.next, rest.messages[0].correlation, rest.messages[0].size_bytes) == (None, {"order": 7}, 9)

        await client.delete_message("a b/2")
        with pytest.raises(ApiError, match='no message "a b/2" here') as refused:
            await client.delete_message("a b/2")
        assert refused.value.status == 404
        assert (await client.delete_messages("paid"), await client.delete_messages("paid & more")) == (0, 2)
        assert (await client.messages()).messages == []


@pytest.mark.req("MSG-03")
async def test_the_blocking_client_lists_and_deletes_stored_messages(tmp_path: Path) -> None:
    def talk(url: str, token: str | None) -> None:
        with Client(url, token) as client:
            for message_id in ("m1", "m2"):
                client.send_message("paid", message_id=message_id)
            assert [one.message_id for one in client.messages(limit=1).messages] == ["m2"]
            client.delete_message("m2")
            with pytest.raises(ApiError, match='no message "m2" here'):
                client.delete_message("m2")
            assert (client.delete_messages("paid"), client.messages().messages) == (1, [])

    async with served(tmp_path) as server:
        await asyncio.to_thread(talk, server.url, server.first_token)
