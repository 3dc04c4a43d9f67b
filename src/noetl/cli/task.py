"""`noetl task`: listing, claiming and completing human tasks (CLI-05, HUM-02)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.base.clock import moment
from noetl.base.errors import RefusedError
from noetl.cli.completion import EXECUTION, TASK
from noetl.cli.connection import ask, find_execution_id, is_abandoned_run, place_options
from noetl.cli.queries import QueryRefused, resume_hint
from noetl.cli.terminal import (
    as_json,
    color_option,
    columns,
    list_output,
    print_list,
    print_record,
    record_output,
    visible,
)

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import TaskView

_STATES = ["open", "claimed", "completed", "withdrawn", "all"]
# The most tasks that a server returns at once.
_PAGE = 500
# The newest tasks among which the beginning of an id is searched.
_AMONG = 1_000

task_argument = click.argument("reference", metavar="TASK", type=TASK)
actor_option = click.option("--as", "actor", metavar="USER", help="User who acts. [default: your user name]")
role_option = click.option(
    "--role", "roles", multiple=True, metavar="ROLE", help="A role that you act in; may be repeated."
)
version_option = click.option(
    "--seen", "version", type=int, metavar="VERSION", help="Refuse if the task has changed since this version."
)


@click.group("task")
@color_option
def command() -> None:
    """List human tasks, claim them, complete them."""


@command.command("list")
@click.option("--role", metavar="ROLE", help="Only of this role.")
@click.option("--user", metavar="USER", help="Only of this user, or claimed by them.")
@click.option("--state", type=click.Choice(_STATES), help="Only tasks in this state. [default: open and claimed]")
@click.option("--execution", metavar="ID", type=EXECUTION, help="Only of this execution.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Most rows to list.")
@list_output
@place_options
def list_command(
    role: str | None,
    user: str | None,
    state: str | None,
    execution: str | None,
    limit: int,
    output: str,
    db: str | None,
) -> None:
    """List tasks, the newest first.

    \b
    noetl task list --role finance_manager
    """
    states = {None: ["open", "claimed"], "all": _STATES[:-1]}.get(state, [state])

    async def load_tasks(it: Operations) -> list[TaskView]:
        execution_id = await find_execution_id(it, execution) if execution is not None else None
        return await _tasks(it, limit, state=states, role=role, user=user, execution_id=execution_id)

    tasks = ask(db, load_tasks)
    print_list(tasks, output, key="task_id", table=lambda: _table(tasks))


async def _tasks(it: Operations, limit: int, **filters: Any) -> list[TaskView]:
    """The newest first, however many pages that takes."""
    tasks: list[TaskView] = []
    cursor: str | None = None
    while len(tasks) < limit:
        page = await it.task_page(**filters, limit=min(_PAGE, limit - len(tasks)), cursor=cursor)
        tasks += page.tasks
        if (cursor := page.next) is None:
            break
    return tasks


@command.command("show")
@task_argument
@record_output
@place_options
def show(reference: str, output: str, db: str | None) -> None:
    """Show a task: whom it is for, until when, and the fields of its form."""
    task = ask(db, lambda it: _find_task(it, reference))
    print_record(task, output, text=lambda: _lines(task))


@command.command("claim")
@task_argument
@actor_option
@role_option
@version_option
@place_options
def claim(reference: str, actor: str | None, roles: tuple[str, ...], version: int | None, db: str | None) -> None:
    """Claim a task, so that no other user works on it.

    \b
    noetl task claim 0198c0de --role finance_manager
    """
    _act(reference, "claim", actor, roles, version, {}, db)


@command.command("release")
@task_argument
@actor_option
@role_option
@version_option
@place_options
def release(reference: str, actor: str | None, roles: tuple[str, ...], version: int | None, db: str | None) -> None:
    """Release a claimed task, so that others can claim it. Administrators can release what another user has claimed."""
    _act(reference, "release", actor, roles, version, {}, db)


@command.command("comment")
@task_argument
@click.argument("text")
@actor_option
@role_option
@place_options
def comment(reference: str, text: str, actor: str | None, roles: tuple[str, ...], db: str | None) -> None:
    """Add a comment to a task.

    \b
    noetl task comment 0198c0de "the invoice is missing" --role finance_manager
    """

    async def add_comment(it: Operations) -> TaskView:
        return await it.comment_task((await _find_task(it, reference)).task_id, text)

    task = ask(db, add_comment, actor=actor, roles=roles)
    click.echo(f'commented on task "{visible(task.title)}"')


@command.command("complete")
@task_argument
@click.option("--set", "settings", multiple=True, metavar="FIELD=VALUE", help="A field of the form; JSON as such.")
@click.option("--values", metavar="JSON|@FILE|@-", help="All fields as one JSON object.")
@actor_option
@role_option
@version_option
@place_options
def complete(
    reference: str,
    settings: tuple[str, ...],
    values: str | None,
    actor: str | None,
    roles: tuple[str, ...],
    version: int | None,
    db: str | None,
) -> None:
    """Complete a task with the values of its form; its execution goes on with them.

    \b
    noetl task complete 0198c0de --role finance_manager --set decision=approve
    """
    from noetl.cli.payload import object_from, pairs_from

    filled = object_from(values, "--values") | pairs_from(settings, "--set")
    _act(reference, "complete", actor, roles, version, filled, db)


_DONE = {"claim": "claimed", "release": "released", "complete": "completed"}


def _act(
    reference: str,
    action: str,
    actor: str | None,
    roles: tuple[str, ...],
    version: int | None,
    values: dict[str, Any],
    db: str | None,
) -> None:

    async def act(it: Operations) -> tuple[TaskView, str, bool]:
        task = await _find_task(it, reference)
        match action:
            case "claim":
                await it.claim_task(task.task_id, version=version)
            case "release":
                await it.release_task(task.task_id, version=version)
            case _:
                await it.complete_task(task.task_id, values, version=version)
        # Asked of the server or store that recorded it: on a server the token identifies the user, not --as.
        return task, (await it.who_am_i()).subject, await is_abandoned_run(it, task.execution_id)

    task, actor_name, is_alone = ask(db, act, actor=actor, roles=roles)
    click.echo(f'{_DONE[action]} task "{visible(task.title)}" as {visible(actor_name)}')
    if action == "complete" and is_alone:
        hint = resume_hint(db, task.execution_id)
        click.echo(f"no process runs its execution now; resume it with: {hint}", err=True)


async def _find_task(it: Operations, reference: str) -> TaskView:
    """The task of an id, or of the beginning of one."""
    try:
        if reference:
            return await it.task(reference)
    except RefusedError as problem:
        # These statuses mean that no task has this id; other errors are real.
        if getattr(problem, "status", 404) not in (400, 404, 422):
            raise
    return _single_task(reference, await _tasks(it, _AMONG, state=_STATES[:-1]))


def _single_task(reference: str, tasks: list[TaskView]) -> TaskView:
    matching = [task for task in tasks if reference and task.task_id.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise QueryRefused(
            f'several tasks begin with "{visible(reference)}": {", ".join(task.task_id for task in matching[:3])}'
        )
    raise QueryRefused(f'no human task "{visible(reference)}" here: noetl task list')


def _table(tasks: list[TaskView]) -> list[str]:
    rows = [
        (
            task.task_id,
            task.state + (f" by {task.claimed_by}" if task.state == "claimed" else ""),
            _assignee(task),
            _due(task, " overdue") or "",
            task.title,
        )
        for task in tasks
    ]
    return columns(("TASK", "STATE", "FOR", "DUE", "TITLE"), rows, nothing="no tasks")


def _due(task: TaskView, overdue: str) -> str | None:
    from noetl.cli.live_text import local_time

    if task.due_at is None:
        return None
    return local_time(moment(task.due_at, "due_at")) + (overdue if task.overdue else "")


def _assignee(task: TaskView) -> str:
    if task.user is not None:
        return f"user {task.user}"
    return f"human role {task.role}" if task.role is not None else "anybody"


def _lines(task: TaskView) -> list[str]:
    about: list[tuple[str, str | None]] = [
        ("task", task.task_id),
        ("title", task.title),
        ("about", task.description or None),
        ("data", None if task.data is None else as_json(task.data, indent=-1)),
        ("state", f"{task.state}, version {task.version}"),
        ("for", _assignee(task) + (", escalated" if task.escalated else "")),
        ("claimed", task.claimed_by),
        ("due", _due(task, ", overdue")),
        ("step", f"{task.step} of execution {task.execution_id}"),
        (
            "completed",
            None if task.completed_by is None else f"by {task.completed_by}: {as_json(task.result, indent=-1)}",
        ),
    ]
    lines = [f"{name:10} {visible(text)}" for name, text in about if text is not None]
    lines += [f"{'field' if not number else '':10} {_field(entry)}" for number, entry in enumerate(task.form)]
    comments = [entry for entry in task.history if entry.what == "commented"]
    return lines + [f"{'comment':10} {visible(f'{entry.actor}, {entry.at}: {entry.text}')}" for entry in comments]


def _field(field: dict[str, Any]) -> str:
    parts = [str(field.get("type", "string"))]
    if field.get("options"):
        parts.append(" | ".join(str(option) for option in field["options"]))
    if field.get("required"):
        parts.append("required")
    if field.get("default") is not None:
        parts.append(f"default {as_json(field['default'], indent=-1)}")
    return visible(f"{field.get('field')}: {', '.join(parts)}")
