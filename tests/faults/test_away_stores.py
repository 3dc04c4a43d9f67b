"""An unreachable store is not treated as an empty one: callers do not give up because nothing was found."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from noetl.base.errors import AbsentError, BackendError
from noetl.operations.administration_shapes import Role
from tests.contracts.stores import BACKENDS, opened
from tests.server.talking import talking

NET = "0" * 64


@pytest.mark.req("SRV-12", "WRK-01")
async def test_a_worker_that_requests_a_net_during_a_store_outage_is_told_to_retry() -> None:
    async with talking(workers=0) as talk:
        worker = await talk.as_role(Role.WORKER)
        with mock.patch.object(talk.services.store, "net", side_effect=BackendError("restarting")):
            away = await worker.get(f"/api/nets/{NET}")
        absent = await worker.get(f"/api/nets/{NET}")

    assert away.status_code == 503
    assert int(away.headers["retry-after"]) >= 1
    assert absent.status_code == 404


@pytest.mark.req("SRV-12")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_an_unknown_net_is_distinguished_from_an_unreachable_store(backend: str, tmp_path: Path) -> None:
    async with opened(backend, tmp_path) as store:
        with pytest.raises(AbsentError, match=f"no net {NET}"):
            await store.net(NET)
