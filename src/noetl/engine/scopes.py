"""Scopes of the server's own templates: admission, arcs, step-level `set_ctx` (TPL-05).

No `iter` and no keychain here: what belongs to an iteration ends with it, and secrets never reach the server.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.execution import Boundary, Execution, StepRun, Token
from noetl.engine.plan import Plan
from noetl.pipeline.scopes import Views
from noetl.pipeline.surroundings import Load, Surroundings
from noetl.records.outcomes import TaskResult
from noetl.templates.scope import Scope

_ALIASES = {  # DESIGN §5: names of the boundary event that playbooks in the wild compare with
    "step.done": frozenset({"call.done", "step.exit"}),
    "loop.done": frozenset({"call.done", "step.exit"}),
    "step.failed": frozenset({"call.error", "step.exit"}),
}


class EventName(str):
    """An event's name that also equals its aliases."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or other in _ALIASES.get(str(self), ())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def event_of(boundary: Boundary | None, load: Load) -> dict[str, Any] | None:
    """`event` as guards read it (ROUTE-09); null for the start token, which no event produced."""
    if boundary is None:
        return None
    error = boundary.error.readable() if boundary.error else None
    return {
        "name": EventName(boundary.name),
        "step": boundary.step,
        "status": "error" if error else "success",
        "data": {"error": error} if error else _result(boundary.result),
        "result": None if error else _Payload(boundary.result, load),
        "error": error,
    }


def _result(result: TaskResult | None) -> dict[str, Any]:
    if result is None:
        return {"result": None}
    if result.ref is not None:
        return {"ref": msgspec.to_builtins(result.ref)}
    return {"result": payload_of(result, _unneeded)}


def _unneeded(_: object) -> Any:
    raise AssertionError("a result that is inline is never loaded")


def payload_of(result: TaskResult, load: Load) -> Any:
    """What a result is worth to others: its `data` member where its kind wraps it (O-22)."""
    value = load(result.ref) if result.ref else result.result
    return value["data"] if result.wrapped and isinstance(value, dict) and "data" in value else value


class _Payload:
    """The payload of a result, loaded when a guard first reads it."""

    __slots__ = ("_load", "_result")

    def __init__(self, result: TaskResult | None, load: Load) -> None:
        self._result = result
        self._load = load

    def value(self) -> Any:
        return payload_of(self._result, self._load) if self._result else None

    def lookup(self, name: str | int) -> Any:
        value = self.value()
        if isinstance(value, dict) or (isinstance(value, list) and isinstance(name, int)):
            try:
                return value[name]  # type: ignore[index]
            except IndexError:
                raise KeyError(name) from None
        raise KeyError(name)


def admission_scope(plan: Plan, execution: Execution, token: Token) -> Scope:
    namespaces: dict[str, Any] = {
        "args": token.args,
        "ctx": execution.ctx,
        "workload": execution.workload,
        "event": event_of(token.source, plan.load),
        "execution_id": execution.execution_id,
        "token": {"inputs": [], "meta": {}},
    }
    return Scope(namespaces, steps=Views(execution.results, plan.load))


def arc_scope(
    plan: Plan, execution: Execution, run: StepRun, boundary: Boundary, *, ctx: dict[str, Any] | None = None
) -> Scope:
    """`ctx`, when given, stands in for the execution's: the step's own `set_ctx` comes before its arcs."""
    namespaces: dict[str, Any] = {
        "args": run.args,
        "ctx": execution.ctx if ctx is None else ctx,
        "workload": execution.workload,
        "event": event_of(boundary, plan.load),
        "execution_id": execution.execution_id,
    }
    return Scope(namespaces, steps=Views(execution.results, plan.load))


def surroundings_of(plan: Plan, execution: Execution, run: StepRun) -> Surroundings:
    """What a pipeline of `run` can read."""
    return Surroundings(
        execution_id=execution.execution_id,
        args=run.args,
        workload=execution.workload,
        ctx=execution.ctx,
        token={"inputs": [], "meta": run.token_meta},
        results=execution.results,
        load=plan.load,
    )
