"""Answers that are made in a forked process, and the error if it ends without one."""

from __future__ import annotations

import faulthandler
import json
import os
import signal

import pytest

from noetl.tools.child_pipes import answer_in_fork


def test_the_response_of_the_process_is_returned() -> None:
    assert answer_in_fork(lambda: b'{"rows": 1}', "duckdb.error") == b'{"rows": 1}'


@pytest.mark.parametrize(("ended_by", "retryable"), [(signal.SIGABRT, True), (signal.SIGKILL, False)])
def test_an_aborted_process_is_retryable_and_a_killed_one_is_not(ended_by: signal.Signals, retryable: bool) -> None:
    def answer() -> bytes:
        faulthandler.disable()  # pytest's own: it would print where the process was
        os.kill(os.getpid(), ended_by)
        return b"{}"

    told = json.loads(answer_in_fork(answer, "duckdb.error"))

    assert (told["kind"], told["retryable"]) == ("duckdb.error", retryable)
    assert f"ended with -{int(ended_by)}" in told["message"]
