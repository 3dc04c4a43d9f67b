"""`pause`, `resume` and `cancel` from another terminal, for a running execution and for one without a process
(CLI-02)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.operations.local import user_name
from tests.cli.gated_run import Gated
from tests.cli.running import call
from tests.cli.stored import stored
from tests.cli.waiting_run import until_present


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    with Gated(tmp_path) as gated:
        gated.until("wait", "started")
        until_present(str(gated.db))
        yield gated


def steer(gated: Gated, *arguments: str) -> str:
    code, stdout, stderr = call(arguments[0], "last", *arguments[1:], "--db", str(gated.db))
    assert code == 0, stderr
    return stdout


def status(gated: Gated) -> str:
    return str(json.loads(call("status", "last", "-o", "json", "--db", str(gated.db))[1])["status"])


@pytest.mark.req("CLI-02", "SRV-11")
def test_a_running_execution_is_cancelled_from_another_terminal(gated: Gated) -> None:
    said = steer(gated, "cancel", "--reason", "enough")
    code, stderr = gated.end()

    assert said.startswith("cancelled execution ")
    assert code == 5
    assert "- cancelled: enough" in stderr
    assert status(gated) == "cancelled"
    assert call("result", "last", "--db", str(gated.db))[0] == 5


@pytest.mark.req("CLI-02", "SRV-07")
def test_a_running_execution_is_paused_and_resumed_from_another_terminal(gated: Gated) -> None:
    assert steer(gated, "pause").startswith("paused execution ")
    assert status(gated) == "paused"
    why = call("explain", "last", "--db", str(gated.db))[1]
    assert re.search(rf"it was paused at \S+ by {re.escape(user_name())}: ", why)
    assert "noetl resume " in why
    assert "was paused already" in steer(gated, "pause")
    gated.gate.touch()

    assert steer(gated, "resume").startswith("resumed execution ")
    code, _ = gated.end()

    assert code == 0
    assert "has ended: it is completed" in call("pause", "last", "--db", str(gated.db))[2]


@pytest.mark.req("SRV-11")
def test_an_abandoned_execution_is_cancelled_locally(gated: Gated) -> None:
    gated.running.kill()
    gated.end()

    assert steer(gated, "cancel").startswith("cancelled execution ")

    assert status(gated) == "cancelled"


@pytest.mark.req("SRV-07")
def test_an_abandoned_execution_can_be_paused_and_resumed_later(gated: Gated) -> None:
    gated.running.kill()
    gated.end()

    code, stdout, stderr = call("pause", "last", "--db", str(gated.db))

    assert code == 0
    assert stdout.startswith("paused execution ")
    assert f"resume it with: noetl run --db {gated.db} --resume" in stderr
    assert gated.resume() == "through"


def test_an_ended_execution_cannot_be_controlled(tmp_path: Path) -> None:
    db, good, _ = stored(tmp_path)

    for command in ("pause", "resume", "cancel"):
        code, stdout, stderr = call(command, good.execution_id, "--db", db)
        assert (code, stdout) == (4, "")
        assert stderr == f"error: execution {good.execution_id} has ended: it is completed\n"
