"""Attempt: one run of one task, from rendered inputs to exactly one outcome (OUT-01, OUT-04, OUT-05). It also checks
the outcome against its schema.

A tool always yields an outcome: a result, its own error, a timeout, or `tool.exception`. This module does not know
policies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.engine.pipeline.payloads import capped_outcome
from noetl.engine.pipeline.preparation import Prepared
from noetl.engine.pipeline.result_schemas import mismatch
from noetl.events.outcomes import Error, Meta, Outcome, Status
from noetl.tools.contract import Tool, ToolContext, ToolResult

DEFAULT_TIMEOUT_S = 300.0  # O-33
Sleep = Callable[[float], Awaitable[None]]
Ready = Callable[[], Awaitable[None]]
MISFIT = "result.schema"
_ARTIFACT = "artifact"
SchemaOf = Callable[[str], Awaitable[Any]]


class InternalRetry(msgspec.Struct, frozen=True):
    """`spec.retry`: repeats inside the tool's own run, before any policy sees an outcome (OUT-04)."""

    attempts: int = 1
    delay_s: float = 0.0
    backoff: str = "none"

    def delay_after(self, attempt: int) -> float:
        match self.backoff:
            case "linear":
                return self.delay_s * attempt
            case "exponential":
                return float(self.delay_s * 2 ** (attempt - 1))
            case _:
                return self.delay_s


_NO_RETRY = InternalRetry()


async def attempt(
    tool: Tool,
    inputs: Mapping[str, Any],
    context: ToolContext,
    *,
    clock: Clock,
    sleep: Sleep,
    trace_id: str,
    ready: Ready | None = None,
) -> Outcome:
    """Run the tool once, with its internal retries, and return the outcome. `ready` is awaited right before each try;
    if it raises, the tool is not run and the exception goes to the caller."""
    started_at = clock.now()
    tries = 0
    try:
        retry = internal_retry(context.spec.get("retry"))
        while True:
            tries += 1
            if ready is not None:
                await ready()
            found = await _run_once(tool, inputs, context)
            # `spec.retry` repeats every error, also one that is marked as not retryable: the author has asked for it
            # here.
            if isinstance(found, ToolResult) or tries >= retry.attempts:
                break
            await sleep(retry.delay_after(tries))
    except ValueError as problem:  # a setting that is not a number
        found = ToolError("tool.exception", str(problem))
    meta = Meta(
        attempt=context.task_run.attempt,
        started_at=started_at,
        finished_at=clock.now(),
        trace_id=trace_id,
        task_run_id=context.task_run.task_run_id,
        internal_attempts=max(tries, 1),
        stdout=found.stdout if isinstance(found, ToolResult) else _stdout(found),
    )
    return capped_outcome(outcome_of(found, meta, tool.helpers()))


