"""Connections are lost and servers restarted: nothing is lost with them, and nothing is stored twice (EVT-06, F4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg  # type: ignore[import-untyped]
import msgspec
import pytest
import pytest_asyncio

from noetl.base.errors import BackendError
from noetl.operations.embedded import run_net
from noetl.store.contract import Commit, ConflictError
from noetl.store.open_store import open_records
from noetl.store.postgres.database import UncertainError
from noetl.store.postgres.store import PostgresStore
from noetl.store.waits import MessageRow
from noetl.tools.registry import Registry
from tests.contracts.commits import commit, event, order
from tests.contracts.stores import fresh_url
from tests.engine_script import net_of
from tests.playbook_runs import Scripted
from tests.servers.cutting import Line, cutting
from tests.servers.postgres import Server, server

MARK = "0123456789abcdef"  # in each commit of a test, so that its line knows which request to cut


@pytest_asyncio.fixture
async def line() -> AsyncIterator[Line]:
    async with cutting(server().socket) as line:
        line.at = MARK.encode()
        yield line


@pytest_asyncio.fixture
async def store(line: Line) -> AsyncIterator[PostgresStore]:
    direct = fresh_url()
    database, schema = direct.partition("@/")[2].partition("?")[0], direct.rpartition("search_path=")[2]
    opened = await PostgresStore.open(line.url(database, schema))
    opened._db.patience_s = 60.0
    yield opened
    await opened.close()


def marked(seq: int, *, after: int) -> Commit:
    return commit(event(seq, event_id=f"{MARK}{seq}"), after=after, orders=(order(),))


@pytest.mark.req("EVT-06")
@pytest.mark.parametrize("lost", ["cut_request", "cut_answer"])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_commit_without_acknowledgement_is_stored_once(
    store: PostgresStore, line: Line, lost: str, times: int
) -> None:
    await store.commit([commit(event(1))])
    setattr(line, lost, times)

    await store.commit([marked(2, after=1)])
    await store.commit([marked(3, after=2)])

    assert [one.seq for one in await store.events("x1")] == [1, 2, 3]
    assert line.cuts == times


@pytest.mark.req("EVT-06", "SRV-05")
@pytest.mark.parametrize("lost", ["cut_request", "cut_answer"])
async def test_a_first_commit_without_acknowledgement_is_stored_once(
    store: PostgresStore, line: Line, lost: str
) -> None:
    setattr(line, lost, 1)

    await store.commit([marked(1, after=0)])

    assert [one.event_id for one in await store.events("x1")] == [f"{MARK}1"]
    assert line.cuts == 1


@pytest.mark.req("MSG-02")
@pytest.mark.parametrize("lost", ["cut_request", "cut_answer"])
async def test_a_commit_of_several_statements_without_acknowledgement_is_stored_once(
    store: PostgresStore, line: Line, lost: str
) -> None:
    await store.waits.keep(MessageRow(message_id="m1", name="n", sent_at=1.0, expires_at=9.0))
    setattr(line, lost, 1)

    await store.commit([msgspec.structs.replace(marked(1, after=0), taken_messages=("m1",))])

    message = await store.waits.message("m1")
    assert message is not None
    assert message.taken_by == "x1"
    assert len(await store.events("x1")) == 1


async def test_another_commit_in_place_of_a_lost_one_is_a_conflict(
    store: PostgresStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.commit([commit(event(1))])
    line.cut_request = 1
    write = store._db.write

    async def overtaken(work: Any) -> object:
        try:
            return await write(work)
        except UncertainError:
            await write(_other_step)
            raise

    async def _other_step(connection: object) -> None:
        from noetl.store.postgres.store import Written

        await Written([commit(event(2, event_id="another"), after=1)]).write(connection)

    monkeypatch.setattr(store._db, "write", overtaken)

    with pytest.raises(ConflictError, match="has moved past event 1"):
        await store.commit([marked(2, after=1)])

    assert [one.event_id for one in await store.events("x1")] == ["e1", "another"]


async def test_a_commit_with_unknown_outcome_raises_an_uncertain_error_after_the_timeout(
    store: PostgresStore, line: Line
) -> None:
    """Whoever decides anew has to read the log first, as after every conflict."""
    await store.commit([commit(event(1))])
    usual_s, store._db.patience_s = store._db.patience_s, 0.2
    line.cut_answer = 99

    with pytest.raises(UncertainError, match="may be stored or not"):
        await store.commit([marked(2, after=1)])

    line.cut_answer, store._db.patience_s = 0, usual_s
    assert len(await store.events("x1")) == 2


async def test_reads_wait_for_the_server_to_return(store: PostgresStore, line: Line) -> None:
    await store.commit([commit(event(1))])
    line.is_down = True
    line.drop()
    reading = asyncio.create_task(store.execution("x1"))
    done, _ = await asyncio.wait({reading}, timeout=0.15)
    assert not done

    line.is_down = False

    row = await reading
    assert row is not None
    assert row.last_seq == 1


async def test_other_writes_are_sent_once_and_reported_as_uncertain(store: PostgresStore, line: Line) -> None:
    line.cut_answer = 1

    with pytest.raises(UncertainError, match="may be stored or not"):
        await store.key_values.put("token", MARK, b"{}", over=0, at=1.0)

    assert await store.key_values.get("token", MARK) is not None
    assert line.cuts == 1


async def test_a_store_that_stays_unavailable_is_reported_in_one_sentence(store: PostgresStore, line: Line) -> None:
    store._db.patience_s = 0.1
    line.is_down = True
    line.drop()

    for asked in (store.execution("x1"), store.commit([commit(event(1))]), store.key_values.get("a", "b")):
        with pytest.raises(BackendError, match=r"cannot be reached|may be stored or not"):
            await asked


@pytest.mark.req("EVT-06")
async def test_a_server_restart_during_a_run_of_commits_loses_nothing() -> None:
    own = Server()
    try:
        store = await PostgresStore.open(f"postgresql://postgres@/postgres?{urlencode({'host': own.socket})}")
        store._db.patience_s = 100.0
        begun, restarted = asyncio.Event(), asyncio.Event()

        async def committing() -> None:
            await store.commit([commit(event(1))])
            seq = 1
            while not restarted.is_set() or seq < 50:
                seq += 1
                await store.commit([commit(event(seq), after=seq - 1)])
                begun.set()
            assert [one.seq for one in await store.events("x1")] == list(range(1, seq + 1))

        running = asyncio.create_task(committing())
        await begun.wait()
        await asyncio.to_thread(own.restart)
        restarted.set()
        await running
        await store.close()
    finally:
        own.stop()


CHAIN = """
workflow:
  - {step: start, tool: {name: a, kind: python, code: x}, next: {arcs: [{step: two}]}}
  - {step: two, loop: {in: [1, 2, 3], iterator: n}, tool: {name: b, kind: python, code: x}, next: {arcs: [{step: end}]}}
  - {step: end, tool: {name: c, kind: python, code: x}}
