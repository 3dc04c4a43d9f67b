"""A parent and its child, killed in the child's task and taken up by another process (TOOL-11, SRV-12, O-05)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.operations.embedded import resume
from noetl.store.sqlite.store import SqliteStore

REPOSITORY = Path(__file__).parents[2]

VICTIM = """
import asyncio, sys
from pathlib import Path
from noetl.operations.embedded import compiled, run_net
file = Path(sys.argv[1])
asyncio.run(run_net(compiled(file), payload={}, db=sys.argv[2], execution_id="x1", origin=file))
"""

PARENT = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: parent, path: jobs/parent}
workflow:
  - step: start
    tool:
      - {name: child, kind: playbook, path: jobs/child, args: {n: 20}}
      - {name: later, kind: playbook, path: jobs/later}
      - {name: read, kind: noop, args: {a: "{{ child.data }}", b: "{{ later.data }}"}}
"""

CHILD = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {{name: child, path: jobs/child}}
workload: {{n: 1}}
workflow:
  - step: start
    tool:
      - {{name: one, kind: python, code: "open({ledger!r}, 'a').write('one ')\\nresult = 1"}}
      - name: two
        kind: python
        args: {{n: "{{{{ workload.n }}}}"}}
        code: |
          import os, time
          open({ledger!r}, 'a').write('two ')
          while not os.path.exists({gate!r}):
              time.sleep(0.01)
          result = n + _prev
"""

LATER = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: later, path: jobs/later}
workflow: [{step: start, tool: {kind: noop, args: {found: after the crash}}}]
"""


@pytest.mark.req("TOOL-11", "SRV-12")
async def test_a_resumed_parent_finds_its_child_again(tmp_path: Path) -> None:
    folder, db = tmp_path / "jobs", tmp_path / "s.db"
    folder.mkdir()
    ledger, gate = tmp_path / "ledger", tmp_path / "gate"
    (folder / "parent.yaml").write_text(PARENT)
    (folder / "child.yaml").write_text(CHILD.format(ledger=str(ledger), gate=str(gate)))
    (folder / "later.yaml").write_text(LATER)
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(folder / "parent.yaml"), str(db)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    async with asyncio.timeout(100):
        while not ledger.exists() or "two" not in ledger.read_text():
            await asyncio.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    gate.touch()

    async with asyncio.timeout(60):
        result = await resume("x1", db=db)

    assert result.result == {"a": 21, "b": {"found": "after the crash"}}
    assert ledger.read_text().split() == ["one", "two", "two"]
    store = SqliteStore.open(db)
    children = await store.children("x1")
    assert [(row.path, row.status) for row in children] == [("jobs/child", "completed"), ("jobs/later", "completed")]
    assert sorted(row.path for row in await store.catalog.paths()) == ["jobs/child", "jobs/later", "jobs/parent"]
    await store.close()
