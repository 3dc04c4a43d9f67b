"""Notices of a commit: which of its events cause a notice, and to which destinations (NTF-01, NTF-02). Also the subject
and text of each.

A notice is a row of the commit itself. Every destination has its own, so that each is retried by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.errors import TemplateError
from noetl.base.ids import derived
from noetl.control.notifications.rules import NotificationRules
from noetl.engine.execution import Execution
from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.executions import PlaybookLate, PlaybookProcessed
from noetl.events.steps import StepFailed
from noetl.events.waits import HumanCreated, HumanEscalated, HumanOverdue
from noetl.net.net import Destination, Net, Notification
from noetl.store.notices import NoticeRow
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

OWN = "playbook"  # the name of the rule for notices that the playbook itself asks for
_NOTICE_EVENTS = (PlaybookProcessed, PlaybookLate, HumanCreated, HumanEscalated, HumanOverdue)
_LONGEST_SUBJECT, _LONGEST_TEXT = 200, 20_000
_FACTS = ("execution", "error", "task")
_HAPPENED = {
    "failed": "failed",
    "completed": "completed",
    "cancelled": "was cancelled",
    "late": "is late",
    "task_assigned": "has a task for you",
    "task_overdue": "has an overdue task",
    "test": "is a test of this notification rule",
}


class NoticeBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data from which a message is built when the notice is sent. Stored as JSON in the row of the notice."""

    destination: Destination
    # Templates of the author; None: the default text for this event.
    subject: Authored | None = None
    text: Authored | None = None
    # What the templates read, besides `notice`. Taken at the commit: a late notice describes the state at its event.
    facts: dict[str, Any] = {}


class NoticeWriter:
    """Makes the notices of commits. With `public_url`, the address of the web UI, notices link to their execution."""

    def __init__(self, rules: NotificationRules, public_url: str | None = None) -> None:
        self._rules, self._public_url = rules, (public_url or "").rstrip("/")

    def late_after(self, net: Net, *, is_nested: bool) -> tuple[float, ...]:
        """The expected durations that rules of the installation have for a playbook."""
        if is_nested or not self._rules.known:
            return ()
        rules = (rule for rule in self._rules.known if "late" in rule.on and rule.applies_to(net))
        return tuple(after_s for rule in rules if (after_s := rule.notification("late").after_s) is not None)

    def rows(
        self, net: Net, execution: Execution, events: Sequence[Event], *, created_at: float
    ) -> tuple[NoticeRow, ...]:
        """The notices of one execution's events in a commit; most commits have none."""
        # An execution that compensates another one is a part of it, and causes no notices of its own.
        if (not net.notifications and not self._rules.known) or execution.origin.compensates is not None:
            return ()
        return tuple(
            row
            for event in events
            if isinstance(event.payload, _NOTICE_EVENTS)
            for rule, notification in self._wanted_notifications(net, execution, event.payload)
            for row in self._rows_of(
                net, execution, event, rule, notification, self._facts(net, execution, events, event, created_at)
            )
        )

    def _wanted_notifications(
        self, net: Net, execution: Execution, payload: Payload
    ) -> Iterator[tuple[str, Notification]]:
        """The notifications of the playbook and of the rules for an event, each with the name of its rule."""
        name = notice_event(payload)
        after_s = payload.after_s if isinstance(payload, PlaybookLate) else None
        for notification in net.notifications:
            if notification.event == name and notification.after_s == after_s:
                yield OWN, notification
        # A rule of the installation applies to executions that a user or trigger started, not to their children.
        if name is None or execution.origin.parent_execution_id is not None:
            return
        for rule in self._rules.known:
            if name in rule.on and rule.applies_to(net):
                notification = rule.notification(name)
                if after_s is None or notification.after_s == after_s:
                    yield rule.name, notification

    def _rows_of(
        self, net: Net, execution: Execution, event: Event, rule: str, wanted: Notification, facts: dict[str, Any]
    ) -> Iterator[NoticeRow]:
        for index, destination in enumerate(wanted.notify):
            body = NoticeBody(destination=destination, subject=wanted.subject, text=wanted.text, facts=facts)
            is_throttled = wanted.throttle_s > 0
            yield NoticeRow(
                # Derived, so that a repeated decision makes the same notice, and a receiver can detect a repeat.
                notice_id=derived("notice", event.event_id, rule, index),
                execution_id=execution.execution_id,
                path=net.path,
                event=facts["event"],
                rule=rule,
                created_at=event.ts,
                due_at=event.ts,
                # Notices of one key are folded into one within `throttle_s`.
                fold_key=derived(rule, facts["event"], net.path, index) if is_throttled else None,
                throttle_s=wanted.throttle_s,
                body=msgspec.json.encode(body),
            )

    def _facts(
        self, net: Net, execution: Execution, events: Sequence[Event], event: Event, created_at: float
    ) -> dict[str, Any]:
        execution_id = execution.execution_id
        status = execution.lifecycle.status.value if execution.lifecycle.status is not None else "running"
        about: dict[str, Any] = {
            "id": execution_id,
            "path": net.path,
            "name": net.name,
            "version": net.version,
            "status": status,
            "started_at": rfc3339(created_at),
            "finished_at": rfc3339(execution.lifecycle.finished_at)
            if execution.lifecycle.finished_at is not None
            else None,
            "duration_s": round(max(0.0, event.ts - created_at), 3),
            "labels": net.metadata.get("labels") or {},
            "url": self._link("executions", execution_id),
        }
        task = _task(execution, event.payload)
        return {
            "event": notice_event(event.payload),
            "at": rfc3339(event.ts),
            "execution": about,
            "error": _error(execution, events, event.payload),
            # The page of the task itself: its assignee needs that one, not the page of the execution.
            "task": task and {**task, "url": self._link("tasks", task["id"])},
        }

    def _link(self, screen: str, thing_id: str) -> str | None:
        return f"{self._public_url}/{screen}/{thing_id}" if self._public_url else None


