"""A process killed in the middle of a run, and the run taken up by another (WRK-04, O-06, SRV-12).

The victim is a real process with a real file. It tells us when its second task has begun, and is killed then.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.base.errors import RefusedError
from noetl.events.envelope import Event
from noetl.events.tasks import TaskStarted
from noetl.operations.embedded import resume
from noetl.store.sqlite.store import SqliteStore
from tests.engine_script import playbook
from tests.narrowing import payloads

REPOSITORY = Path(__file__).parents[2]

VICTIM = """
import asyncio, sys
from tests.engine_script import net_of
from noetl.operations.embedded import run_net
net = net_of(open(sys.argv[1]).read())
asyncio.run(run_net(net, payload={}, db=sys.argv[2], execution_id="x1"))
"""

THREE = """
workflow:
  - step: start
    tool:
      - {{name: one, kind: python, code: "open({ledger!r}, 'a').write('one ')\\nresult = 1"}}
      - name: two
        kind: python
        code: |
          import os, time
          open({pid!r}, 'w').write(str(os.getpid()))
          open({ledger!r}, 'a').write('two ')
          while not os.path.exists({gate!r}):
              time.sleep(0.01)
          result = _prev + 1
      - {{name: three, kind: python, code: "open({ledger!r}, 'a').write('three ')\\nresult = _prev + 1"}}
"""


class Crime:
    """A run that stands in its second task until the gate is there."""

    def __init__(self, folder: Path) -> None:
        self.db, self.ledger, self.gate, self.pid = (folder / name for name in ("s.db", "ledger", "gate", "pid"))
        text = folder / "three.yaml"
        text.write_text(playbook(THREE.format(**{name: str(folder / name) for name in ("ledger", "gate", "pid")})))
        self.victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM, str(text), str(self.db)],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )

    async def until_second_task_is_recorded(self) -> None:
        async with asyncio.timeout(100):
            while [event.event_type for event in await self.events()].count("task.started") < 2:
                await asyncio.sleep(0.01)
            while "two" not in self.ledger.read_text():  # its process has begun, and said who it is
                await asyncio.sleep(0.01)

    async def events(self) -> list[Event]:
        if not self.db.exists():
            return []
        store = SqliteStore.open(self.db)
        events = await store.events("x1")
        await store.close()
        return events


@pytest.mark.req("WRK-04", "O-06")
async def test_a_killed_run_resumes_after_its_last_recorded_task(tmp_path: Path) -> None:
    crime = Crime(tmp_path)
    await crime.until_second_task_is_recorded()
    orphan = os.pidfd_open(int(crime.pid.read_text()))
    crime.victim.send_signal(signal.SIGKILL)
    crime.victim.wait()
    ended, _, _ = select.select([orphan], [], [], 60)
    os.close(orphan)
    assert ended, "the tool's process must not outlive its worker"
    crime.gate.touch()

    result = await resume("x1", db=crime.db)

    assert result.ok
    assert result.result == 3
    assert crime.ledger.read_text().split() == ["one", "two", "two", "three"]
    events = await crime.events()
    started = [one.task for one in payloads(events, TaskStarted)]
    assert started == ["one", "two", "two", "three"]
    assert [event.event_type for event in events].count("step.done") == 1


async def test_a_live_run_cannot_be_resumed_by_another_process(tmp_path: Path) -> None:
    crime = Crime(tmp_path)
    await crime.until_second_task_is_recorded()

    with pytest.raises(RefusedError, match=f"/{crime.victim.pid}/"):
        await resume("x1", db=crime.db)

    crime.gate.touch()
    assert crime.victim.wait(100) == 0


async def test_resuming_an_ended_run_returns_its_result(tmp_path: Path) -> None:
    crime = Crime(tmp_path)
    crime.gate.touch()
    crime.victim.wait(100)
    length = len(await crime.events())

    result = await resume("x1", db=crime.db)

    assert result.result == 3
    assert len(await crime.events()) == length
