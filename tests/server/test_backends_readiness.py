"""`/api/health/ready`: whether the server can do its work, tried on the store and not too often."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError, StoreUnwritableError
from noetl.server import backends
from noetl.server.backends import Readiness
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from tests.server.talking import talking

FULL = BackendError("the store s.db cannot be written (disk I/O error): see whether the disk is full or broken")


@pytest.mark.parametrize(("broken", "told"), [("put", "written"), ("get", "read")])
async def test_a_server_with_a_failing_store_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, broken: str, told: str
) -> None:
    monkeypatch.setattr(backends, "TRIED_EVERY_S", 0.0)
    async with talking(workers=0) as talk, talk.with_token(None) as stranger:
        before = await stranger.get("/api/health/ready")
        with mock.patch.object(type(talk.services.store.key_values), broken, side_effect=FULL):
            during = await stranger.get("/api/health/ready")
        after = await stranger.get("/api/health/ready")

    assert [one.status_code for one in (before, during, after)] == [200, 503, 200]
    assert during.json()["detail"] == f"the store cannot be {told}", "a stranger hears no more than that"


async def test_a_file_store_that_becomes_read_only_is_detected(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "TRIED_EVERY_S", 0.0)
    store = SqliteStore.open(tmp_path / "s.db")
    ready = Readiness(store, ManualClock())
    assert await ready.problem() is None
    store._db.execute("PRAGMA query_only = 1")  # what SQLite says of a disk that was remounted

    assert await ready.problem() == "the store cannot be written"
    store._db.execute("PRAGMA query_only = 0")
    assert await ready.problem() is None
    await store.close()


async def test_a_removed_or_replaced_file_store_accepts_nothing_until_it_is_back(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "TRIED_EVERY_S", 0.0)
    store, aside = SqliteStore.open(tmp_path / "s.db"), tmp_path / "aside.db"
    ready = Readiness(store, ManualClock())
    assert await ready.problem() is None

    (tmp_path / "s.db").rename(aside)
    assert await ready.problem() == "the store cannot be read"
    with pytest.raises(StoreUnwritableError, match="was removed or replaced while it was open: put it back"):
        await store.key_values.put("health", "other", b"{}", over=0, at=1.0)
    (tmp_path / "s.db").write_bytes(aside.read_bytes())
    assert await ready.problem() == "the store cannot be read"

    aside.rename(tmp_path / "s.db")
    assert await ready.problem() is None
    assert await store.key_values.get("health", "other") is None
    await store.close()


async def test_repeated_readiness_checks_write_to_the_store_once() -> None:
    store = MemoryStore()
    ready = Readiness(store, ManualClock())
    for _ in range(100):
        assert await ready.problem() is None
    probe = await store.key_values.get(backends.KIND, backends.NAME)

    assert probe is not None
    assert probe.version == 1
