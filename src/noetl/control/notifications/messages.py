"""Messages: subject and text of a notice, from its templates or in plain words (NTF-08)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import TemplateError
from noetl.control.notifications.notices import NoticeBody
from noetl.store.notices import NoticeRow
from noetl.templates.authored import Authored
from noetl.templates.render import render
from noetl.templates.scope import Scope

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


class NoticeMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent. `data` is the same for programs."""

    subject: str
    text: str
    data: dict[str, Any]


def message_of(row: NoticeRow, body: NoticeBody, *, now: float) -> NoticeMessage:
    """A template that fails does not stop the notice: it goes out in plain words, with the reason."""
    facts = body.facts
    notice = {"id": row.notice_id, "event": row.event, "rule": row.rule, "at": facts.get("at"), "folded": row.folded}
    names = {"notice": notice, **{name: facts.get(name) for name in _FACTS}}
    problems: list[str] = []
    subject = _rendered(body.subject, names, now, problems) or _default_subject(row)
    text = _rendered(body.text, names, now, problems) or default_text(row, facts)
    if problems:
        text += "\n\n" + "\n".join(f"A template of this notice failed: {problem}" for problem in problems)
    # One line: a line break in a subject would begin a new header of the mail.
    subject = " ".join(subject.split())[:_LONGEST_SUBJECT]
    text = text[:_LONGEST_TEXT]
    data = {**notice, "subject": subject, "text": text} | {name: names[name] for name in _FACTS}
    return NoticeMessage(subject=subject, text=text, data=data)


def _rendered(written: Authored | None, names: dict[str, Any], now: float, problems: list[str]) -> str | None:
    if written is None:
        return None
    try:
        value = render(written, Scope(names), now=now)
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
    return [f"{name + ':':<11}{value}"] if value not in (None, "") else []
