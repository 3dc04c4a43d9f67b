"""Preparation: a task's inputs and spec, rendered for every attempt (POL-05). Also `noop`, which has inputs and
nothing else. Also step-level `args` of a looped step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from noetl.base.diagnostics import is_template
from noetl.base.errors import ToolError
from noetl.engine.pipeline.scopes import Iteration, PipelineScope, task_scope, view_of
from noetl.events.orders import Iterations, Outer, Position, SideRunOrder
from noetl.net.kinds import BoundInputs
from noetl.net.net import Transition
from noetl.net.task import TRANSFER, Task, ends_sql
from noetl.templates.expression import parse
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored, deep_merged

KEYCHAIN = "keychain"
NOOP = "noop"
_OF_ITERATION = frozenset({"iter", "loop", "loop_index"})


class Prepared(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    inputs: dict[str, Any] = {}
    spec: dict[str, Any] = {}


def plain_inputs(task: Task, bound: BoundInputs) -> Prepared | None:
    """The result of `prepare` for a task without any template, which is the same for all its attempts; None if an
    input must be evaluated. Only flat data: tools own their inputs and may change them."""
    if not isinstance(task.inputs.data, dict | None) or not isinstance(task.spec.data, dict | None):
        return None
    inputs, spec = task.inputs.data or {}, task.spec.data or {}
    if takes_sql(task, bound) or any(key in inputs for key in bound.commands):
        return None
    if not all(map(_is_plain, (*inputs.values(), *task.verbatim.values(), *spec.values()))):
        return None
    return Prepared(inputs={**inputs, **task.verbatim}, spec=spec)


def _is_plain(value: Any) -> bool:
    return not is_template(value) if isinstance(value, str) else value is None or isinstance(value, bool | int | float)


def takes_sql(task: Task, bound: BoundInputs) -> bool:
    """Whether some input of the task may be SQL."""
    return bool(bound.sql) or task.kind == TRANSFER


def with_reference_args(task: Task, around: PipelineScope, position: Position, *, now: float) -> PipelineScope:
    """The names that the task's own templates read: a workbook task reads the arguments of its reference as `args`,
    through each reference that leads to the next (TOOL-10)."""
    for written in (task.args, *task.inner_args):
        if written is not None:
            args = render(written, task_scope(around, position, task), now=now)
            around = msgspec.structs.replace(around, args=args if isinstance(args, dict) else {})
    return around


def prepare(
    task: Task,
    scope: Scope,
    *,
    now: float,
    bound: BoundInputs,
    over: Mapping[str, Any] | None = None,
    secrets: Collection[str] = (),
) -> Prepared:
    """TemplateError where a template fails; the caller makes it an outcome (TPL-09). `over` overrides the inputs: it
    is rendered already, and is not rendered again (V2C-17). `bound` is the declaration of the task's kind: it has no
    default, since a caller that forgot it would paste values into SQL. `secrets` are names besides `keychain` that
    stand for secrets, which SQL may only bind (TOOL-09)."""
    names_of_secrets = {KEYCHAIN, *secrets}
    written: dict[str, Any] = task.inputs.data or {}
    sql = {key: written[key] for key in bound.sql if key in written}
    shell = {key: written[key] for key in bound.commands if key in written}
    ends = ends_sql(task.kind, written)
    plain = {key: written[key] for key in written if key not in sql and key not in shell}
    # Before SQL is bound: its `args` may be read by the statement.
    inputs = _mapping(Authored({**plain, **ends.plain}), scope, now)
    if over:
        inputs = deep_merged(inputs, _plain_only(over, sql, shell, ends.sql))
    if shell:
        inputs.update(_commands(shell, scope, now))
    for end, texts in ends.sql.items():
        inputs[end] = {**inputs[end], **_bound_sql(texts, _WithArgs(scope, None), now, secrets=names_of_secrets)}
    if sql:
        names = _WithArgs(scope, inputs.get("args"))
        handed_on = names.bare if _passes_secret(task, names_of_secrets) else set()
        inputs.update(_bound_sql(sql, names, now, secrets=names_of_secrets | handed_on))
    # Verbatim last: code is never rendered, and no rendered value may replace it.
    return Prepared(inputs={**inputs, **task.verbatim}, spec=_mapping(task.spec, scope, now))


def _plain_only(over: Mapping[str, Any], *bound: dict[str, Any]) -> Mapping[str, Any]:
    """SQL and commands are bound value by value; as rendered text a response could change them."""
    for key in over:
        if any(key in texts for texts in bound):
            raise ToolError(
                "sql.fragment", f'"{key}" is not for next_call to write: change the values it reads, in args'
            )
    return over


def _commands(shell: dict[str, Any], scope: Scope, now: float) -> dict[str, Any]:
    from noetl.templates.shell_commands import command  # most playbooks have no commands

    return {key: command(text, scope, now=now) for key, text in shell.items()}


def _bound_sql(sql: dict[str, Any], names: _WithArgs, now: float, *, secrets: set[str]) -> dict[str, Any]:
    from noetl.templates.sql.binding import bind  # most playbooks have no SQL

    return {key: bind(text, names, now=now, secrets=secrets) for key, text in sql.items()}


def _passes_secret(task: Task, secrets: set[str]) -> bool:
    """Whether the task hands a secret on to its SQL as `args`; rather once too often than not."""
    written = msgspec.json.encode(((task.inputs.data or {}).get("args"), task.args, task.inner_args))
    return any(name.encode() in written for name in secrets)


class _WithArgs:
    """The scope of SQL: the task's own `args` lie over those of the token, and are bare names after all others."""

    def __init__(self, scope: Scope, args: Any) -> None:
        self._scope = scope
        self._args: dict[str, Any] = args if isinstance(args, dict) else {}

    @property
    def bare(self) -> set[str]:
        """The names under which `args` can be read."""
        given = self.lookup("args")
        return {"args", *(given if isinstance(given, dict) else ())}

    def lookup(self, name: str) -> Any:
        if name == "args" and self._args:
            given = self._scope.lookup("args")
            return {**given, **self._args} if isinstance(given, dict) else self._args
        try:
            return self._scope.lookup(name)
        except KeyError:
            if name not in self._args:
                raise
            return self._args[name]


