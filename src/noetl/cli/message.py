"""`noetl message`: send a message to whoever waits for it (CLI-05, MSG-02); what is kept is in `kept_messages`."""

from __future__ import annotations

from typing import Any

import click

from noetl.cli import kept_messages
from noetl.cli.connection import ask, reads_server_option
from noetl.cli.output_formats import print_record, record_output
from noetl.cli.queries import db_option
from noetl.cli.terminal import color_option, visible


@click.group("message", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Send messages to executions that wait for them, and look after those that nobody has taken yet."""


for _command in kept_messages.COMMANDS:
    command.add_command(_command)


@command.command("send")
@click.argument("name")
@click.option(
    "--correlation",
    "-c",
    multiple=True,
    metavar="KEY=VALUE",
    help="What tells its receiver from others; JSON values are taken as such.",
)
@click.option("--payload", metavar="JSON|@FILE|@-", help="What the message says.")
@click.option("--id", "message_id", metavar="ID", help="Sent again under the same id, it counts once.")
@click.option("--ttl", metavar="DURATION", default="24h", show_default=True, help="How long it is kept for a receiver.")
@record_output
@db_option
@reads_server_option
def send(
    name: str,
    correlation: tuple[str, ...],
    payload: str | None,
    message_id: str | None,
    ttl: str,
    output: str,
    db: str | None,
) -> None:
    """Send a message. It is stored first; the step that has waited for it longest gets it, now or when there is one.

    \b
    noetl message send approval_received -c order_id=7 --payload '{"approved": true}'
    """
    from noetl.cli.arguments import pairs_from, value_from

    ttl_s, keys = _seconds(ttl), pairs_from(correlation, "--correlation")
    said = value_from(payload, "--payload")
    sent = ask(db, lambda it: it.send_message(name, keys, said, message_id=message_id, ttl=ttl_s), makes_store=True)
    print_record(sent, output, text=lambda: [_sentence(name, sent)])


def _seconds(ttl: str) -> float:
    from noetl.base.durations import seconds

    try:
        return seconds(ttl)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--ttl") from None


def _sentence(name: str, sent: dict[str, Any]) -> str:
    before, taken_by = " had been sent before and" if sent["known"] else "", sent["delivered_to"]
    where = f"was delivered to execution {taken_by}" if taken_by else f'is kept until somebody waits for "{name}"'
    return visible(f"message {sent['message_id']}{before} {where}")
