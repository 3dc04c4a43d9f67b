"""Messages that were kept and are taken away by hand: one wins, and whoever waits goes on waiting (MSG-02, MSG-03)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.errors import NotFoundError, RefusedError, SettledError
from noetl.orchestrator import deliveries, rounds
from noetl.orchestrator.kept_messages import remove
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from noetl.store.waits import MessageRow
from tests.orchestrator.waiting import MESSAGE, Office


@pytest.fixture(params=["memory", "sqlite"])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Office:
    store = MemoryStore() if request.param == "memory" else SqliteStore.open(tmp_path / "s.db")
    return Office(store, shared=True)


@pytest.mark.req("MSG-02", "MSG-03")
async def test_a_removed_message_reaches_nobody_and_a_delivered_one_stays(office: Office) -> None:
    now = office.clock.now()
    await office.deliveries.send_message("paid", {"order": 7}, message_id="m1")
    await remove(office.store.waits, "m1", now=now)

    await office.start(MESSAGE)
    await office.mailroom.sweep()

    assert "message.received" not in await office.types()
    with pytest.raises(NotFoundError, match='no message "m1" is kept here'):
        await remove(office.store.waits, "m1", now=now)
    assert (await office.deliveries.send_message("paid", {"order": 7}, message_id="m2")).delivered_to == "x1"
    with pytest.raises(SettledError, match='"m2" was delivered to execution x1'):
        await remove(office.store.waits, "m2", now=now)
    assert "message.received" in await office.types()


@pytest.mark.req("MSG-03")
async def test_a_full_inbox_names_the_way_out_and_the_way_leads_out(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "MOST_KEPT", 2)
    for number in (1, 2):
        await office.deliveries.send_message("is it paid", message_id=f"m{number}")

    with pytest.raises(RefusedError) as refused:
        await office.deliveries.send_message("is it paid", message_id="m3")

    for command in ("noetl message list --name 'is it paid'", "noetl message delete --name 'is it paid'"):
        assert command in str(refused.value)
    assert await office.store.waits.remove_named("is it paid", now=office.clock.now()) == 2
    assert not (await office.deliveries.send_message("is it paid", message_id="m3")).known


@pytest.mark.req("MSG-02")
async def test_messages_that_are_removed_while_they_are_handed_over_hold_nobody_up(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks has read a list of which nothing is left. Each vain handing is tried many times over: one of them
    is enough to know that the list is old, and the next look finds what came since."""
    monkeypatch.setattr(rounds, "_MOST_TRIES", 1)
    now = office.clock.now()
    await office.start(MESSAGE)
    waits = office.store.waits
    gone = [
        MessageRow(message_id=f"m{n}", name="paid", correlation={"order": 7}, sent_at=now, expires_at=now + 60)
        for n in range(100)
    ]
    read: list[str] = []

    async def stale(name: str, *, now: float) -> list[MessageRow]:
        read.append(name)
        return gone

    real = waits.kept
    monkeypatch.setattr(waits, "kept", stale)
    tried = _tries(office, monkeypatch)
    await office.deliveries.look_for(await waits.waiting("message", "paid"))
    assert (read, len(tried), await office.deliveries.deliver(gone[0])) == (["paid"], 1, None)

    monkeypatch.setattr(waits, "kept", real)
    await waits.keep(gone[5])
    await office.mailroom.sweep()

    kept = await waits.message("m5")
    assert kept is not None
    assert kept.taken_by == "x1"


def _tries(office: Office, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whom the conductor is told to tell something, as it happens."""
    told: list[str] = []
    tell = office.conductor.tell

    async def telling(execution_id: str, command: object) -> object:
        told.append(execution_id)
        return await tell(execution_id, command)  # type: ignore[arg-type]

    monkeypatch.setattr(office.conductor, "tell", telling)
    return told
