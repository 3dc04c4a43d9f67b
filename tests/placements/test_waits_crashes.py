"""The fixtures that wait, stopped after every one of their commits and taken up by another process, on the stores that
outlive one (TMR-06, SRV-12). `tests/fixtures/test_runs_waits_crashes.py` says what is stopped and who speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from noetl.net.net import Net
from tests.engine_script import net_of
from tests.fixtures.running import fixture
from tests.fixtures.virtual_time import run_virtually
from tests.fixtures.waits_driver import CASES, Speak, stopped_after_every_commit
from tests.placements.open_waits import opened_still


@pytest.mark.req("TMR-06", "SRV-12", "EVT-07", "MSG-02", "HUM-01")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_waiting_playbook_stopped_after_any_commit_reaches_the_same_end(
    backend: str, case: str, tmp_path: Path
) -> None:
    name, say = CASES[case]
    run_virtually(_stopped_everywhere(backend, tmp_path, net_of(fixture(name)), say))


async def _stopped_everywhere(backend: str, folder: Path, net: Net, say: Speak) -> None:
    @asynccontextmanager
    async def opened(length: int) -> AsyncIterator[Any]:
        own = folder / str(length)
        own.mkdir()
        async with opened_still(backend, own) as store:
            yield store

    assert [length async for length, _ in stopped_after_every_commit(net, say, opened)]