"""


@pytest.mark.req("EVT-06", "EVT-02")
@pytest.mark.parametrize("lost", ["cut_request", "cut_answer"])
@pytest.mark.parametrize("at", [b"playbook.execution_requested", b"task.processed", b"workflow.finished"])
async def test_a_run_survives_lost_database_connections(
    line: Line, lost: str, at: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    direct, tool = fresh_url(), Scripted(a=1, b=2, c=3)
    url = line.url(direct.partition("@/")[2].partition("?")[0], direct.rpartition("search_path=")[2])
    line.at = at
    setattr(line, lost, 2)

    result = await run_net(net_of(CHAIN), payload={}, db=url, tools=Registry({"python": tool}))

    records = await open_records(direct)
    events = await records.events(result.execution_id)
    await records.close()
    assert result.ok
    assert line.cuts == 2
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [task for task, _ in tool.calls] == ["a", "b", "b", "b", "c"], "nothing was done twice"


async def test_a_cancelled_request_ends_even_if_its_connection_breaks(store: PostgresStore) -> None:
    """The driver tells of the connection then, not of the cancellation; who asked again would be waited for in vain."""
    begun = asyncio.Event()

    async def broken(_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed") from None

    reading = asyncio.create_task(store._db.read(broken))
    await begun.wait()
    reading.cancel()
    await asyncio.wait({reading})

    assert reading.cancelled()
