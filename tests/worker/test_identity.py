"""Whether a worker's process has ended: the basis for taking over its executions."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from noetl.worker.identity import is_gone, own_worker_id, started_at


def test_a_live_worker_is_not_gone() -> None:
    assert not is_gone(own_worker_id())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system tells of no process")
def test_a_worker_whose_process_id_was_reused_is_gone() -> None:
    assert is_gone(f"{socket.gethostname()}/{os.getpid()}/1")


def test_workers_on_other_hosts_are_never_known_to_be_gone() -> None:
    assert not is_gone(f"{socket.gethostname()}.elsewhere/1/1")


@pytest.mark.req("SRV-12")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system tells of no process")
def test_a_dead_worker_is_gone_even_as_a_zombie_process() -> None:
    """In a container the first process is often no init: who was killed keeps its number for a long time."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        worker_id = f"{socket.gethostname()}/{process.pid}/{started_at(process.pid)}"
        assert not is_gone(worker_id)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert is_gone(worker_id)
