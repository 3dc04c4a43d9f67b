"""Preparation: a task's inputs and spec, rendered anew for every attempt (POL-05)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.net.task import Task
from noetl.pipeline.scopes import task_scope
from noetl.pipeline.surroundings import Surroundings
from noetl.records.position import Position
from noetl.templates.authored import Authored
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.sql.binding import bind

# Inputs that are SQL, by kind: bound, never rendered (DESIGN §8). `tools.kinds` declares the same, held by a test.
SQL_INPUTS = dict.fromkeys(("postgres", "duckdb", "snowflake", "ducklake"), frozenset({"command", "query"}))


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    inputs: dict[str, Any] = {}
    spec: dict[str, Any] = {}


def inside(task: Task, around: Surroundings, position: Position, *, now: float) -> Surroundings:
    """What the task's own templates see: a workbook task reads the arguments of its reference as `args`, through
    each reference that leads to the next (TOOL-10)."""
    for written in (task.args, *task.inner_args):
        if written is not None:
            args = render(written, task_scope(around, position, task), now=now)
            around = msgspec.structs.replace(around, args=args if isinstance(args, dict) else {})
    return around


def prepare(task: Task, scope: Scope, *, now: float) -> Prepared:
    """TemplateError where a template fails; the caller makes it an outcome (TPL-09)."""
    written: dict[str, Any] = task.inputs.data or {}
    sql = {key: written[key] for key in SQL_INPUTS.get(task.kind, ()) if key in written}
    inputs = _mapping(Authored({key: written[key] for key in written if key not in sql}), scope, now)
    names = _WithArgs(scope, inputs.get("args"))
    return Prepared(
        inputs={**inputs, **{key: bind(text, names, now=now) for key, text in sql.items()}, **task.verbatim},
        spec=_mapping(task.spec, scope, now),
    )


class _WithArgs:
    """The scope of SQL: the task's own `args` lie over those of the token, and are bare names after all others."""

    def __init__(self, scope: Scope, args: Any) -> None:
        self._scope = scope
        self._args: dict[str, Any] = args if isinstance(args, dict) else {}

    def lookup(self, name: str) -> Any:
        if name == "args" and self._args:
            given = self._scope.lookup("args")
            return {**given, **self._args} if isinstance(given, dict) else self._args
        try:
            return self._scope.lookup(name)
        except KeyError:
            return self._args[name]


def _mapping(written: Authored, scope: Scope, now: float) -> dict[str, Any]:
    value = render(written, scope, now=now) if written.data else {}
    return value if isinstance(value, dict) else {}
