"""Scopes of the templates that the server renders: admission, arcs, step-level `set_ctx` (TPL-05).

They have no `iter`, which ends with its iteration, and no keychain: the engine never sees secrets.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.execution import Boundary, Execution, StepRun, Token
from noetl.engine.loops.reducers import shared_write, with_shared
from noetl.engine.pipeline.scopes import Load, PipelineScope, Views, error_view
from noetl.engine.plan import Plan
from noetl.engine.v2_case.port import boundary_names
from noetl.events.loops import LoopDone
from noetl.events.outcomes import TaskResult, unwrapped
from noetl.templates.scope import V2_CASE, V2_EVAL, Scope
from noetl.templates.views import ElementsView, PayloadView, loop_view, payload_view


class StepVars:
    """`vars` of a step run of v2-eval as its `next` reads them, with every `set_shared` folded in (V2E-05, V2E-07).

    They are folded when a guard first reads them, in iteration order. An error of the fold is that guard's error."""

    __slots__ = ("_folded", "_run")

    def __init__(self, run: StepRun) -> None:
        self._run = run
        self._folded: dict[str, Any] | None = None

    def value(self) -> dict[str, Any]:
        if self._folded is None:
            self._folded = with_shared(
                self._run.dialect.vars,
                {
                    key: [shared_write(value) for _, value in sorted(given, key=lambda one: one[0])]
                    for key, given in self._run.dialect.shared_vars.items()
                },
            )
        return self._folded

    def lookup(self, name: str | int) -> Any:
        return self.value()[name]  # type: ignore[index]


# Further names of a boundary event that existing playbooks compare with (design.md §5).
_ALIASES = {
    "step.done": frozenset({"call.done", "step.exit"}),
    "loop.done": frozenset({"call.done", "step.exit"}),
    "step.failed": frozenset({"call.error", "step.exit"}),
}
_EXIT = frozenset({"step.exit"})  # of every other end of a step: a wait, a timeout, a handler


