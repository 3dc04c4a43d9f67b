"""Outcomes: the result of one run of a task, in one shape for every tool kind (OUT-01 to OUT-03). Also references to
values that are too large for an event.

This module does not know the tool; further fields of a kind (`outcome.py.exception`) are in `helpers`, under the name
by which templates read them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

PARQUET = "application/vnd.apache.parquet"  # the media type of tables: rows that are kept as a file


class Status(StrEnum):
    SUCCESS = "success"
    ERROR = "error"


class Error(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What went wrong. `kind` is one of the run-time error kinds of requirements.md §5, `cause` the error behind it."""

    kind: str
    message: str
    retryable: bool = False  # whether the tool recommends a retry; the policy decides
    # the HTTP status, or the closest equivalent
    status: int | None = None
    code: str | None = None
    details: dict[str, Any] | None = None
    cause: Error | None = None

    def readable(self) -> dict[str, Any]:
        """The error as templates see it: `kind`, `message` and `retryable` always, the other fields if they are
        known."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {"retryable": False, **plain}


class Meta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """About the run itself; times are seconds since the epoch."""

    attempt: int
    started_at: float
    finished_at: float
    trace_id: str
    task_run_id: str
    internal_attempts: int = 1  # tries inside the tool's own run (`spec.retry`), which no policy sees
    stdout: str | None = None  # its output, masked and truncated

    @property
    def duration_ms(self) -> float:
        return round((self.finished_at - self.started_at) * 1000, 3)

    def readable(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"stdout": None, "internal_attempts": 1, **msgspec.to_builtins(self)}
        return {**plain, "duration_ms": self.duration_ms}


class TaskResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The latest result of a task or a step, as later templates read it by name (TPL-07).

    `wrapped`: the payload is the `data` member of the result (O-22). Exactly one of `result` and `ref` holds the value
    of a success; `inline` has selected fields of a result that is stored elsewhere (design.md §5), and `own` lists the
    names of the envelope that its payload has as keys. `tasks` are the results of a step's tasks, where a template
    reads them. `of_loop`: it is the list of a loop's results.
    """

    status: Status = Status.SUCCESS
    result: Any = None
    wrapped: bool = False
    error: Error | None = None
    ref: Reference | None = None
    inline: dict[str, Any] = {}
    own: tuple[str, ...] = ()
    tasks: dict[str, TaskResult] = {}
    of_loop: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One final outcome of one task run (OUT-01); `own` as of a TaskResult."""

    status: Status
    meta: Meta
    result: Any = None
    ref: Reference | None = None
    wrapped: bool = False
    error: Error | None = None
    # By the name that templates read them under: `outcome.http.status`, `outcome.py.exception`.
    helpers: dict[str, dict[str, Any]] = {}
    own: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status is Status.SUCCESS

    def as_result(self) -> TaskResult:
        return TaskResult(
            status=self.status,
            result=self.result,
            wrapped=self.wrapped,
            error=self.error,
            ref=self.ref,
            own=self.own,
        )


def unwrapped(value: Any, *, wrapped: bool) -> Any:
    """The payload in the result of a tool: its `data` member where the kind of the tool wraps it (O-22)."""
    return value["data"] if wrapped and isinstance(value, dict) and "data" in value else value


# References: where a value is stored that is too large for an event (RES-02).


class Reference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`checksum` is the SHA-256 of the stored bytes and is verified on every read; `size` counts those bytes."""

    store: str  # the name of the result store: files, objects, nats, memory
    key: str  # the place in that store; only for people, since values are read by their checksum
    checksum: str
    size: int
    schema_hint: str = ""  # object, array, string, json or table: known to a view without loading it
    range: str | None = None
    media_type: str = "application/json"