def notice_event(payload: Payload) -> str | None:
    """The name under which a playbook or a rule asks for this event."""
    match payload:
        case PlaybookProcessed():
            return payload.status.value
        case PlaybookLate():
            return "late"
        case HumanCreated():
            return "task_assigned"
        case HumanEscalated():
            return "task_assigned" if payload.mode == "reassign" else None
        case HumanOverdue():
            return "task_overdue"
        case _:
            return None


def _error(execution: Execution, events: Sequence[Event], payload: Payload) -> dict[str, Any] | None:
    error = payload.error or execution.lifecycle.error if isinstance(payload, PlaybookProcessed) else None
    if error is None:
        return None
    failed = next((event.step for event in reversed(events) if isinstance(event.payload, StepFailed)), None)
    return {"kind": error.kind, "message": error.message, "code": error.code, "step": failed}


def _task(execution: Execution, payload: Payload) -> dict[str, Any] | None:
    if not isinstance(payload, HumanCreated | HumanEscalated | HumanOverdue):
        return None
    task = execution.open_waits.human_tasks.get(payload.task_id)
    if task is None:
        return {"id": payload.task_id}
    return {
        "id": task.task_id,
        "title": task.title,
        "step": task.step,
        "role": task.role,
        "user": task.user,
        "due_at": rfc3339(task.asked.due_at) if task.asked.due_at is not None else None,
    }


class NoticeMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The message to a destination (NTF-08). `data` is the same for programs."""

    subject: str
    text: str
    data: dict[str, Any]


def message_of(row: NoticeRow, body: NoticeBody, *, now: float) -> NoticeMessage:
    """The message of a notice. If a template of it fails, the default text is sent, with the reason."""
    facts = _without_markup(body.facts, body.destination.kind)
    notice = {"id": row.notice_id, "event": row.event, "rule": row.rule, "at": facts.get("at"), "folded": row.folded}
    names = {"notice": notice, **{name: facts.get(name) for name in _FACTS}}
    problems: list[str] = []
    subject = _rendered_text(body.subject, names, now, problems) or _default_subject(row)
    text = _rendered_text(body.text, names, now, problems) or default_text(row, facts)
    if problems:
        text += "\n\n" + "\n".join(f"A template of this notice failed: {problem}" for problem in problems)
    # One line: a line break in a subject would begin a new header of the mail.
    subject = " ".join(subject.split())[:_LONGEST_SUBJECT]
    text = text[:_LONGEST_TEXT]
    data = {**notice, "subject": subject, "text": text} | {name: names[name] for name in _FACTS}
    return NoticeMessage(subject=subject, text=text, data=data)


def _without_markup(value: Any, kind: str) -> Any:
    """The facts without what a chat would read as markup. A title or an error may hold text of a stranger: with
    `<!channel>` it would call a whole channel, and a link with a text of its own looks like one of NoETL."""
    match value:
        case str() if kind == "slack":
            return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        case str() if kind == "teams":
            return value.replace("](", "] (")
        case dict():
            return {name: _without_markup(one, kind) for name, one in value.items()}
        case list():
            return [_without_markup(one, kind) for one in value]
        case _:
            return value


def _rendered_text(template: Authored | None, names: dict[str, Any], now: float, problems: list[str]) -> str | None:
    if template is None:
        return None
    try:
        value = render(template, Scope(names), now=now)
    except TemplateError as problem:
        problems.append(str(problem))
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _default_subject(row: NoticeRow) -> str:
    more = f" ({row.folded} more)" if row.folded else ""
    return f"[noetl] {row.path} {_HAPPENED.get(row.event, row.event)}{more}"


def default_text(row: NoticeRow, facts: dict[str, Any]) -> str:
    execution, error, task = (facts.get(name) or {} for name in _FACTS)
    lines = [f"{row.path} {_HAPPENED.get(row.event, row.event)}."]
    if row.folded:
        lines.append(f"The same happened {row.folded} more times since the last notice.")
    lines.append("")
    lines += _line("Execution", execution.get("id"))
    lines += _line("Link", task.get("url") or execution.get("url"))
    lines += _line("Started", execution.get("started_at"))
    lines += _line("Duration", f"{execution['duration_s']:g} s" if "duration_s" in execution else None)
    lines += _line("Step", error.get("step"))
    lines += _line("Error", f"{error['kind']}: {error['message']}" if error else None)
    lines += _line("Task", task.get("title"))
    lines += _line("For", task.get("user") or task.get("role"))
    lines += _line("Due", task.get("due_at"))
    return "\n".join(lines)


def _line(name: str, value: Any) -> list[str]:
    # A further line of a value is indented: it could be read as a field, such as a link to another place.
    lines = str(value).splitlines() if value is not None else []
    return [f"{name + ':' if at == 0 else '':<11}{line}" for at, line in enumerate(lines)]
