"""Permissions and effects of actions on human tasks (HUM-02, HUM-03)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, assert_never

from noetl.base.ids import derived
from noetl.engine.commands import ActOnTask, TaskAction
from noetl.engine.decision import ChangeTask, Decision, Draft, Refusal
from noetl.engine.execution import Execution
from noetl.engine.waits.due_timers import end_wait, task_decision
from noetl.engine.waits.state import HumanTaskState, OpenHumanTask, changed_task
from noetl.events.orders import ReportResult
from noetl.events.waits import HumanClaimed, HumanCommented, HumanReleased, TaskCompleted

MAX_COMMENT, MAX_COMMENTS = 2_000, 100


def act_on_task(execution: Execution, command: ActOnTask) -> Decision:
    """Claim, release, complete or comment. A refusal has a reason, and nothing changes."""
    task = execution.open_waits.human_tasks.get(command.task_id)
    if task is None:
        return _refusal(ReportResult.NOT_FOUND, "this execution has no such task")
    if refused := _out_of_date(task, command):
        return refused
    match command.action:
        case TaskAction.CLAIM:
            return _claim(execution, task, command)
        case TaskAction.RELEASE:
            return _release(execution, task, command)
        case TaskAction.COMPLETE:
            return _complete(execution, task, command)
        case TaskAction.COMMENT:
            return _comment(execution, task, command)
        case _:
            assert_never(command.action)


def _refusal(verdict: ReportResult, detail: str) -> Decision:
    return Decision(verdict=verdict, detail=detail)


def _out_of_date(task: OpenHumanTask, command: ActOnTask) -> Decision | None:
    if not task.is_open:
        by = f" by {task.completed_by}" if task.completed_by else ""
        return _refusal(ReportResult.CONFLICT, f'task "{task.title}" was {task.state.value}{by}')
    if command.version is not None and command.version != task.version:
        detail = f'task "{task.title}" has changed: you saw version {command.version}, this is version {task.version}'
        return _refusal(ReportResult.CONFLICT, detail)
    return None


def _is_for(task: OpenHumanTask, command: ActOnTask) -> bool:
    """A task without an assignee is for every user."""
    if task.user is not None:
        return command.actor == task.user
    return task.role is None or task.role in command.roles


def _forbidden(task: OpenHumanTask) -> Decision:
    whose = f"user {task.user}" if task.user is not None else f"human role {task.role}, which you do not act in"
    return _refusal(ReportResult.FORBIDDEN, f'task "{task.title}" is for {whose}')


def _claim(execution: Execution, task: OpenHumanTask, command: ActOnTask) -> Decision:
    if not _is_for(task, command):
        return _forbidden(task)
    if task.state is HumanTaskState.CLAIMED:
        if task.claimed_by == command.actor:
            # A repeated click or a retried request. The task is already theirs, so this is no conflict.
            return Decision(verdict=ReportResult.DUPLICATE)
        return _refusal(ReportResult.CONFLICT, f'task "{task.title}" is claimed by {task.claimed_by}')
    return _changed_decision(execution, task, HumanClaimed(task_id=task.task_id, actor=command.actor), command.at)


def _release(execution: Execution, task: OpenHumanTask, command: ActOnTask) -> Decision:
    if task.state is not HumanTaskState.CLAIMED:
        return _refusal(ReportResult.CONFLICT, f'task "{task.title}" is not claimed')
    # An administrator, too: a user who is ill or has left would keep the task, and its execution would wait for ever.
    if task.claimed_by != command.actor and not command.is_admin:
        detail = f'task "{task.title}" is claimed by {task.claimed_by}: only they or an administrator can release it'
        return _refusal(ReportResult.FORBIDDEN, detail)
    return _changed_decision(execution, task, HumanReleased(task_id=task.task_id, actor=command.actor), command.at)


def _complete(execution: Execution, task: OpenHumanTask, command: ActOnTask) -> Decision:
    """Only by a user the task is assigned to, and a claimed one only by the user who claimed it."""
    if task.state is HumanTaskState.CLAIMED and task.claimed_by != command.actor:
        return _refusal(ReportResult.CONFLICT, f'task "{task.title}" is claimed by {task.claimed_by}')
    # Also if this user has claimed it: the role may have been taken away since.
    if not _is_for(task, command):
        return _forbidden(task)
    values, problems = fill_form(task.form, command.values)
    if problems:
        found = "; ".join(f"{one.field}: {one.found}, {one.allowed}" for one in problems)
        return Decision(verdict=ReportResult.INVALID, detail=f"the form is not right: {found}", problems=problems)
    comment = command.text.strip()
    if comment and (refused := _comment_problem(task, comment)):
        return refused
    completed = TaskCompleted(task_id=task.task_id, actor=command.actor, result=values)
    draft = Draft(execution, command.at, derived(task.task_id, task.version))
    wait = execution.open_waits.waits[task.task_id]
    if comment:
        # One decision with the completion: a comment that is stored alone would be seen without what it explains.
        commented = HumanCommented(task_id=task.task_id, actor=command.actor, text=comment)
        draft.add(commented, run=execution.runs[task.step_run_id], parent_id=wait.event_id)
        task = changed_task(task, commented, command.at)
    end_wait(draft, execution, wait, completed)
    draft.add_effect(ChangeTask(changed_task(task, completed, command.at)))
    return draft.decision()


def _comment(execution: Execution, task: OpenHumanTask, command: ActOnTask) -> Decision:
    """A comment by a user the task is assigned to; other users are refused."""
    if not _is_for(task, command):
        return _forbidden(task)
    text = command.text.strip()
    if refused := _comment_problem(task, text):
        return refused
    return _changed_decision(
        execution, task, HumanCommented(task_id=task.task_id, actor=command.actor, text=text), command.at
    )


def _comment_problem(task: OpenHumanTask, text: str) -> Decision | None:
    # PostgreSQL cannot store a NUL character in text.
    if not text or len(text) > MAX_COMMENT or "\0" in text:
        return _refusal(ReportResult.INVALID, f"a comment has 1 to {MAX_COMMENT} characters")
    if sum(one.what == "commented" for one in task.history) >= MAX_COMMENTS:
        return _refusal(ReportResult.CONFLICT, f'task "{task.title}" has {MAX_COMMENTS} comments, which is the most')
    return None


def _changed_decision(
    execution: Execution, task: OpenHumanTask, payload: HumanClaimed | HumanReleased | HumanCommented, at: float
) -> Decision:
    # The version is part of the cause: one person may claim and release a task many times, and each event has its own
    # id.
    return task_decision(execution, task, payload, at, cause=task.version)


# Forms: the values a person fills in, against the fields that were asked for; every problem at once (HUM-03).
_SHOWN = 80  # characters of a wrong value


def fill_form(
    form: Sequence[Mapping[str, Any]], values: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Refusal, ...]]:
    """The values of all fields, defaults where nothing was given, and what is wrong with them. An empty form takes
    no values."""
    filled: dict[str, Any] = {}
    problems: list[Refusal] = []
    names = [str(field["field"]) for field in form]
    for name in values:
        if name not in names:
            allowed = f"the form has {', '.join(names)}" if names else "the form has no fields"
            problems.append(Refusal(field=name, found="there is no such field", allowed=allowed))
    for field in form:
        name = str(field["field"])
        value = values.get(name)
        value = field.get("default") if value is None else value
        # A browser sends an empty text for a field that was left empty.
        if value is None or value == "":
            if field.get("required"):
                problems.append(Refusal(field=name, found="nothing was given", allowed="a value is required"))
            elif value is not None:
                filled[name] = value
            continue
        if problem := _problem(name, field, value):
            problems.append(problem)
        else:
            filled[name] = value
    return filled, tuple(problems)


def _problem(name: str, field: Mapping[str, Any], value: Any) -> Refusal | None:
    kind = str(field.get("type", "string"))
    if kind == "enum":
        options = list(field.get("options", ()))
        # Types are compared too: for Python 1, 1.0 and true are equal.
        if any(type(option) is type(value) and option == value for option in options):
            return None
        return Refusal(
            field=name, found=_value_text(value), allowed=f"one of {', '.join(map(str, options))} is allowed"
        )
    fits, allowed = _TYPES[kind]
    return None if fits(value) else Refusal(field=name, found=_value_text(value), allowed=allowed)


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value[:_SHOWN]}"'
    return str(value)[:_SHOWN] if isinstance(value, bool | int | float) else f"a {type(value).__name__}"


def _is_number(value: Any) -> bool:
    # For Python true is an integer. Infinity and NaN have no form in JSON, and a whole number may have any number of
    # digits, which `math.isfinite` cannot take.
    return not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _is_integer(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int)


def _is_date(value: Any) -> bool:
    """A day: 2025-01-31."""
    # The length is checked because `fromisoformat` also accepts 20250131 and 2025-W05-5.
    if not isinstance(value, str) or len(value) != len("2025-01-31"):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "string": (lambda value: isinstance(value, str), "a text is allowed"),
    "text": (lambda value: isinstance(value, str), "a text is allowed"),
    "number": (_is_number, "a number is allowed"),
    "integer": (_is_integer, "a whole number is allowed"),
    "boolean": (lambda value: isinstance(value, bool), "true or false is allowed"),
    "date": (_is_date, "a day such as 2025-01-31 is allowed"),
}
