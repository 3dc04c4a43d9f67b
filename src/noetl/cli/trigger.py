"""`noetl trigger`: playbooks that start by themselves when something new arrives. A server polls them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.completion import PLAYBOOK
from noetl.cli.connection import ask, place_options
from noetl.cli.output_formats import list_output, print_list, print_record, record_output
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.operations.administration_shapes import DeadLetterView, TriggerView

name_argument = click.argument("name", metavar="NAME")
item_option = click.option("--item", metavar="ID", help="One dead letter. [default: all]")


@click.group("trigger")
@color_option
def command() -> None:
    """Start playbooks when something new arrives.

    A trigger looks for new objects in storage, files, rows of a query, or messages of a broker, and starts a registered
    playbook for each. A server on the same store polls it: noetl dev.
    """


@command.command("create")
@name_argument
@click.option("--kind", required=True, help="Tool that looks, such as storage, sql, redis, nats, amqp or kafka.")
@click.option("--playbook", "path", required=True, metavar="PATH", type=PLAYBOOK, help="Registered playbook to start.")
@click.option("--version", metavar="VERSION", help="Of the playbook; the newest when left out.")
@click.option("--input", "inputs", multiple=True, metavar="KEY=VALUE", help="Input of the kind; give it once for each.")
@click.option("--auth", metavar="NAME", help="Stored credential to look with.")
@click.option("--interval", default="5s", show_default=True, help="Time between two looks that found nothing.")
@click.option("--max-running", type=int, default=10, show_default=True, help="Most executions at once.")
@click.option("--skip-existing", is_flag=True, help="Ignore items that exist already.")
@record_output
@place_options
def create_command(output: str, db: str | None, inputs: tuple[str, ...], auth: str | None, **given: Any) -> None:
    """Make a trigger. The item is workload.item in the playbook.

    \b
    noetl trigger create drop --kind storage --playbook etl/load --input url=file:///data/in --input pattern='*.csv'
    """
    from noetl.operations.administration_shapes import NewTrigger

    told = {**_inputs(inputs), **({"auth": auth} if auth is not None else {})}
    wanted = NewTrigger(inputs=told, **given)
    made = ask(db, lambda it: it.make_trigger(wanted), makes_store=True)
    print_record(made, output, text=lambda: list(_details(made)))


@command.command("list")
@list_output
@place_options
def list_command(output: str, db: str | None) -> None:
    """List triggers, with what each has started."""
    found = ask(db, lambda it: it.triggers())
    print_list(found, output, key="name", table=lambda: _table(found))


@command.command("show")
@name_argument
@record_output
@place_options
def show_command(name: str, output: str, db: str | None) -> None:
    """Show one trigger: what it polls, its position, and why it cannot continue."""
    found = ask(db, lambda it: it.trigger(name))
    print_record(found, output, text=lambda: list(_details(found)))


@command.command("pause")
@name_argument
@place_options
def pause_command(name: str, db: str | None) -> None:
    """Pause a trigger. What arrives meanwhile is read when you resume it."""
    ask(db, lambda it: it.pause_trigger(name))
    click.echo(f"paused {visible(name)}")


@command.command("resume")
@name_argument
@place_options
def resume_command(name: str, db: str | None) -> None:
    """Resume a paused trigger where it stopped."""
    ask(db, lambda it: it.resume_trigger(name))
    click.echo(f"resumed {visible(name)}")


@command.command("delete")
@name_argument
@place_options
def delete_command(name: str, db: str | None) -> None:
    """Delete a trigger with its cursor and its dead letters. Its executions go on."""
    ask(db, lambda it: it.delete_trigger(name), makes_store=True)
    click.echo(f"deleted {visible(name)}")


@command.command("dead-letters")
@name_argument
@list_output
@place_options
def dead_letters_command(name: str, output: str, db: str | None) -> None:
    """List the items that no execution could be started for, and why."""
    found = ask(db, lambda it: it.dead_letters(name))
    print_list(found, output, key="item_id", table=lambda: _letters(found))


@command.command("retry")
@name_argument
@item_option
@place_options
def retry_command(name: str, item: str | None, db: str | None) -> None:
    """Retry dead letters; a server does it at its next poll."""
    count = ask(db, lambda it: it.retry_dead_letters(name, item))
    click.echo(f"{count} dead letter{'' if count == 1 else 's'} of {visible(name)} will be tried again")


@command.command("discard")
@name_argument
@item_option
@place_options
def discard_command(name: str, item: str | None, db: str | None) -> None:
    """Delete dead letters."""
    count = ask(db, lambda it: it.discard_dead_letters(name, item))
    click.echo(f"discarded {count} dead letter{'' if count == 1 else 's'} of {visible(name)}")


def _inputs(written: tuple[str, ...]) -> dict[str, Any]:
    """Text as it is; a number where it looks like one, since cursors are numbers more often than not."""
    found: dict[str, Any] = {}
    for one in written:
        key, sign, value = one.partition("=")
        if not sign or not key:
            raise click.BadParameter(f'"{one}" is not KEY=VALUE, such as url=s3://bucket/in', param_hint="--input")
        found[key] = int(value) if value.lstrip("-").isascii() and value.lstrip("-").isdecimal() else value
    return found


def _state(one: TriggerView) -> str:
    return "paused" if one.paused else "failing" if one.error else "polling"


def _table(found: list[TriggerView]) -> Iterator[str]:
    from noetl.cli.output_formats import columns

    rows = [
        (one.name, one.kind, one.path, _state(one), f"{one.started:,}", f"{one.running:,}", f"{one.dead_letters:,}")
        for one in found
    ]
    heads = ("NAME", "KIND", "PLAYBOOK", "STATE", "STARTED", "RUNNING", "DEAD")
    yield from columns(heads, rows, nothing="no triggers yet: noetl trigger create NAME --kind KIND --playbook PATH")


def _details(one: TriggerView) -> Iterator[str]:
    yield f"name       {visible(one.name)}"
    yield f"starts     {visible(one.path)}{' ' + visible(one.version) if one.version else ''}"
    yield f"looks at   {one.kind}: " + ", ".join(f"{key}={visible(str(value))}" for key, value in one.inputs.items())
    yield f"state      {_state(one)}"
    yield f"started    {one.started:,}, {one.running:,} running of at most {one.max_running:,}"
    yield f"dead       {one.dead_letters:,}"
    if one.error is not None:
        yield f"error      {visible(one.error)} (since {one.error_at})"


def _letters(found: list[DeadLetterView]) -> Iterator[str]:
    from noetl.cli.output_formats import columns

    rows = [(one.item_id, one.at[:19] + "Z", "retry" if one.retry else "", one.error) for one in found]
    yield from columns(("ITEM", "AT", "", "ERROR"), rows, nothing="no dead letters")
