"""A broker may be lost with its data: then wake-ups are late, and nothing else changes (reliability.md §0.2, 3.2)."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from noetl.store import nats_wakeups
from noetl.store import wakeups as wakeups_module
from noetl.store.nats_wakeups import WakeupMessage, nats_dispatch
from noetl.store.wakeups import LinkedWakeups, Wakeups, postgres_dispatch
from tests.servers import postgres
from tests.servers.nats import Server
from tests.servers.ports import free_port


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups_module, "LONGEST_S", 0.1)
    monkeypatch.setattr(nats_wakeups, "TRIAL_S", 0.1)


async def wakes(sender: Wakeups, waiting: Wakeups) -> None:
    """Send wake-ups repeatedly, as a server with work does, until the other one receives one."""

    async def send() -> None:
        while True:
            sender.notify_workers()
            await asyncio.sleep(0.05)

    again = asyncio.create_task(send())
    try:
        async with asyncio.timeout(60):
            while not await waiting.wait(["default"], timeout=1):
                pass
    finally:
        again.cancel()


async def pair(make: Any) -> tuple[LinkedWakeups, LinkedWakeups]:
    both = make(), make()
    for wakeups in both:
        await wakeups.open()
        await asyncio.wait_for(wakeups.linked(), 60)
    return both


async def closed(*links: LinkedWakeups) -> None:
    for wakeups in links:
        await wakeups.close()


async def unlinked(wakeups: LinkedWakeups) -> None:
    async with asyncio.timeout(60):
        while wakeups.is_linked:
            await asyncio.sleep(0.01)


async def test_wake_ups_recover_after_the_stream_was_deleted() -> None:
    server = Server()
    first, second = await pair(lambda: nats_dispatch(server.url))
    client = Client()
    await client.connect(server.url, connect_timeout=60)
    try:
        await client.jetstream(timeout=60).delete_stream(nats_wakeups.STREAM)

        await wakes(first, second)
        await wakes(second, first)
    finally:
        await client.close()
        await closed(first, second)
        server.stop()


async def test_wake_ups_recover_after_the_server_was_killed_and_its_data_deleted() -> None:
    port = str(free_port())
    server = Server("-p", port)
    first, second = await pair(lambda: nats_dispatch(server.url))
    server.process.kill()
    server.process.wait()
    shutil.rmtree(server.folder / "data")
    await unlinked(first)
    first.notify_workers()  # neither waits nor fails
    assert not await second.wait(["other"], timeout=0.01)
    again = subprocess.Popen(
        [Path(sys.executable).parent / "nats-server", "-js", "-a", "127.0.0.1", "-p", port, "-sd", server.folder / "n"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await wakes(first, second)
    finally:
        await closed(first, second)
        again.kill()
        again.wait()
        server.stop()


async def test_without_a_broker_wake_ups_work_within_the_process() -> None:
    wakeups = nats_dispatch("nats://127.0.0.1:1")
    await wakeups.open()
    waiting = asyncio.create_task(wakeups.wait(["default"], timeout=60))
    await asyncio.sleep(0)
    wakeups.notify_workers()

    assert await waiting
    assert not wakeups.is_linked
    await wakeups.close()


async def test_wake_ups_recover_after_the_connection_to_postgres_was_closed() -> None:
    auth = postgres.server().auth("postgres")
    arguments = {**auth, "server_settings": {"application_name": "wakeups"}}
    first, second = await pair(lambda: postgres_dispatch(arguments, channel="cut"))

    killed = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'wakeups'"
    assert int(postgres.server().ask(killed)) >= 2, "one that was given up may still be there"
    await unlinked(first)

    await wakes(first, second)
    await closed(first, second)


def test_a_wake_up_message_is_small_and_names_only_the_pool() -> None:
    import msgspec

    body = msgspec.json.encode(WakeupMessage(pool="p" * 120, times=1_000, sender="0" * 8))

    assert len(body) < 200
    assert set(msgspec.json.decode(body)) == {"pool", "times", "from"}
