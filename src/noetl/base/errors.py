"""Exceptions. The class says whose promise was broken: the playbook's, a tool's, a backend's, or ours (docs/style.md
§5)."""

from __future__ import annotations

import errno
import logging
import re
import time
from collections.abc import Mapping


class NoetlError(Exception):
    """Base of everything this package raises on purpose."""


def first_error(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The most useful error of a task group: one of ours if there is any, since the others are usually its
    consequences."""
    # Breadth first: the error that ended the group is at the top level; nested groups come from inner task groups.
    pending: list[BaseException] = [several]
    leaves: list[BaseException] = []
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending += error.exceptions
        else:
            leaves.append(error)
    return next((error for error in leaves if isinstance(error, NoetlError)), leaves[0])


_ERROR_NUMBER = re.compile(r"\[Errno -?\d+\] ")
_ADVICE = {
    errno.EACCES: "change its permissions, or name another place",
    errno.EPERM: "change its permissions, or name another place",
    errno.EROFS: "name another place",
    errno.ENOENT: "check the name, and that its folder exists",
    errno.ENOTDIR: "check the name, and that its folder exists",
    errno.ENOSPC: "free some space, and try again",
    errno.EDQUOT: "free some space, and try again",
}


def error_text(problem: BaseException) -> str:
    """The message of an error, without the numbers that the system gives its errors."""
    return _ERROR_NUMBER.sub("", str(problem)) or type(problem).__name__


def system_error_text(problem: OSError) -> str:
    """The place of an error of the system, what happened there, and the way out where one is known."""
    what = problem.strerror or error_text(problem)
    place = f"{problem.filename}: " if problem.filename else ""
    advice = _ADVICE.get(problem.errno or 0)
    return f"{place}{what}; {advice}" if advice else f"{place}{what}"


class PlaybookError(NoetlError):
    """The playbook cannot be run as written; its diagnostics say why."""


class PlaybookWarning(UserWarning):
    """A warning of `noetl check` about a playbook that is run nevertheless."""


class RefusedError(NoetlError):
    """The request cannot be carried out, and nothing has been started; the message gives the reason and the fix."""


class NotFoundError(RefusedError):
    """The named thing does not exist."""


class ForbiddenError(RefusedError):
    """The caller lacks the permission."""


class SettledError(RefusedError):
    """It has ended, or has changed since the caller read it: read it again."""


class ReplacedError(RefusedError):
    """A registration would replace what its author has not seen. `version` is the newest one, 0 without any; `removed`
    names what the new text no longer has: the times of a schedule, the events of notifications."""

    def __init__(self, message: str, *, path: str, version: int, removed: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.path, self.version, self.removed = path, version, dict(removed or {})


class NotEndedError(RefusedError):
    """It has not ended, so it has no result yet."""


class NoRerunError(RefusedError):
    """An execution cannot be run again from that step; the message says why."""


class InvalidError(RefusedError):
    """The input is invalid; `problems` name each field with what was found and what is allowed."""

    def __init__(self, message: str, problems: tuple[dict[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class TemplateError(NoetlError):
    """A template could not be parsed, is not allowed, or failed while it was evaluated (`template.error`)."""

    kind = "template.error"

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset  # characters into the template text, where it is known


class ToolError(NoetlError):
    """A tool ended with an error outcome; `kind` is one of the run-time error kinds (requirements.md §5)."""

    def __init__(self, kind: str, message: str, *, retryable: bool = False, **details: object) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retryable = retryable
        self.details = details


class BackendError(NoetlError):
    """A store or broker did not keep its promise: unreachable, full, locked, corrupt or of another version."""


class StoreOutageError(BackendError):
    """The store cannot serve any request. Its connections have already written that to the log."""


class StoreUnreachableError(StoreOutageError):
    """The store does not answer."""


class StoreUnwritableError(StoreOutageError):
    """The store can be read and not written: its disk is full, or it is read-only."""


class AbsentError(BackendError):
    """The store answers but lacks something that it should have; a retry does not help."""


class UnfitError(BackendError):
    """A text that the store cannot hold, such as one with a NUL; nothing was changed, and a retry does not help."""


class UnreadableError(BackendError):
    """The store is readable, but one execution cannot be rebuilt from it. Nothing is guessed; other executions are
    not affected."""


# Outages in the log: one line when something we depend on is lost, and one when it is back.


class Outage:
    """The state of one dependency. `lost` and `back` are the log messages for its changes."""

    def __init__(self, log: logging.Logger, lost: str, back: str) -> None:
        self._log, self._lost, self._back = log, lost, back
        self._is_on = False
        # On the monotonic clock. A failure of an operation that began earlier is out of date, and starts no outage.
        self._worked_at = float("-inf")

    @property
    def is_on(self) -> bool:
        return self._is_on

    def failed(self, problem: BaseException, *, began_at: float | None = None) -> None:
        """Record a failure. `began_at` is the start of the failed operation (monotonic): an operation that started
        before the last success says nothing about the present and would be logged as another outage."""
        if self._is_on or isinstance(problem, StoreOutageError):
            return
        if began_at is not None and began_at < self._worked_at:
            return
        self._is_on = True
        self._log.warning("%s: %s", self._lost, str(problem) or type(problem).__name__)

    def worked(self) -> None:
        """Record a success."""
        self._worked_at = time.monotonic()
        if self._is_on:
            self._is_on = False
            self._log.warning("%s", self._back)  # the same level as for the loss, so that a reader sees both or none


def log_failure(log: logging.Logger, problem: BaseException, text: str, *values: object) -> None:
    """Log the failure for one record, unless the store is in an outage: then every record fails."""
    if not isinstance(problem, StoreOutageError):
        log.warning(f"{text}: %s", *values, problem)
