"""What PostgreSQL cannot do, as our own errors: what was lost on the way, what was refused, what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg  # type: ignore[import-untyped]

from noetl.base.errors import BackendError, StoreUnreachableError, StoreUnwritableError, UnfitError, UnreadableError
from noetl.store.contract import ConflictError

CONFLICT = "NOETL"  # the SQLSTATE of the function `conflict`

# The connection is gone, or there is none to be had right now: another attempt may find a server again.
LOST = (
    OSError,  # TimeoutError as well
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
# Others were at the same rows: nothing was stored, and deciding anew will do.
_CONTENDED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.LockNotAvailableError)


class UncertainError(ConflictError, StoreUnreachableError):
    """The connection was lost while something was stored: it may be stored or not. As with every conflict, who gets
    this has to read again before deciding anything."""


def is_lost(problem: BaseException) -> bool:
    if isinstance(problem, asyncpg.InternalClientError):
        return True  # the driver was in the middle of something when its connection ended, and is confused by it
    if isinstance(problem, asyncpg.InterfaceError):
        return "connection" in str(problem) and "closed" in str(problem)  # the driver has noticed before we did
    return isinstance(problem, LOST)


def unreachable(where: str, problem: BaseException) -> StoreUnreachableError:
    return StoreUnreachableError(f"the store {where} cannot be reached: {_error_text(problem)}")


def uncertain(where: str, problem: BaseException) -> UncertainError:
    why = _error_text(problem)
    return UncertainError(f"the store {where} was lost while something was stored, which may be stored or not: {why}")


def explained(where: str, problem: BaseException) -> BackendError:
    """The error to raise for one of PostgreSQL or of its driver."""
    match problem:
        case asyncpg.PostgresError(sqlstate=state) if state == CONFLICT:
            return ConflictError(_error_text(problem))
        # A position or an id that another server has stored first. What it means is for `Written` to say.
        case asyncpg.UniqueViolationError():
            return ConflictError(_stored_already(problem))
        case problem if isinstance(problem, _CONTENDED):
            return ConflictError(f"others were writing the same rows: {_error_text(problem)}")
        case asyncpg.InvalidAuthorizationSpecificationError():  # a wrong password is one of these
            return BackendError(f"the store {where} does not let us in: {_error_text(problem)}")
        case asyncpg.InvalidCatalogNameError():
            return BackendError(f"the store {where} does not exist: {_error_text(problem)}; create the database first")
        case asyncpg.InsufficientPrivilegeError():
            return BackendError(f"the store {where} does not allow this: {_error_text(problem)}; grant it to our user")
        case asyncpg.CharacterNotInRepertoireError() | asyncpg.UntranslatableCharacterError():
            return UnfitError(f"the store {where} cannot hold this text: {_error_text(problem)}")
        case asyncpg.DataCorruptedError():
            return UnreadableError(f"the store {where} is damaged: {_error_text(problem)}")
        case asyncpg.DiskFullError() | asyncpg.ReadOnlySQLTransactionError():
            return StoreUnwritableError(f"the store {where} cannot be written: {_error_text(problem)}")
        case _:
            return BackendError(f"the store {where} failed: {_error_text(problem)}")


@contextmanager
def damage_as_unreadable(execution_id: str) -> Iterator[None]:
    """What is found to be damaged among the events of one execution is told of that one alone."""
    try:
        yield
    except (UnicodeDecodeError, UnreadableError) as problem:
        raise UnreadableError(f"an event of execution {execution_id} is damaged: {_error_text(problem)}") from problem


def is_there_already(problem: BackendError) -> bool:
    """Whether somebody else has stored the same rows."""
    return isinstance(problem.__cause__, asyncpg.UniqueViolationError)


def _stored_already(problem: asyncpg.UniqueViolationError) -> str:
    match problem.table_name:
        case "execution":
            return f"this execution exists already: {problem.detail}"
        case table if table == "unpacked_event" or (table or "").startswith("history"):
            return f"an event of this execution is stored already: {problem.detail}"
        case table if (table or "").startswith("event_key"):
            return "an event of this execution, or an end of what it ends, is stored already"
        case table:
            return f"this is in the table {table} already: {problem.detail}"


def _error_text(problem: BaseException) -> str:
    return str(problem) or type(problem).__name__
