"""Verdicts on what somebody outside has asked of an execution, as he hears them: nothing, or an error with its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from noetl.base.errors import ForbiddenError, InvalidError, NotFoundError, RefusedError, SettledError
from noetl.engine.decision import Decision, Refusal
from noetl.events.orders import ReportResult


class RequestResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a command, as it is handed from process to process."""

    verdict: ReportResult
    detail: str | None = None  # why, for people; None: the usual words of the verdict
    problems: tuple[Refusal, ...] = ()  # every field of a form that does not fit


class TakesCommands(Protocol):
    """Has commands to executions decided: the control plane of this process, or whoever drives them on the same
    store."""

    async def submit(self, execution_id: str, command: Any) -> Decision | RequestResult: ...

    async def submit_all(self, commands: Sequence[tuple[str, Any]]) -> Sequence[Decision | RequestResult]: ...


def request_result(decision: Decision | RequestResult) -> RequestResult:
    return RequestResult(verdict=decision.verdict, detail=decision.detail, problems=decision.problems)


def check(told: RequestResult, *, what: str) -> bool:
    """Whether anything changed; it did not when the same was asked before. Raises what else is to be said."""
    detail = told.detail
    match told.verdict:
        case ReportResult.ACCEPTED | ReportResult.DUPLICATE:
            return told.verdict is ReportResult.ACCEPTED
        case ReportResult.NOT_FOUND:
            raise NotFoundError(detail or f"there is no {what}")
        case ReportResult.FORBIDDEN:
            raise ForbiddenError(detail or f"you may not do that with {what}")
        case ReportResult.INVALID:
            problems = tuple(msgspec.to_builtins(problem) for problem in told.problems)
            raise InvalidError(detail or _listed(told.problems), problems)
        case ReportResult.TERMINAL | ReportResult.CANCELLED:
            raise SettledError(detail or f"{what}: its execution has ended, and what has ended stays as it is")
        case ReportResult.PAUSED:
            raise SettledError(detail or f"{what}: its execution is paused; resume it first")
        case ReportResult.CONFLICT | ReportResult.FENCED:
            raise SettledError(detail or f"{what} has changed since: look again")
        case _:
            raise RefusedError(detail or f"{what} was refused")


def _listed(problems: tuple[Refusal, ...]) -> str:
    return "; ".join(f"{one.field}: found {one.found}, allowed {one.allowed}" for one in problems)
