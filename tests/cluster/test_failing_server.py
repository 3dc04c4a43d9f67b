"""A server whose store fails now and then, before or after a call has done its work: accepted executions end once, and
answers to clients are true. tests/faults/test_failing_store.py fails each method in each way, in one process; here all
of them fail, under a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.checkers import check
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import cluster
from tests.cluster.playbooks import CHAIN, LOOP
from tests.cluster.watching import ends_of
from tests.faults.store_methods import METHODS

NUMBER = 3
WHEN = {2: "before", 4: "after"}  # a method fails, by how often it was called
FAILING = """
import functools, os, sys

def spoil(store):
    from noetl.base.errors import BackendError

    passes = {{}}

    def failing(name, method):
        @functools.wraps(method)
        async def called(*values, **named):
            passed = passes[name] = passes.get(name, 0) + is_open()
            when = {when!r}.get(passed) if is_open() else None
            if when == "before":
                note(name, when)
                raise BackendError(name + " failed")
            found = await method(*values, **named)
            if when == "after":
                note(name, when)
                raise BackendError(name + " failed")
            return found

        return called

    for name in {methods!r}:
        setattr(store, name, failing(name, getattr(store, name)))

def is_open():
    return os.path.exists({switch!r})

def note(*what):
    with open({noted!r}, "a") as file:
        print(*what, file=file)

if sys.argv[0] != "-c" and "noetl" in " ".join(sys.orig_argv) and "server" in sys.orig_argv:
    from noetl.store.sqlite.store import SqliteStore

    spoil(SqliteStore)
"""


@pytest.mark.timeout(300)
@pytest.mark.req("SRV-05", "SRV-12", "EVT-01")
def test_a_server_with_a_flaky_store_completes_everything_it_accepted(tmp_path: Path, effects: Effects) -> None:
    patches, switch, noted = tmp_path / "patches", tmp_path / "fails", tmp_path / "noted"
    patches.mkdir()
    spoiled = FAILING.format(methods=METHODS, when=WHEN, switch=str(switch), noted=str(noted))
    (patches / "sitecustomize.py").write_text(spoiled)
    with cluster(tmp_path, str(tmp_path / "store.db")) as grounds:
        server = grounds.server(environment={"PYTHONPATH": str(patches)})
        grounds.register(LOOP, CHAIN)
        worker, starts = grounds.worker(), Starts(grounds)
        switch.touch()
        for number in range(NUMBER):
            starts.start("cluster/loop", {"url": effects.url}, key=f"loop{number}")
            starts.start("cluster/chain", {"url": effects.url}, key=f"chain{number}")

        assert set(ends_of(grounds, starts.accepted)) == {"completed"}
        switch.unlink()
        check(grounds.db, starts.accepted, effects.counts)
        assert len(starts.accepted) == 2 * NUMBER, "a repeated start is the same execution"
        with grounds.client() as client:
            assert len(client.list(limit=100).executions) == 2 * NUMBER, "and there are no others"
        assert server.is_alive
        assert worker.is_alive
        failed = set(noted.read_text().splitlines())
        assert {"commit before", "commit after"} <= failed, "it was put to the test"
