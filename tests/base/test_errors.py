"""Outages in the log: one line when something is lost, one when it is back."""

from __future__ import annotations

import logging
import time

import pytest

from noetl.base.errors import BackendError, Outage, StoreUnreachableError, error_text, log_failure, system_error_text

LOG = logging.getLogger("noetl.test")


def outage() -> Outage:
    return Outage(LOG, "the thing is lost", "the thing is back")


def test_repeated_failures_and_recoveries_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    thing = outage()

    for _ in range(5):
        thing.failed(ConnectionRefusedError("refused"))
    for _ in range(5):
        thing.worked()

    assert caplog.messages == ["the thing is lost: refused", "the thing is back"]
    assert all(record.exc_info is None for record in caplog.records)


def test_each_outage_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    thing = outage()

    for _ in range(2):
        thing.failed(TimeoutError())
        thing.worked()

    assert caplog.messages == ["the thing is lost: TimeoutError", "the thing is back"] * 2


def test_a_late_failure_from_before_the_last_success_starts_no_new_outage(caplog: pytest.LogCaptureFixture) -> None:
    thing = outage()
    began_at = time.monotonic()
    thing.failed(ConnectionRefusedError("refused"), began_at=began_at)
    thing.worked()

    thing.failed(ConnectionRefusedError("refused, and told late"), began_at=began_at)

    assert len(caplog.messages) == 2
    assert not thing.is_on


def test_an_unreachable_store_is_logged_by_its_connections_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage().failed(StoreUnreachableError("no store"))
    log_failure(LOG, StoreUnreachableError("no store"), "execution %s could not be woken", "e1")
    log_failure(LOG, BackendError("full"), "execution %s could not be woken", "e1")

    assert caplog.messages == ["execution e1 could not be woken: full"]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (
            OSError("Multiple exceptions: [Errno 111] to ::1, [Errno 111] to 127.0.0.1"),
            "Multiple exceptions: to ::1, to 127.0.0.1",
        ),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_the_text_of_an_error_has_no_numbers_of_the_system(problem: OSError, words: str) -> None:
    assert error_text(problem) == words


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (
            FileNotFoundError(2, "No such file or directory", "a/b"),
            "a/b: No such file or directory; check the name, and that its folder exists",
        ),
        (
            PermissionError(13, "Permission denied", "a"),
            "a: Permission denied; change its permissions, or name another place",
        ),
        (OSError(28, "No space left on device"), "No space left on device; free some space, and try again"),
        (OSError(5, "Input/output error", "a"), "a: Input/output error"),
    ],
)
def test_an_error_of_the_system_names_its_place_and_the_way_out(problem: OSError, words: str) -> None:
    assert system_error_text(problem) == words
