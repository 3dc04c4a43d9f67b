"""Scopes of a pipeline: which names a task's inputs and its policy see, and with which values (TPL-05, TPL-06)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.engine.pipeline.patches import patched
from noetl.events.orders import Position
from noetl.events.outcomes import Error, Outcome, Reference, TaskResult, unwrapped
from noetl.events.secret_materials import Material
from noetl.events.tasks import Decided
from noetl.net.task import Task
from noetl.templates.scope import Scope, loop_of
from noetl.templates.views import ResultProxy, full_view, payload_view

# Everything a pipeline can read besides its own position, as plain data.


class KeychainView:
    """`keychain` as templates and code read it: `keychain.name.field`; `keychain.name` is a secret of one text
    (KEY-03).

    Only what was fetched for the task is there. Nothing can be written through it."""

    __slots__ = ("_materials",)

    def __init__(self, materials: Mapping[str, Material]) -> None:
        self._materials = materials

    def lookup(self, name: str | int) -> Any:
        return MaterialView(self._materials[str(name)])

    def value(self) -> Any:
        return {name: dict(material.fields) for name, material in self._materials.items()}


class MaterialView:
    __slots__ = ("_material",)

    def __init__(self, material: Material) -> None:
        self._material = material

    def lookup(self, name: str | int) -> Any:
        return self._material.fields[str(name)]

    def value(self) -> Any:
        return self._material.text_or_fields()


Load = Callable[[Reference], Any]


def no_stored_results(reference: Reference) -> Any:
    """The loader for callers without a results store."""
    raise ToolError("result.missing", f"the stored result {reference.key} cannot be read here")


class Iteration(msgspec.Struct, frozen=True, kw_only=True):
    """The iteration a pipeline belongs to. `names` are those of `iter` that no task can overwrite: the element under
    its iterator, `index` and `parent` (SCOPE-08); `bare` the iterators as bare names (TPL-06), `iterator` its own."""

    path: tuple[int, ...]
    iterator: str
    names: dict[str, Any]
    bare: dict[str, Any]


class PipelineScope(msgspec.Struct, frozen=True, kw_only=True):
    """`results` are those of finished steps, by name; `load` fetches what one only refers to (RES-06). `keychain` is
    there only where a task that reads it is about to run, in a worker (KEY-03); `iteration` in a loop; `vars` in
    v2-eval, where the step run has some (V2E-05). `vars_in_ctx`: in v2-case they are the same store (C-05). `names`
    are further ones of the place that is rendered; `known` those that the playbook can define, None for any."""

    execution_id: str
    args: dict[str, Any]
    workload: dict[str, Any]
    ctx: dict[str, Any]
    token: dict[str, Any]
    results: Mapping[str, TaskResult]
    load: Load = no_stored_results
    keychain: KeychainView | None = None
    iteration: Iteration | None = None
    vars: dict[str, Any] | None = None
    vars_in_ctx: bool = False
    names: dict[str, Any] = {}
    known: frozenset[str] | None = None

    def with_writes(self, decision: Decided, reduced: Collection[str] = ()) -> PipelineScope:
        """The names that the next task of the pipeline reads, including writes of the policy of this one. Keys of
        `reduced` are contributions to a loop, which their own iteration does not see (LOOP-14)."""
        around = self
        if decision.set_ctx:
            # A contribution is folded when the loop ends. Shown here, an iteration would read its own part as the
            # whole.
            patch = {key: value for key, value in decision.set_ctx.items() if key not in reduced}
            around = msgspec.structs.replace(around, ctx=patched(around.ctx, patch))
        if decision.set_vars:
            around = msgspec.structs.replace(around, vars=patched(around.vars or {}, decision.set_vars))
        return around


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
        of_loop=result.of_loop,
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
        # The names of the iteration last: a task cannot overwrite the element or its index (SCOPE-08).
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
        namespaces["outcome"] = outcome_names(outcome, around.load)
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


def outcome_names(outcome: Outcome, load: Load) -> dict[str, Any]:
    """`outcome` as policies read it: the keys of OUT-01 and the kind's own words (OUT-02)."""
    full = load(outcome.ref) if outcome.ref else outcome.result
    return {
        "status": outcome.status.value,
        "result": full_view(full, wrapped=outcome.wrapped),
        "data": payload_view(unwrapped(full, wrapped=outcome.wrapped)),
        "error": error_view(outcome.error),
        "meta": outcome.meta.readable(),
        **outcome.helpers,
    }


# Errors as templates read them: `error.kind` also equals the common names of the error (OUT-02).
#
# A view of plain data: what leaves a template is the kind itself, and the aliases are only ever compared with.


class AliasedName(str):
    """A name that also equals its aliases: of an error's kind (OUT-02), of an event (EVT-10)."""

    __slots__ = ("_aliases",)
    _aliases: frozenset[str]

    def __new__(cls, name: str, aliases: frozenset[str]) -> AliasedName:
        made = super().__new__(cls, name)
        made._aliases = aliases
        return made

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or other in self._aliases

    def __ne__(self, other: object) -> bool:
        return not self == other

    # The hash is that of the name alone: an alias is found by comparison, never as the key of a mapping.
    __hash__ = str.__hash__


class ErrorView:
    """An error by its fields."""

    __slots__ = ("_error", "_plain")

    def __init__(self, error: Error) -> None:
        self._error = error
        self._plain = error.readable()

    def lookup(self, name: str | int) -> Any:
        if name == "kind":
            return AliasedName(self._error.kind, aliases_of(self._error))
        return self._plain[str(name)]

    def value(self) -> Any:
        return self._plain


def error_view(error: Error | None) -> ErrorView | None:
    return ErrorView(error) if error is not None else None


def aliases_of(error: Error) -> frozenset[str]:
    """Further names of an HTTP error."""
    if error.kind == "http.transport":
        return frozenset({"connection", "network"})
    if error.kind != "http.status" or error.status is None:
        return frozenset()
    names = {"server_error"} if error.status >= 500 else {"client_error"}
    by_status = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limit", 504: "timeout"}
    return frozenset({*names, by_status.get(error.status, "http.status")})
