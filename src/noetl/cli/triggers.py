"""`noetl trigger` and `webhook`: what starts playbooks from outside. Triggers are polled, webhooks are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.completion import PLAYBOOK
from noetl.cli.connection import ask, place_options
from noetl.cli.credential import announce_new_master_key
from noetl.cli.terminal import (
    color_option,
    columns,
    list_output,
    print_list,
    print_record,
    record_output,
    visible,
    when,
)

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.administration_shapes import DeadLetterView, TriggerView, WebhookTarget

name_argument = click.argument("name", metavar="NAME")
item_option = click.option("--item", metavar="ID", help="One dead letter. [default: all]")


@click.group("trigger")
@color_option
def trigger_command() -> None:
    """Start playbooks when something new arrives.

    A trigger looks for new objects in storage, files, rows of a query, or messages of a broker, and starts a registered
    playbook for each. A server on the same store polls it: noetl dev.
    """


@trigger_command.command("create")
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
def create_command(output: str, db: str | None, inputs: tuple[str, ...], auth: str | None, **fields: Any) -> None:
    """Create a trigger. The item is workload.item in the playbook.

    \b
    noetl trigger create drop --kind storage --playbook etl/load --input url=file:///data/in --input pattern='*.csv'
    """
    from noetl.operations.administration_shapes import NewTrigger

    all_inputs = {**_inputs(inputs), **({"auth": auth} if auth is not None else {})}
    new = NewTrigger(inputs=all_inputs, **fields)
    created = ask(db, lambda it: it.make_trigger(new), makes_store=True)
    print_record(created, output, text=lambda: list(_details(created)))


@trigger_command.command("list")
@list_output
@place_options
def list_command(output: str, db: str | None) -> None:
    """List triggers, with what each has started."""
    triggers = ask(db, lambda it: it.triggers())
    print_list(triggers, output, key="name", table=lambda: _table(triggers))


@trigger_command.command("show")
@name_argument
@record_output
@place_options
def show_command(name: str, output: str, db: str | None) -> None:
    """Show one trigger: what it polls, its position, and why it cannot continue."""
    trigger = ask(db, lambda it: it.trigger(name))
    print_record(trigger, output, text=lambda: list(_details(trigger)))


@trigger_command.command("pause")
@name_argument
@place_options
def pause_command(name: str, db: str | None) -> None:
    """Pause a trigger. What arrives meanwhile is read when you resume it."""
    ask(db, lambda it: it.pause_trigger(name))
    click.echo(f"paused {visible(name)}")


@trigger_command.command("resume")
@name_argument
@place_options
def resume_command(name: str, db: str | None) -> None:
    """Resume a paused trigger where it stopped."""
    ask(db, lambda it: it.resume_trigger(name))
    click.echo(f"resumed {visible(name)}")


@trigger_command.command("delete")
@name_argument
@place_options
def delete_command(name: str, db: str | None) -> None:
    """Delete a trigger with its cursor and its dead letters. Its executions go on."""
    ask(db, lambda it: it.delete_trigger(name), makes_store=True)
    click.echo(f"deleted {visible(name)}")


@trigger_command.command("dead-letters")
@name_argument
@list_output
@place_options
def dead_letters_command(name: str, output: str, db: str | None) -> None:
    """List the items that no execution could be started for, and why."""
    letters = ask(db, lambda it: it.dead_letters(name))
    print_list(letters, output, key="item_id", table=lambda: _letters(letters))


@trigger_command.command("retry")
@name_argument
@item_option
@place_options
def retry_command(name: str, item: str | None, db: str | None) -> None:
    """Retry dead letters; a server does it at its next poll."""
    count = ask(db, lambda it: it.retry_dead_letters(name, item))
    click.echo(f"{count} dead letter{'' if count == 1 else 's'} of {visible(name)} will be tried again")


@trigger_command.command("discard")
@name_argument
@item_option
@place_options
def discard_command(name: str, item: str | None, db: str | None) -> None:
    """Delete dead letters."""
    count = ask(db, lambda it: it.discard_dead_letters(name, item))
    click.echo(f"discarded {count} dead letter{'' if count == 1 else 's'} of {visible(name)}")


def _inputs(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Inputs as KEY=VALUE. A value that looks like a whole number becomes one, since cursors are mostly numbers."""
    inputs: dict[str, Any] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise click.BadParameter(f'"{pair}" is not KEY=VALUE, such as url=s3://bucket/in', param_hint="--input")
        inputs[key] = int(value) if value.lstrip("-").isascii() and value.lstrip("-").isdecimal() else value
    return inputs


def _state(trigger: TriggerView) -> str:
    return "paused" if trigger.paused else "failing" if trigger.error else "polling"


def _table(triggers: list[TriggerView]) -> Iterator[str]:
    rows = [
        (
            trigger.name,
            trigger.kind,
            trigger.path,
            _state(trigger),
            f"{trigger.started:,}",
            f"{trigger.running:,}",
            f"{trigger.dead_letters:,}",
        )
        for trigger in triggers
    ]
    heads = ("NAME", "KIND", "PLAYBOOK", "STATE", "STARTED", "RUNNING", "DEAD")
    yield from columns(heads, rows, nothing="no triggers yet: noetl trigger create NAME --kind KIND --playbook PATH")