def _mapping(written: Authored, scope: Scope, now: float) -> dict[str, Any]:
    value = render(written, scope, now=now) if written.data else {}
    return value if isinstance(value, dict) else {}


# `noop`: it does nothing and succeeds, and carries policy (TOOL-08). With `args` its result is the rendered args.


def noop_result(inputs: Mapping[str, Any]) -> Any:
    return inputs.get("args")


def keeps_prev(task: Task) -> bool:
    """Whether `_prev` stays as it was (PIPE-06). Args that turn out to be null are args, and their result is null."""
    return task.kind == NOOP and (task.inputs.data or {}).get("args") is None


# Step-level `args` of a looped step: those that read the iteration are rendered in each, the others once (design.md
# §5).
#
# What a token brings wins over both, as everywhere.


def split_args(step: Transition) -> tuple[dict[str, Any], dict[str, Any]]:
    """The args of a step as written: those rendered when it is admitted, and those of each iteration."""
    written = step.args.data if step.args is not None else {}
    if not written or not isinstance(written, dict) or step.loop is None:
        return written, {}
    names = _OF_ITERATION | _iterators(step)
    each = {key: value for key, value in written.items() if _reads(value, names)}
    return {key: value for key, value in written.items() if key not in each}, each


def with_iteration_args(step: Transition, around: PipelineScope, position: Position, *, now: float) -> PipelineScope:
    """The names that a pipeline of the iteration in `around` reads. TemplateError if an arg cannot be rendered."""
    _, each = split_args(step)
    written = {key: value for key, value in each.items() if key not in around.args}
    if not written or not step.tasks:
        return around
    args = render(Authored(written), task_scope(around, position, step.tasks[0]), now=now)
    return msgspec.structs.replace(around, args={**args, **around.args})


def _iterators(step: Transition) -> frozenset[str]:
    names, loop = set(), step.loop
    while loop is not None:
        names.add(loop.iterator)
        loop = loop.inner
    return frozenset(names)


def _reads(value: Any, names: frozenset[str]) -> bool:
    match value:
        case str() if is_template(value):
            return any(read.root in names for read in parse(value).references)
        case dict():
            return any(_reads(item, names) for item in value.values())
        case list():
            return any(_reads(item, names) for item in value)
        case _:
            return False


# Enclosing iterations of an order that is not a plain pipeline, as templates read them (LOOP-06, SAGA-01).
Enclosing = tuple[dict[str, Any] | None, dict[str, Any]]


def enclosing_iterations(outer: Sequence[Outer]) -> Enclosing:
    """`iter.parent` of what is inside, and the bare names of the iterators around it."""
    parent: dict[str, Any] | None = None
    bare: dict[str, Any] = {}
    for one in outer:
        parent = {one.iterator: one.item, "index": one.index, "parent": parent}
        bare[one.iterator] = one.item
    return parent, bare


def iteration_of(its: Iterations, around: Enclosing, index: int, item: Any) -> Iteration:
    """One iteration of an order, inside those that `enclosing` gives of it."""
    parent, bare = around
    return Iteration(
        path=(*its.path, index),
        iterator=its.iterator,
        names={its.iterator: item, "index": index, "parent": parent},
        bare={**bare, its.iterator: item},
    )


def side_run_surroundings(side_run: SideRunOrder, around: PipelineScope) -> PipelineScope:
    """The names that templates of a side run read: the result it undoes, the event it handles, the iteration it
    belongs to."""
    names = dict(side_run.names)
    if side_run.result is not None:
        names["result"] = view_of(side_run.result, around.load)
    changes: dict[str, Any] = {"names": {**around.names, **names}}
    if side_run.outer:
        own, bare = enclosing_iterations(side_run.outer)
        assert own is not None
        iterator = side_run.outer[-1].iterator
        # a pipeline of its own: it has no path
        changes["iteration"] = Iteration(path=(), iterator=iterator, names=own, bare=bare)
    return msgspec.structs.replace(around, **changes)
