"""Waits, timeouts, handlers and compensation: what a step may carry besides its pipeline (TMR, MSG, HUM, SAGA, ADV)."""

from __future__ import annotations

from typing import Any

from noetl.net.task import Task, _Data
from noetl.templates.values import Authored


class Timer(_Data, frozen=True, kw_only=True, omit_defaults=True):
    id: Authored
    duration: Authored | None = None
    until: Authored | None = None
    cancellable: bool = False


class Message(_Data, frozen=True, kw_only=True, omit_defaults=True):
    name: Authored
    correlation: Authored = Authored({})
    timeout: Authored | None = None
    # escalate: the wait ends with `message.timeout` as its event; fail: the step fails; ignore: it waits on.
    timeout_action: str = "escalate"


class Signal(_Data, frozen=True, kw_only=True, omit_defaults=True):
    name: Authored


class FormField(_Data, frozen=True, kw_only=True, omit_defaults=True):
    field: str
    type: str = "string"
    options: tuple[Any, ...] = ()
    required: bool = False
    default: Authored | None = None


class HumanTask(_Data, frozen=True, kw_only=True, omit_defaults=True):
    title: Authored | None = None
    description: Authored | None = None
    data: Authored | None = None  # what the person decides by
    role: Authored | None = None
    user: Authored | None = None
    form: tuple[FormField, ...] = ()
    due_date: Authored | None = None
    escalate_after: Authored | None = None
    escalate_to_role: Authored | None = None
    escalate_to_user: Authored | None = None
    escalation_mode: str = "reassign"


class Timeout(_Data, frozen=True, kw_only=True, omit_defaults=True):
    duration: Authored
    # alternative | fail | ignore; only `alternative` sends the token elsewhere.
    on_timeout: str = "fail"
    alternative: str | None = None


class Compensation(_Data, frozen=True, kw_only=True, omit_defaults=True):
    tasks: tuple[Task, ...]
    # Whether it may be run again when its worker was lost in the middle; else an operator has to look (SAGA-03).
    idempotent: bool = False


class Handler(_Data, frozen=True, kw_only=True, omit_defaults=True):
    event: str
    when: Authored | None = None
    tasks: tuple[Task, ...] = ()


class Handlers(_Data, frozen=True, kw_only=True, omit_defaults=True):
    handlers: tuple[Handler, ...]
    # Whether the step run is stopped when its handler begins.
    interrupting: bool = False
