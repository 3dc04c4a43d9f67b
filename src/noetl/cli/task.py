"""`noetl task`: the work list of people, and what one does with a task in it (CLI-05, HUM-02)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.base.clock import moment
from noetl.base.errors import RefusedError
from noetl.cli.completion import EXECUTION, TASK
from noetl.cli.connection import ask, find_execution_id, is_left_alone, place_options
from noetl.cli.output_formats import list_output, print_list, print_record, record_output
from noetl.cli.queries import QueryRefused, as_json, resume_hint
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import TaskView

_STATES = ["open", "claimed", "completed", "withdrawn", "all"]
_PAGE = 500  # tasks a server gives at once
_AMONG = 1_000  # tasks that the beginning of an id is looked for in

task_argument = click.argument("given", metavar="TASK", type=TASK)
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

    async def listed(it: Operations) -> list[TaskView]:
        execution_id = await find_execution_id(it, execution) if execution is not None else None
        return await _tasks(it, limit, state=states, role=role, user=user, execution_id=execution_id)

    tasks = ask(db, listed)
    print_list(tasks, output, key="task_id", table=lambda: _table(tasks))


async def _tasks(it: Operations, limit: int, **wanted: Any) -> list[TaskView]:
    """The newest first, however many pages that takes."""
    tasks: list[TaskView] = []
    cursor: str | None = None
    while len(tasks) < limit:
        page = await it.task_page(**wanted, limit=min(_PAGE, limit - len(tasks)), cursor=cursor)
        tasks += page.tasks
        if (cursor := page.next) is None:
            break
    return tasks


@command.command("show")
@task_argument
@record_output
@place_options
def show(given: str, output: str, db: str | None) -> None:
    """Show a task: whom it is for, until when, and the fields of its form."""
    task = ask(db, lambda it: _find_task(it, given))
    print_record(task, output, text=lambda: _lines(task))


@command.command("claim")
@task_argument
@actor_option
@role_option
@version_option
@place_options
def claim(given: str, actor: str | None, roles: tuple[str, ...], version: int | None, db: str | None) -> None:
    """Claim a task, so that nobody else works on it.

    \b
    noetl task claim 0198c0de --role finance_manager
    """
    _act(given, "claim", actor, roles, version, {}, db)


@command.command("release")
@task_argument
@actor_option
@role_option
@version_option
@place_options
def release(given: str, actor: str | None, roles: tuple[str, ...], version: int | None, db: str | None) -> None:
    """Release a claimed task, so that others can claim it."""
    _act(given, "release", actor, roles, version, {}, db)


@command.command("comment")
@task_argument
@click.argument("text")
@actor_option
@role_option
@place_options
def comment(given: str, text: str, actor: str | None, roles: tuple[str, ...], db: str | None) -> None:
    """Add a comment to a task.

    \b
    noetl task comment 0198c0de "the invoice is missing" --role finance_manager
    """

    async def commented(it: Operations) -> TaskView:
        return await it.comment_task((await _find_task(it, given)).task_id, text)

    task = ask(db, commented, actor=actor, roles=roles)
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
    given: str,
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
    _act(given, "complete", actor, roles, version, filled, db)


_DONE = {"claim": "claimed", "release": "released", "complete": "completed"}


def _act(
    given: str,
    action: str,
    actor: str | None,
    roles: tuple[str, ...],
    version: int | None,
    values: dict[str, Any],
    db: str | None,
) -> None:

    async def acted(it: Operations) -> tuple[TaskView, str, bool]:
        task = await _find_task(it, given)
        match action:
            case "claim":
                await it.claim_task(task.task_id, version=version)
            case "release":
                await it.release_task(task.task_id, version=version)
            case _:
                await it.complete_task(task.task_id, values, version=version)
        return task, (await it.who_am_i()).subject, await is_left_alone(it, task.execution_id)

    task, who, is_alone = ask(db, acted, actor=actor, roles=roles)
    click.echo(f'{_DONE[action]} task "{visible(task.title)}" as {visible(who)}')
    if action == "complete" and is_alone:
        click.echo(f"nobody runs its execution now; take it up with: {resume_hint(db, task.execution_id)}", err=True)


async def _find_task(it: Operations, given: str) -> TaskView:
    """The task of an id, or of the beginning of one."""
    try:
        if given:
            return await it.task(given)
    except RefusedError as problem:
        if getattr(problem, "status", 404) not in (400, 404, 422):  # those say: nothing there can be called that
            raise
    return _only(given, await _tasks(it, _AMONG, state=_STATES[:-1]))


def _only(given: str, among: list[TaskView]) -> TaskView:
    begin = [one for one in among if given and one.task_id.startswith(given)]
    if len(begin) == 1:
        return begin[0]
    if begin:
        raise QueryRefused(
            f'several tasks begin with "{visible(given)}": {", ".join(one.task_id for one in begin[:3])}'
        )
    raise QueryRefused(f'no human task "{visible(given)}" here: noetl task list')


def _table(tasks: list[TaskView]) -> list[str]:
    from noetl.cli.output_formats import columns

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
    return f"role {task.role}" if task.role is not None else "anybody"


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
    lines += [f"{'field' if not number else '':10} {_field(one)}" for number, one in enumerate(task.form)]
    said = [one for one in task.history if one.what == "commented"]
    return lines + [f"{'comment':10} {visible(f'{one.actor}, {one.at}: {one.text}')}" for one in said]


def _field(field: dict[str, Any]) -> str:
    parts = [str(field.get("type", "string"))]
    if field.get("options"):
        parts.append(" | ".join(str(option) for option in field["options"]))
    if field.get("required"):
        parts.append("required")
    if field.get("default") is not None:
        parts.append(f"default {as_json(field['default'], indent=-1)}")
    return visible(f"{field.get('field')}: {', '.join(parts)}")