async def _run_once(tool: Tool, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult | ToolError:
    clock: asyncio.Timeout | None = None
    # A tool that only waits, as for a nested playbook, applies its time limit itself, and cancels the child with it.
    limit_s = None if getattr(tool, "waits", False) else timeout_s(context.spec.get("timeout"))
    try:
        if getattr(tool, "is_instant", False):
            return await tool.run(inputs, context)  # it awaits nothing, so a timer could not end it
        clock = asyncio.timeout(limit_s)
        async with clock:
            return await tool.run(inputs, context)
    except ToolError as problem:
        return problem
    # The tool's own time-outs, of a socket say, are TimeoutError too. Only the clock of this attempt makes it
    # `timeout`.
    except TimeoutError as problem:
        if clock is not None and clock.expired():
            return ToolError("timeout", f"the task took longer than {limit_s:g} s", retryable=True)
        return _unexpected_error(problem)
    except Exception as problem:  # a tool's exceptions never escape (OUT-05)
        return _unexpected_error(problem)


def _unexpected_error(problem: Exception) -> ToolError:
    return ToolError("tool.exception", f"{type(problem).__name__}: {problem}", exception=type(problem).__name__)


def outcome_of(found: ToolResult | ToolError, meta: Meta, helpers: dict[str, dict[str, Any]]) -> Outcome:
    """The outcome of a result or an error. The kind's own names are on both (OUT-02)."""
    if isinstance(found, ToolResult):
        return Outcome(
            status=Status.SUCCESS,
            result=found.result,
            wrapped=found.wrapped,
            meta=meta,
            helpers={**helpers, **found.helpers},
        )
    return Outcome(status=Status.ERROR, error=error_of(found), meta=meta, helpers=_error_details(found, helpers))


def error_of(problem: ToolError) -> Error:
    """A tool's error in its recorded form (OUT-03)."""
    details = {key: value for key, value in problem.details.items() if value is not None and key not in _APART}
    status, code = problem.details.get("status"), problem.details.get("code")
    return Error(
        kind=problem.kind,
        message=problem.message,
        retryable=problem.retryable,
        status=status if isinstance(status, int) else None,
        code=str(code) if code is not None else None,
        details=details or None,
    )


_APART = frozenset({"stdout", "status", "code"})


def _error_details(problem: ToolError, helpers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The error's details under the kind's own names: `outcome.py.exception`."""
    return {
        word: {key: problem.details.get(key, value) for key, value in keys.items()} for word, keys in helpers.items()
    }


def with_output(outcome: Outcome, printed: str | None) -> Outcome:
    """The outcome with what the task has printed, for a tool that could not return it."""
    if printed is None:
        return outcome
    return msgspec.structs.replace(outcome, meta=msgspec.structs.replace(outcome.meta, stdout=printed))


def _stdout(problem: ToolError) -> str | None:
    stdout = problem.details.get("stdout")
    return stdout if isinstance(stdout, str) else None


def timeout_s(written: Any) -> float | None:
    """The time limit of one run: `spec.timeout`, or its `total` if it has parts."""
    if isinstance(written, dict):
        total = written.get("total")
        return seconds(total) if total is not None else None
    return seconds(written) if written is not None else DEFAULT_TIMEOUT_S


def internal_retry(written: Any) -> InternalRetry:
    """`spec.retry` as a count or as {attempts, delay, backoff}. ValueError for anything else."""
    if written is None:
        return _NO_RETRY
    if isinstance(written, int) and not isinstance(written, bool):
        return InternalRetry(max(written, 1))
    if isinstance(written, dict):
        delay_s = seconds(written.get("delay", 0))
        return InternalRetry(max(int(written.get("attempts", 1)), 1), delay_s, str(written.get("backoff", "none")))
    raise ValueError("spec.retry must be a count or {attempts, delay, backoff}")


# Schemas of results: an outcome whose payload does not match its schema is an error that policies can handle (RES-07).
#
# `spec.result_schema` names the schema of the result of a task. A reference whose `schema_hint` names a schema is
# checked when an artifact is read. An artifact is checked before it is stored, and its reference has the name.


async def checked_outcome(kind: str, prepared: Prepared, outcome: Outcome, schema_of: SchemaOf) -> Outcome:
    """The same outcome, or the error `result.schema`. `schema_of` returns None for an unknown name."""
    if not outcome.ok:
        return outcome
    named = prepared.spec.get("result_schema")
    if not named and not (kind == _ARTIFACT and (named := _hint(prepared.inputs))):
        return outcome
    schema = await schema_of(str(named))
    if schema is None:
        if not prepared.spec.get("result_schema"):
            return outcome  # a hint is free text, and need not name a schema
        return _failed_outcome(outcome, f'no schema "{named}" is registered here: PUT /api/schemas/{named}')
    is_put = kind == _ARTIFACT and prepared.inputs.get("op", "put") == "put" and "data" in prepared.inputs
    value = prepared.inputs.get("data") if is_put else _payload(outcome)
    if problem := mismatch(schema, value):
        return _failed_outcome(outcome, f'{problem} (schema "{named}")')
    if is_put and isinstance(outcome.result, dict):
        return msgspec.structs.replace(outcome, result={**outcome.result, "schema_hint": str(named)})
    return outcome


def _failed_outcome(outcome: Outcome, message: str) -> Outcome:
    error = Error(kind=MISFIT, message=message)
    return msgspec.structs.replace(outcome, status=Status.ERROR, result=None, wrapped=False, error=error)


def _payload(outcome: Outcome) -> Any:
    return outcome.result.get("data") if outcome.wrapped and isinstance(outcome.result, dict) else outcome.result


def _hint(inputs: Mapping[str, Any]) -> str | None:
    reference = inputs.get("ref")
    hint = reference.get("schema_hint") if isinstance(reference, Mapping) else None
    return hint if isinstance(hint, str) else None
