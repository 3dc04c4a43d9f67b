"""Outages in the log: one line when something is lost, one when it is back."""

from __future__ import annotations

import logging
import time

import pytest

from noetl.base.errors import BackendError, Outage, StoreUnreachableError, log_failure

LOG = logging.getLogger("noetl.test")


def outage() -> Outage:
    return Outage(LOG, "the thing is lost", "the thing is back")


def test_a_thing_that_fails_many_times_and_works_many_times_is_written_twice(caplog: pytest.LogCaptureFixture) -> None:
    thing = outage()

    for _ in range(5):
        thing.failed(ConnectionRefusedError("refused"))
    for _ in range(5):
        thing.worked()

    assert caplog.messages == ["the thing is lost: refused", "the thing is back"]
    assert all(record.exc_info is None for record in caplog.records)


def test_each_outage_is_written(caplog: pytest.LogCaptureFixture) -> None:
    thing = outage()

    for _ in range(2):
        thing.failed(TimeoutError())
        thing.worked()

    assert caplog.messages == ["the thing is lost: TimeoutError", "the thing is back"] * 2


def test_what_was_begun_before_the_last_success_is_no_other_outage(caplog: pytest.LogCaptureFixture) -> None:
    thing = outage()
    began_at = time.monotonic()
    thing.failed(ConnectionRefusedError("refused"), began_at=began_at)
    thing.worked()

    thing.failed(ConnectionRefusedError("refused, and told late"), began_at=began_at)

    assert len(caplog.messages) == 2
    assert not thing.is_on


def test_a_store_out_of_reach_is_written_by_its_connections_and_not_by_those_who_use_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage().failed(StoreUnreachableError("no store"))
    log_failure(LOG, StoreUnreachableError("no store"), "execution %s could not be woken", "e1")
    log_failure(LOG, BackendError("full"), "execution %s could not be woken", "e1")

    assert caplog.messages == ["execution e1 could not be woken: full"]