def _details(trigger: TriggerView) -> Iterator[str]:
    yield f"name       {visible(trigger.name)}"
    yield f"starts     {visible(trigger.path)}{' ' + visible(trigger.version) if trigger.version else ''}"
    yield f"looks at   {trigger.kind}: " + ", ".join(
        f"{key}={visible(str(value))}" for key, value in trigger.inputs.items()
    )
    yield f"state      {_state(trigger)}"
    yield f"started    {trigger.started:,}, {trigger.running:,} running of at most {trigger.max_running:,}"
    yield f"dead       {trigger.dead_letters:,}"
    if trigger.error is not None:
        yield f"error      {visible(trigger.error)} (since {trigger.error_at})"


def _letters(letters: list[DeadLetterView]) -> Iterator[str]:
    rows = [(letter.item_id, letter.at[:19] + "Z", "retry" if letter.retry else "", letter.error) for letter in letters]
    yield from columns(("ITEM", "AT", "", "ERROR"), rows, nothing="no dead letters")


# `noetl webhook`: make, list and delete the webhooks of a server (design.md §8).


@click.group("webhook")
@color_option
def webhook_command() -> None:
    """Let other systems start playbooks and send messages, by signed deliveries to a secret address."""


@webhook_command.command("create")
@click.argument("name")
@click.option("--playbook", "path", metavar="PATH", help="Start this registered playbook, with the body as `body`.")
@click.option("--version", metavar="VERSION", help="Of the playbook; the newest when left out.")
@click.option("--message", metavar="NAME", help="Send this message, with the body as its payload.")
@click.option(
    "--match", "matches", multiple=True, metavar="KEY=FIELD", help="Match the message by a field of the body."
)
@record_output
@place_options
def create_webhook_command(output: str, db: str | None, matches: tuple[str, ...], **fields: str | None) -> None:
    """Create a webhook and print its address and its key, once.

    Its key is encrypted under the master key, which is created if there is none (see noetl credential).
    """
    if (fields["path"] is None) == (fields["message"] is None):
        raise click.UsageError("a webhook needs one action: --playbook PATH or --message NAME")
    request: dict[str, Any] = {**fields, "correlation": _correlation(matches)}
    with announce_new_master_key():
        created = ask(db, lambda it: it.make_webhook(**request), makes_store=True)
    print_record(created, output, text=lambda: [f"url     {created.url}", f"secret  {created.secret}"])
    if created.target.path is not None and not ask(db, lambda it: _is_registered(it, created.target), makes_store=True):
        click.echo(
            f"warning: {_absent_text(created.target)}; deliveries fail until it is: noetl register FILE", err=True
        )
    if output == "text":
        # On standard error, so that the output can be piped to whatever stores address and key.
        click.echo("the secret is not shown again; docs/security.md says how deliveries are signed", err=True)


@webhook_command.command("list")
@list_output
@place_options
def list_webhooks_command(output: str, db: str | None) -> None:
    """List webhooks, without their keys."""
    hooks = ask(db, lambda it: it.webhooks(), makes_store=True)
    rows = [(hook.name, _target_text(hook.target), hook.url, when(hook.created_at), hook.created_by) for hook in hooks]
    heads = ("NAME", "DOES", "URL", "CREATED", "BY")
    nothing = "no webhooks yet: noetl webhook create NAME --playbook PATH"
    print_list(hooks, output, key="name", table=lambda: columns(heads, rows, nothing=nothing))


@webhook_command.command("delete")
@click.argument("name")
@place_options
def delete_webhook_command(name: str, db: str | None) -> None:
    """Close a webhook permanently."""
    ask(db, lambda it: it.delete_webhook(name), makes_store=True)
    click.echo(f"deleted {visible(name)}")


async def _is_registered(operations: Operations, target: WebhookTarget) -> bool:
    """Whether the playbook of a webhook is registered. If not, that is only a warning: it may be registered later."""
    from noetl.base.errors import NotFoundError
    from noetl.store.installation import NEWEST

    try:
        versions = await operations.versions(target.path or "")
    except NotFoundError:
        return False
    version = target.version
    return version in (None, NEWEST) or any(version in (str(row.version), row.label) for row in versions)


def _absent_text(target: WebhookTarget) -> str:
    version = f" version {visible(target.version)}" if target.version is not None else ""
    return f'there is no playbook "{visible(target.path or "")}"{version} in the catalogue yet'


def _correlation(matches: tuple[str, ...]) -> dict[str, str]:
    correlation = {}
    for match in matches:
        key, sign, field = match.partition("=")
        if not sign or not key or not field:
            raise click.BadParameter(f'"{match}" is not KEY=FIELD, such as order=order.id', param_hint="--match")
        correlation[key] = field
    return correlation


def _target_text(target: WebhookTarget) -> str:
    if target.message is None:
        return f"start {target.path}" + (f" {target.version}" if target.version is not None else "")
    by = ", ".join(f"{key}={field}" for key, field in target.correlation.items())
    return f"send {target.message}" + (f" by {by}" if by else "")
