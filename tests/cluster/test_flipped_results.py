"""A byte of a stored result changes: its readers get `result.corrupt`, and other executions are not affected."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.events.executions import PlaybookProcessed
from noetl.events.tasks import TaskProcessed
from tests.cluster.checkers import check
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import Cluster, cluster
from tests.cluster.playbooks import CHAIN
from tests.cluster.watching import end_of, ends_of
from tests.waiting import until

READER = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: reader, path: cluster/reader }
workload: { mark: a }
workflow:
  - step: start
    tool: { kind: python, args: { mark: "{{ workload.mark }}" }, code: "result = {'text': mark * 100_000}" }
    next: { arcs: [{ step: rest }] }
  - step: rest
    message: { name: read, correlation: { mark: "{{ workload.mark }}" } }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { name: read, kind: python, args: { n: "{{ start.data.text | length }}" }, code: "result = n" }
"""


def _stored(grounds: Cluster) -> list[Path]:
    return [path for path in grounds.folder.rglob("*.json") if len(path.stem) == 64]


def _rests(grounds: Cluster, execution_id: str) -> bool:
    with grounds.client() as client:
        events = client.event_page(execution_id).events
    return any(event["event_type"] == "message.awaited" for event in events)


@pytest.mark.timeout(300)
@pytest.mark.req("RES-02", "RES-06")
def test_a_corrupted_result_fails_its_reader_and_other_executions_complete(tmp_path: Path, effects: Effects) -> None:
    with cluster(tmp_path, str(tmp_path / "store.db")) as grounds:
        grounds.server()
        grounds.register(CHAIN, READER)
        maker = grounds.worker()
        starts, others = Starts(grounds), Starts(grounds)
        execution_id = starts.start("cluster/reader", {}, key="reader")
        until(lambda: _rests(grounds, execution_id))  # what was stored is named by now
        [stored] = _stored(grounds)
        maker.kill()  # it remembers the value; whoever comes after it has to ask for it
        body = bytearray(stored.read_bytes())
        body[5_000] ^= 1
        stored.write_bytes(body)
        grounds.worker()
        others.start("cluster/reader", {"mark": "b"}, key="other")
        with grounds.client() as client:
            for mark in ("a", "b"):
                client.send_message("read", {"mark": mark})
        others.start("cluster/chain", {"url": effects.url}, key="chain")

        assert end_of(grounds, execution_id) == "failed"
        assert set(ends_of(grounds, others.accepted)) == {"completed"}
        log = check(grounds.db, [*starts.accepted, *others.accepted], effects.counts)[execution_id]
        [read] = [e.payload for e in log if isinstance(e.payload, TaskProcessed) and e.payload.task == "read"]
        assert read.outcome.error is not None
        assert read.outcome.error.kind == "result.corrupt"
        [over] = [event.payload for event in log if isinstance(event.payload, PlaybookProcessed)]
        assert over.error is not None
        assert over.error.kind == "result.corrupt"
