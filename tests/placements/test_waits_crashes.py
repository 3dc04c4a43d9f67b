"""The fixtures that wait, stopped after every one of their commits and taken up by another process, on the stores that
outlive one (TMR-06, SRV-12). `tests/fixtures/test_runs_waits_crashes.py` says what is stopped and who speaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.net.net import Net
from tests.crash_runs import Recording
from tests.engine_script import net_of
from tests.fixtures.logs import check_log
from tests.fixtures.running import fixture
from tests.fixtures.virtual_time import run_virtually
from tests.fixtures.waits_driver import CASES, Speak, drive, messages_of, rows
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
    whole = Recording()
    undisturbed = await drive(whole, net, say, resumed=False)
    messages = await messages_of(whole)
    for length in range(1, len(whole.commits)):
        own = folder / str(length)
        own.mkdir()
        async with opened_still(backend, own) as store:
            for message in messages:
                await store.waits.keep(message)
            for commits in whole.commits[:length]:
                await store.commit(commits)
            before = await rows(store)
            await store.rebuild()
            assert await rows(store) == before, length

            execution = await drive(store, net, say, resumed=True)

            assert execution.lifecycle.status == undisturbed.lifecycle.status, length
            assert execution.variables.ctx == undisturbed.variables.ctx, length
            assert [*execution.outputs.ends] == [*undisturbed.outputs.ends], length
            assert execution.counts.step_runs_by_step == undisturbed.counts.step_runs_by_step, length
            check_log(await store.events("x1"), dialect=net.dialect, interrupted=True)
