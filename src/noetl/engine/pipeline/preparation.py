"""Preparation: a task's inputs and spec, rendered anew for every attempt (POL-05). Also `noop`, which has inputs and
nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.base.source import is_template
from noetl.engine.pipeline.patches import overlaid
from noetl.engine.pipeline.scopes import PipelineScope, task_scope
from noetl.events.orders import Position
from noetl.net.kinds import BoundInputs
from noetl.net.net import KIND as TRANSFER
from noetl.net.net import ends_sql
from noetl.net.task import Task
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

KEYCHAIN = "keychain"
NOOP = "noop"


class Prepared(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    inputs: dict[str, Any] = {}
    spec: dict[str, Any] = {}


def plain_inputs(task: Task, bound: BoundInputs) -> Prepared | None:
    """What `prepare` gives for a task without any template, which is the same for all its attempts; None where
    something has to be evaluated. Only flat data: tools own what they are given, and may change it."""
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


def inside(task: Task, around: PipelineScope, position: Position, *, now: float) -> PipelineScope:
    """What the task's own templates see: a workbook task reads the arguments of its reference as `args`, through
    each reference that leads to the next (TOOL-10)."""
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
    """TemplateError where a template fails; the caller makes it an outcome (TPL-09). `over` lies over the inputs: it is
    rendered already, and never looked through for templates again (V2C-17). `bound` is what the task's kind declares:
    it has no default, since a caller that forgot it would paste values into SQL. `secrets` are names besides `keychain`
    that stand for secrets, which SQL may only bind (TOOL-09)."""
    names_of_secrets = {KEYCHAIN, *secrets}
    written: dict[str, Any] = task.inputs.data or {}
    sql = {key: written[key] for key in bound.sql if key in written}
    shell = {key: written[key] for key in bound.commands if key in written}
    ends = ends_sql(task.kind, written)
    plain = {key: written[key] for key in written if key not in sql and key not in shell}
    # Before SQL is bound: its `args` may be read by the statement.
    inputs = _mapping(Authored({**plain, **ends.plain}), scope, now)
    if over:
        inputs = overlaid(inputs, _plain_only(over, sql, shell, ends.sql))
    if shell:
        inputs.update(_commands(shell, scope, now))
    for end, texts in ends.sql.items():
        inputs[end] = {**inputs[end], **_bound(texts, _WithArgs(scope, None), now, secrets=names_of_secrets)}
    if sql:
        names = _WithArgs(scope, inputs.get("args"))
        handed_on = names.bare if _passes(task, names_of_secrets) else set()
        inputs.update(_bound(sql, names, now, secrets=names_of_secrets | handed_on))
    # Verbatim last: code is never rendered, and nothing that is may stand in for it.
    return Prepared(inputs={**inputs, **task.verbatim}, spec=_mapping(task.spec, scope, now))


def _plain_only(over: Mapping[str, Any], *bound: dict[str, Any]) -> Mapping[str, Any]:
    """SQL and commands are bound value by value; as rendered text they would be whatever a response said."""
    for key in over:
        if any(key in texts for texts in bound):
            raise ToolError(
                "sql.fragment", f'"{key}" is not for next_call to write: change the values it reads, in args'
            )
    return over


def _commands(shell: dict[str, Any], scope: Scope, now: float) -> dict[str, Any]:
    from noetl.templates.shell.commands import command  # most playbooks have no commands

    return {key: command(text, scope, now=now) for key, text in shell.items()}


def _bound(sql: dict[str, Any], names: _WithArgs, now: float, *, secrets: set[str]) -> dict[str, Any]:
    from noetl.templates.sql.binding import bind  # most playbooks have no SQL

    return {key: bind(text, names, now=now, secrets=secrets) for key, text in sql.items()}


def _passes(task: Task, secrets: set[str]) -> bool:
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
