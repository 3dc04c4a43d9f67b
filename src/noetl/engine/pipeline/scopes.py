"""Scopes of a pipeline: which names a task's inputs and its policy see, and with which values (TPL-05, TPL-06)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from noetl.engine.pipeline.error_views import error_view
from noetl.engine.pipeline.pipeline_scope import Load, PipelineScope
from noetl.events.outcomes import Outcome, TaskResult
from noetl.events.position import Position
from noetl.net.task import Task
from noetl.templates.scope import Scope, loop_of
from noetl.templates.views import ResultProxy, full_view, payload_view

_IMPLICIT = {"index": 0, "parent": None}  # one implicit iteration without a loop (POL-10)


def view_of(result: TaskResult, load: Load) -> ResultProxy:
    """A result as templates read it under its name (TPL-07)."""
    ref = result.ref
    return ResultProxy(
        result.result,
        unwrap=result.wrapped,
        status=result.status.value,
        error=error_view(result.error),
        ref=msgspec.to_builtins(ref) if ref else None,
        load=(lambda: load(ref)) if ref else None,
        inline=result.inline,
        own=result.own,
        tasks=Views(result.tasks, load) if result.tasks else None,
    )


class Views(Mapping[str, ResultProxy]):
    """Results by name, made into views only when a template asks for one."""

    def __init__(self, results: Mapping[str, TaskResult], load: Load) -> None:
        self._results = results
        self._load = load

    def __getitem__(self, name: str) -> ResultProxy:
        return view_of(self._results[name], self._load)

    def __contains__(self, name: object) -> bool:
        return name in self._results

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


def task_scope(around: PipelineScope, position: Position, task: Task, *, outcome: Outcome | None = None) -> Scope:
    """The scope of a task's inputs; with `outcome`, of its policy."""
    iteration = around.iteration
    namespaces: dict[str, Any] = {
        "args": around.args,
        "ctx": around.ctx,
        "workload": around.workload,
        "iter": {**position.iter, **(iteration.names if iteration else _IMPLICIT)},
        "execution_id": around.execution_id,
        "token": {"args": around.args, **around.token},
        "_prev": view_of(position.prev, around.load) if position.prev else None,
        "_task": task.name,
        "_attempt": position.attempt,
    }
    if around.vars is not None:
        namespaces["vars"] = around.vars
    elif around.vars_in_ctx:
        namespaces["vars"] = around.ctx
    if around.keychain is not None:
        namespaces["keychain"] = around.keychain
    if outcome is not None:
        namespaces["outcome"] = outcome_of(outcome, around.load)
    if around.names:
        namespaces.update(around.names)
    return Scope(
        namespaces,
        iteration=iteration.bare if iteration else None,
        tasks=Views(position.results, around.load),
        steps=Views(around.results, around.load),
        loop=loop_of(iteration.names, iteration.iterator) if iteration else None,
        known=around.known,
    )


def outcome_of(outcome: Outcome, load: Load) -> dict[str, Any]:
    """`outcome` as policies read it: the keys of OUT-01 and the kind's own words (OUT-02)."""
    full = load(outcome.ref) if outcome.ref else outcome.result
    is_wrapped = outcome.wrapped and isinstance(full, dict) and "data" in full
    return {
        "status": outcome.status.value,
        "result": full_view(full, wrapped=outcome.wrapped),
        "data": payload_view(full["data"] if is_wrapped else full),
        "error": error_view(outcome.error),
        "meta": outcome.meta.readable(),
        **outcome.helpers,
    }
