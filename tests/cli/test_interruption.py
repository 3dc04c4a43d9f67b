"""Ctrl-C, for real: once records and ends, twice stops at once, and either way the run can be taken up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.cli.gated_run import Gated
from tests.cli.running import call
from tests.process_output import last_words


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    with Gated(tmp_path) as gated:
        gated.until("wait", "started")
        yield gated


def test_an_interruption_while_the_program_is_loading_is_quiet(tmp_path: Path) -> None:
    """A stand-in for the first library that is imported says that it is being imported, and waits there. It sleeps for
    moments only: Python does not hear of a signal that came just before it fell asleep until it wakes up."""
    (tmp_path / "click.py").write_text("import time; print('loading', flush=True)\nwhile True: time.sleep(0.01)")
    loading = subprocess.Popen(
        [sys.executable, "-c", "from noetl.cli.main import main; main()"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert loading.stdout is not None
    assert loading.stdout.readline() == "loading\n"

    loading.send_signal(signal.SIGINT)
    _, stderr = last_words(loading)

    assert (loading.returncode, stderr) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_take_it_up_and_that_works(gated: Gated, number: signal.Signals) -> None:
    gated.running.send_signal(number)
    code, stderr = gated.end()

    assert code == 130
    assert "interrupted: recording what is done" in stderr
    command = stderr.strip().splitlines()[-1].partition("take it up with: noetl ")[2].split()
    assert gated.resume(*command) == "through"


def test_the_second_signal_stops_at_once_and_nothing_recorded_is_lost(gated: Gated) -> None:
    os.kill(gated.running.pid, signal.SIGSTOP)  # so that both signals are there before either is handled

    gated.running.send_signal(signal.SIGINT)
    gated.running.send_signal(signal.SIGTERM)
    os.kill(gated.running.pid, signal.SIGCONT)
    code, stderr = gated.end()

    assert code == 130
    assert "take it up with" not in stderr, "it did not wait to say so"
    assert gated.resume() == "through"
    starts = call("events", "last", "--db", str(gated.db), "--step", "start", "--type", "task.started", "-o", "jsonl")[
        1
    ]
    assert len(starts.splitlines()) == 1, "what was recorded is not done again"


def test_status_says_that_nobody_runs_it_and_how_to_go_on(gated: Gated) -> None:
    running = call("status", "last", "--db", str(gated.db))[1]

    gated.running.kill()
    gated.end()
    killed = call("status", "last", "--db", str(gated.db))[1]

    assert "nobody runs it" not in running
    assert "▸ wait              runs gate, since" in running
    assert "steps     1 done, 1 under way" in running
    assert f"nobody runs it now; take it up with: noetl run --db {gated.db} --resume " in killed
    assert call("result", "last", "--db", str(gated.db))[2].endswith("has not ended: it is running\n")
    assert gated.resume() == "through"


def test_events_and_logs_are_followed_from_another_terminal_until_the_end(gated: Gated) -> None:
    following = [
        forked.Popen(
            [*forked.NOETL, verb, "last", "--follow", "-o", "jsonl", "--db", str(gated.db)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for verb in ("events", "logs")
    ]
    assert following[0].stdout is not None
    assert json.loads(following[0].stdout.readline())["seq"] == 1, "what is there already is shown at once"

    gated.gate.touch()
    events, _ = (last_words(one)[0] for one in following)
    code, _ = gated.end()

    assert code == 0
    assert [one.returncode for one in following] == [0, 0]
    seqs = [json.loads(line)["seq"] for line in events.splitlines()]
    assert seqs == list(range(2, len(seqs) + 2))
    assert json.loads(events.splitlines()[-1])["event_type"] == "playbook.processed"
