"""Outages in the log: one line when something we depend on is lost, and one when it is back.

Whoever meets the failures reports all of them here; only a change of state is written. A store that cannot be reached
or written is reported by its own connections, so the jobs that use it say nothing more about that
(`StoreOutageError`).
"""

from __future__ import annotations

import logging
import time

from noetl.base.errors import StoreOutageError


class Outage:
    """The state of one thing. `lost` and `back` are what the log says when it changes."""

    def __init__(self, log: logging.Logger, lost: str, back: str) -> None:
        self._log, self._lost, self._back = log, lost, back
        self._is_on = False
        self._worked_at = float("-inf")

    @property
    def is_on(self) -> bool:
        return self._is_on

    def failed(self, problem: BaseException, *, began_at: float | None = None) -> None:
        """Something could not be done. `began_at` is when it was begun (monotonic): what was begun before the last
        success says nothing about now, and would be written as another outage."""
        if self._is_on or isinstance(problem, StoreOutageError):
            return
        if began_at is not None and began_at < self._worked_at:
            return
        self._is_on = True
        self._log.warning("%s: %s", self._lost, str(problem) or type(problem).__name__)

    def worked(self) -> None:
        """Something could be done."""
        self._worked_at = time.monotonic()
        if self._is_on:
            self._is_on = False
            self._log.warning("%s", self._back)  # as loud as the loss, so that both are seen or none


def log_failure(log: logging.Logger, problem: BaseException, text: str, *values: object) -> None:
    """Write what could not be done for one record, unless nothing can be done now: the store is in an outage."""
    if not isinstance(problem, StoreOutageError):
        log.warning(f"{text}: %s", *values, problem)
