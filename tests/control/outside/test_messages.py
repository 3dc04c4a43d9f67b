"""Operators delete undelivered messages: a message is delivered or deleted, and executions that wait go on waiting
(MSG-02, MSG-03)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import NotFoundError, RefusedError, SettledError
from noetl.control.commit import group_commit
from noetl.control.outside import delivery
from noetl.operations.waits import delete_message as remove
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from noetl.store.waits import MessageRow
from tests.control.waiting import MESSAGE, ControlPlane


@pytest.fixture(params=["memory", "sqlite"])
async def control_plane(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    store = MemoryStore() if request.param == "memory" else SqliteStore.open(tmp_path / "s.db")
    yield ControlPlane(store, shared=True)
    await store.close()


@pytest.mark.req("MSG-02", "MSG-03")
async def test_a_removed_message_is_not_delivered_and_a_delivered_one_is_not_removed(
    control_plane: ControlPlane,
) -> None:
    now = control_plane.clock.now()
    await control_plane.deliveries.send_message("paid", {"order": 7}, message_id="m1")
    await remove(control_plane.store.waits, "m1", now=now)

    await control_plane.start(MESSAGE)
    await control_plane.message_queue.sweep()

    assert "message.received" not in await control_plane.types()
    with pytest.raises(NotFoundError, match='there is no message "m1" here'):
        await remove(control_plane.store.waits, "m1", now=now)
    assert (await control_plane.deliveries.send_message("paid", {"order": 7}, message_id="m2")).delivered_to == "x1"
    with pytest.raises(SettledError, match='"m2" was delivered to execution x1'):
        await remove(control_plane.store.waits, "m2", now=now)
    assert "message.received" in await control_plane.types()


@pytest.mark.req("MSG-03")
async def test_a_full_inbox_names_a_command_that_frees_it(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MOST_KEPT", 2)
    for number in (1, 2):
        await control_plane.deliveries.send_message("is it paid", message_id=f"m{number}")

    with pytest.raises(RefusedError) as refused:
        await control_plane.deliveries.send_message("is it paid", message_id="m3")

    for command in ("noetl message list --name 'is it paid'", "noetl message delete --name 'is it paid'"):
        assert command in str(refused.value)
    assert await control_plane.store.waits.remove_named("is it paid", now=control_plane.clock.now()) == 2
    assert not (await control_plane.deliveries.send_message("is it paid", message_id="m3")).known


@pytest.mark.req("MSG-02")
async def test_messages_removed_during_delivery_do_not_delay_others(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks has read a list of which nothing is left. Each vain handing is tried many times over: one of them
    is enough to know that the list is old, and the next look finds what came since."""
    monkeypatch.setattr(group_commit, "_MOST_TRIES", 1)
    now = control_plane.clock.now()
    await control_plane.start(MESSAGE)
    waits = control_plane.store.waits
    gone = [
        MessageRow(message_id=f"m{n}", name="paid", correlation={"order": 7}, sent_at=now, expires_at=now + 60)
        for n in range(100)
    ]
    read: list[str] = []

    async def stale(name: str, *, now: float) -> list[MessageRow]:
        read.append(name)
        return gone

    real = waits.stored_messages
    monkeypatch.setattr(waits, "stored_messages", stale)
    tried = _tries(control_plane, monkeypatch)
    await control_plane.deliveries.look_for(await waits.waiting("message", "paid"))
    assert (read, len(tried), await control_plane.deliveries.deliver(gone[0])) == (["paid"], 1, None)

    monkeypatch.setattr(waits, "stored_messages", real)
    await waits.keep(gone[5])
    await control_plane.message_queue.sweep()

    kept = await waits.message("m5")
    assert kept is not None
    assert kept.taken_by == "x1"


def _tries(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whom the control plane is told to tell something, as it happens."""
    told: list[str] = []
    tell = control_plane.executions.submit

    async def telling(execution_id: str, command: Any) -> object:
        told.append(execution_id)
        return await tell(execution_id, command)

    monkeypatch.setattr(control_plane.executions, "submit", telling)
    return told
