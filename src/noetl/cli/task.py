"""`noetl task`: the work list of people, and what one does with a task in it (CLI-05, HUM-02)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import Reached, reads_server_option, server_meant
from noetl.cli.live_completion import EXECUTION, TASK
from noetl.cli.output_formats import list_output, print_list, print_record, record_output
from noetl.cli.queries import QueryRefused, as_json, db_option, find_execution, resume_hint
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.store.contract import Store
    from noetl.store.human_tasks import TaskRow, TaskState

_STATES = ["open", "claimed", "completed", "withdrawn", "all"]
_AMONG = 1_000  # tasks that the beginning of an id is looked for in

task_argument = click.argument("given", metavar="TASK", type=TASK)
actor_option = click.option("--as", "actor", metavar="USER", help="Who acts; your user name when left out.")
role_option = click.option(
    "--role", "roles", multiple=True, metavar="ROLE", help="A role that you act in; may be repeated."
)
version_option = click.option(
    "--seen", "version", type=int, metavar="VERSION", help="Refuse when the task is past the version you saw."
)


@click.group("task", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """List human tasks, claim them, complete them."""


@command.command("list")
@click.option("--role", metavar="ROLE", help="Only of this role.")
@click.option("--user", metavar="USER", help="Only of this user, or claimed by them.")
@click.option("--state", type=click.Choice(_STATES), help="Only in this state; open and claimed when left out.")
@click.option("--execution", metavar="ID", type=EXECUTION, help="Only of this execution.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@list_output
@db_option
@reads_server_option
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
    from noetl.store.human_tasks import TaskState

    states = [TaskState.OPEN, TaskState.CLAIMED]
    if state is not None:
        states = [] if state == "all" else [TaskState(state)]
    if (there := server_meant(db)) is not None:
        from noetl.cli import remote_tasks

        tasks = remote_tasks.listed(there, states=states, role=role, user=user, execution=execution, limit=limit)
    else:
        tasks = _listed_here(states, role, user, execution, limit, db)
    print_list([readable(task) for task in tasks], output, key="task_id", table=lambda: _table(tasks))


def _listed_here(
    states: list[TaskState], role: str | None, user: str | None, execution: str | None, limit: int, db: str | None
) -> list[TaskRow]:
    from noetl.cli.requests import using

    async def task_rows(store: Store) -> list[TaskRow]:
        execution_id = (await find_execution(store, execution)).execution_id if execution is not None else None
        return await store.tasks.list(states=states, role=role, user=user, execution_id=execution_id, limit=limit)

    return using(db, task_rows)


@command.command("show")
@task_argument
@record_output
@db_option
@reads_server_option
def show(given: str, output: str, db: str | None) -> None:
    """Show a task: whom it is for, until when, and the fields of its form."""
    from noetl.cli.requests import using

    there = server_meant(db)
    task = using(db, lambda store: _find_task(store, given)) if there is None else _meant_there(there, given)
    print_record(readable(task), output, text=lambda: _lines(task))


@command.command("claim")
@task_argument
@actor_option
@role_option
@version_option
@db_option
@reads_server_option
def claim(given: str, actor: str | None, roles: tuple[str, ...], version: int | None, db: str | None) -> None:
    """Take a task, so that nobody else does it meanwhile.

    \b
    noetl task claim 0198c0de --role finance_manager
    """
    _act(given, "claim", actor, roles, version, {}, db)


@command.command("release")
@task_argument
@actor_option
@role_option
@version_option
@db_option
@reads_server_option
def release(given: str, actor: str | None, roles: tuple[str, ...], version: int | None, db: str | None) -> None:
    """Give a claimed task back to those it is for."""
    _act(given, "release", actor, roles, version, {}, db)


@command.command("complete")
@task_argument
@click.option("--set", "settings", multiple=True, metavar="FIELD=VALUE", help="A field of the form; JSON as such.")
@click.option("--values", metavar="JSON|@FILE|@-", help="All fields as one JSON object.")
@actor_option
@role_option
@version_option
@db_option
@reads_server_option
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
    from noetl.cli.arguments import object_from, pairs_from

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
    if (there := server_meant(db)) is not None:
        from noetl.cli import remote_tasks

        if actor is not None or roles:
            raise click.UsageError("on a server you are who your token says: leave --as and --role out")
        task = _meant_there(there, given)
        who = remote_tasks.act(there, task.task_id, action, values, version)
        click.echo(f'{_DONE[action]} task "{visible(task.title)}" as {visible(who)}')
        return
    _act_here(given, action, actor, roles, version, values, db)


def _act_here(
    given: str,
    action: str,
    actor: str | None,
    roles: tuple[str, ...],
    version: int | None,
    values: dict[str, Any],
    db: str | None,
) -> None:
    from getpass import getuser

    from noetl.cli.requests import send_command, using
    from noetl.control.background.presence import is_anybody_there
    from noetl.control.outside.report_results import check
    from noetl.engine.commands import ActOnTask, TaskAction
    from noetl.worker.identity import is_gone

    who = actor or getuser()

    async def acted(store: Store) -> tuple[TaskRow, bool]:
        task = await _find_task(store, given)
        wanted = ActOnTask(
            at=time.time(),
            task_id=task.task_id,
            action=TaskAction(action),
            actor=who,
            roles=roles,
            values=values,
            version=version,
        )
        is_run = await is_anybody_there(store.key_values, is_gone, now=time.time())
        check(await send_command(store, db, task.execution_id, wanted), what=f'task "{task.title}"')
        row = await store.execution(task.execution_id)
        return task, is_run or (row is not None and row.finished_at is not None)

    task, is_settled = using(db, acted)
    click.echo(f'{_DONE[action]} task "{visible(task.title)}" as {visible(who)}')
    if action == "complete" and not is_settled:
        click.echo(f"nobody runs its execution now; take it up with: {resume_hint(db, task.execution_id)}", err=True)


async def _find_task(store: Store, given: str) -> TaskRow:
    """The task of an id, or of the beginning of one."""
    task = await store.tasks.get(given)
    if task is not None:
        return task
    return _only(given, await store.tasks.list(limit=_AMONG))


def _meant_there(there: Reached, given: str) -> TaskRow:
    from noetl.cli import remote_tasks

    return remote_tasks.of_id(there, given) or _only(given, remote_tasks.listed(there, limit=_AMONG))


def _only(given: str, among: list[TaskRow]) -> TaskRow:
    begin = [one for one in among if given and one.task_id.startswith(given)]
    if len(begin) == 1:
        return begin[0]
    if begin:
        raise QueryRefused(
            f'several tasks begin with "{visible(given)}": {", ".join(one.task_id for one in begin[:3])}'
        )
    raise QueryRefused(f'no human task "{visible(given)}" here: noetl task list')


def readable(task: TaskRow) -> dict[str, Any]:
    """A task as other programs read it."""
    import msgspec

    from noetl.base.clock import rfc3339

    fields: dict[str, Any] = msgspec.to_builtins(task)
    moments = {name: fields[name] for name in ("created_at", "due_at", "ended_at")}
    return fields | {name: None if at is None else rfc3339(at) for name, at in moments.items()}


def _table(tasks: list[TaskRow]) -> list[str]:
    from noetl.cli.columns import columns
    from noetl.cli.live_text import local_time

    rows = [
        (
            task.task_id,
            task.state.value + (f" by {task.claimed_by}" if task.state == "claimed" else ""),
            _assignee(task),
            "" if task.due_at is None else local_time(task.due_at) + (" overdue" if task.overdue else ""),
            task.title,
        )
        for task in tasks
    ]
    return columns(("TASK", "STATE", "FOR", "DUE", "TITLE"), rows, nothing="no tasks")


def _assignee(task: TaskRow) -> str:
    if task.user is not None:
        return f"user {task.user}"
    return f"role {task.role}" if task.role is not None else "anybody"


def _lines(task: TaskRow) -> list[str]:
    from noetl.cli.live_text import local_time

    about: list[tuple[str, str | None]] = [
        ("task", task.task_id),
        ("title", task.title),
        ("state", f"{task.state.value}, version {task.version}"),
        ("for", _assignee(task) + (", escalated" if task.escalated else "")),
        ("claimed", task.claimed_by),
        ("due", None if task.due_at is None else local_time(task.due_at) + (", overdue" if task.overdue else "")),
        ("step", f"{task.step} of execution {task.execution_id}"),
        (
            "completed",
            None if task.completed_by is None else f"by {task.completed_by}: {as_json(task.result, indent=-1)}",
        ),
    ]
    lines = [f"{name:10} {visible(text)}" for name, text in about if text is not None]
    return lines + [f"{'field' if not number else '':10} {_field(one)}" for number, one in enumerate(task.form)]


def _field(field: dict[str, Any]) -> str:
    parts = [str(field.get("type", "string"))]
    if field.get("options"):
        parts.append(" | ".join(str(option) for option in field["options"]))
    if field.get("required"):
        parts.append("required")
    if field.get("default") is not None:
        parts.append(f"default {as_json(field['default'], indent=-1)}")
    return visible(f"{field.get('field')}: {', '.join(parts)}")