# Playbooks compare the name with `==` as plain text, so the aliases have to be part of the comparison.
class EventName(str):
    """An event's name that also equals its aliases."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or other in _ALIASES.get(str(self), _EXIT)

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
        "data": _data(boundary, error, load),
        "result": None if error else _Payload(boundary.result, load),
        "error": error_view(boundary.error),
    }


def _data(boundary: Boundary, error: dict[str, Any] | None, load: Load) -> Any:
    # Waits and handlers bring data of their own; UNSET and not None, which a message may bring.
    if boundary.data is not msgspec.UNSET:
        return boundary.data
    if error is not None:
        return {"error": error}
    if boundary.loop is not None:
        return loop_data(boundary.loop, load)
    return payload_view(_result(boundary.result))


def loop_data(done: LoopDone, load: Load) -> Any:
    """`event.data` of the end of a loop. Stored results are loaded only when a template reads them."""
    data: dict[str, Any] = {"total": done.total, "done": done.done, "failed": done.failed}
    results: Any = _Payload(TaskResult(ref=done.ref, of_loop=True), load)
    if done.ref is not None:
        data["ref"] = msgspec.to_builtins(done.ref)
    else:
        data["results"] = data["result"] = done.results
        results = loop_view(done.results) if done.results is not None else None
    # Only nested loops have paths: which iteration of which level each result belongs to.
    if done.paths is not None or done.paths_ref is not None:
        stored = TaskResult(ref=done.paths_ref)
        data["paths"] = _Payload(stored, load) if done.paths_ref else done.paths
    return _DataWithViews(data, {"results": results, "result": results})


class _DataWithViews:
    """Plain data, with views under some names: of what the plain data has there, or of what is loaded when it is
    read."""

    __slots__ = ("_by_name", "_plain")

    def __init__(self, plain: dict[str, Any], by_name: dict[str, Any]) -> None:
        self._plain, self._by_name = plain, by_name

    def value(self) -> Any:
        return self._plain

    def lookup(self, name: str | int) -> Any:
        return self._by_name[str(name)] if name in self._by_name else self._plain[str(name)]


def _result(result: TaskResult | None) -> dict[str, Any]:
    if result is None:
        return {"result": None}
    if result.ref is not None:
        return {"ref": msgspec.to_builtins(result.ref)}
    return {"result": payload_of(result, _never_loaded)}


def _never_loaded(_: object) -> Any:
    raise AssertionError("a result that is inline is never loaded")


def payload_of(result: TaskResult, load: Load) -> Any:
    """The payload of a result: its `data` member where the kind of the tool wraps it (O-22)."""
    return unwrapped(load(result.ref) if result.ref else result.result, wrapped=result.wrapped)


class _Payload:
    """The payload of a result, loaded when a guard first reads it."""

    __slots__ = ("_load", "_result")

    def __init__(self, result: TaskResult | None, load: Load) -> None:
        self._result = result
        self._load = load

    def value(self) -> Any:
        return payload_of(self._result, self._load) if self._result else None

    def lookup(self, name: str | int) -> Any:
        return self._view().lookup(name)

    def elements(self) -> list[Any] | None:
        """The results of a loop, for a loop or a filter of a template."""
        view = self._view()
        return view.elements() if isinstance(view, ElementsView) else None

    def _view(self) -> PayloadView | ElementsView:
        payload = self.value()
        if self._result is not None and self._result.of_loop and isinstance(payload, list):
            return loop_view(payload)
        return PayloadView(payload, wrapped=self._result.wrapped if self._result else False)


def admission_scope(plan: Plan, execution: Execution, token: Token) -> Scope:
    steps = Views(execution.outputs.results, plan.load)
    return Scope(admission_names(plan, execution, token), steps=steps, known=plan.names)


def admission_names(plan: Plan, execution: Execution, token: Token) -> dict[str, Any]:
    own = {"vars": execution.variables.ctx} if plan.net.dialect == V2_CASE else {}
    return {
        **own,
        "args": token.args,
        "ctx": execution.variables.ctx,
        "workload": execution.origin.workload,
        "event": event_of(token.source, plan.load),
        "execution_id": execution.execution_id,
        "token": {"args": token.args, "inputs": token.inputs, "meta": {}},
    }


def token_of(execution: Execution, run: StepRun) -> dict[str, Any]:
    """`token` as the pipeline of a step run reads it: the joined data and the metadata set by admission."""
    token = execution.tokens.get(run.token.token_id)  # a side run may outlive the token of its step
    return {"inputs": token.inputs if token is not None else [], "meta": run.token.meta}


def arc_scope(
    plan: Plan, execution: Execution, run: StepRun, boundary: Boundary, *, ctx: dict[str, Any] | None = None
) -> Scope:
    """The scope of a step's arcs. `ctx` replaces that of the execution: arcs read the writes of the step's own
    `set_ctx`, which are not applied yet."""
    namespaces: dict[str, Any] = {
        "args": run.token.args,
        "ctx": execution.variables.ctx if ctx is None else ctx,
        "workload": execution.origin.workload,
        "event": event_of(boundary, plan.load),
        "execution_id": execution.execution_id,
    }
    if plan.net.dialect == V2_EVAL:
        namespaces["vars"] = StepVars(run)
    elif plan.net.dialect == V2_CASE:
        namespaces.update(vars=namespaces["ctx"], **boundary_names(boundary.result, boundary.error, plan.load))
    loop = loop_data(boundary.loop, plan.load) if boundary.loop is not None else None
    return Scope(namespaces, steps=Views(execution.outputs.results, plan.load), loop=loop, known=plan.names)


def wait_scope(plan: Plan, execution: Execution, run: StepRun) -> Scope:
    """The scope of wait blocks: the names of admission, and the results of the step's own tasks."""
    # Wait blocks are rendered after the pipeline has ended, so they can read the results of its tasks.
    names = admission_names(plan, execution, execution.tokens[run.token.token_id])
    names.update(args=run.token.args, token={"args": run.token.args, **token_of(execution, run)})
    tasks = Views(run.progress.position.results, plan.load)
    return Scope(names, tasks=tasks, steps=Views(execution.outputs.results, plan.load), known=plan.names)


def surroundings_of(plan: Plan, execution: Execution, run: StepRun) -> PipelineScope:
    """The names that a pipeline of `run` can read."""
    return PipelineScope(
        execution_id=execution.execution_id,
        args=run.token.args,
        workload=execution.origin.workload,
        ctx=execution.variables.ctx,
        token=token_of(execution, run),
        results=execution.outputs.results,
        load=plan.load,
        vars=run.dialect.vars if plan.net.dialect == V2_EVAL else None,
        vars_in_ctx=plan.net.dialect == V2_CASE,
        known=plan.names,
    )
