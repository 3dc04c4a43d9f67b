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
    return Prepared(
        inputs={**_mapping(task.inputs, scope, now), **task.verbatim},
        spec=_mapping(task.spec, scope, now),
    )


def _mapping(written: Authored, scope: Scope, now: float) -> dict[str, Any]:
    value = render(written, scope, now=now) if written.data else {}
    return value if isinstance(value, dict) else {}
