"""`noetl message`: send a message to whoever waits for it (CLI-05, MSG-02); what is kept is in `kept_messages`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli import kept_messages
from noetl.cli.connection import reads_server_option, server_answer, server_meant
from noetl.cli.output_formats import print_record, record_output
from noetl.cli.queries import db_option, refusals
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.store.contract import Store
    from noetl.store.waits import MessageRow

_PATIENCE_S, _POLL_S = 3.0, 0.05  # whoever waits looks for messages every half second


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
    if (there := server_meant(db)) is not None:
        sent = server_answer(there, lambda it: it.send_message(name, keys, said, message_id=message_id, ttl=ttl_s))
    else:
        sent = _kept_here(name, keys, said, message_id, ttl_s, db)
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


def _kept_here(
    name: str, keys: dict[str, Any], said: Any, message_id: str | None, ttl_s: float, db: str | None
) -> dict[str, Any]:
    from noetl.control.outside.delivery import new_message

    with refusals():
        message = new_message(name, keys, said, message_id=message_id, ttl_s=ttl_s, now=time.time())
    is_new, taken_by = _store_message(message, db)
    return {"message_id": message.message_id, "delivered_to": taken_by, "known": not is_new}


def _store_message(message: MessageRow, db: str | None) -> tuple[bool, str | None]:
    """Whether it is new here, and the execution that has it after a moment, when somebody is there who could take
    it."""
    import asyncio

    from noetl.control.background.presence import is_anybody_there
    from noetl.control.outside.delivery import keep
    from noetl.store.open_store import open_store
    from noetl.store.waits import MESSAGE, parts_of
    from noetl.worker.identity import is_gone

    async def store_and_wait() -> tuple[bool, str | None]:
        store, _ = await open_store(db, reading_will_do=True)
        try:
            is_new = await keep(store, message)
            waits = await store.waits.waiting(MESSAGE, message.name, parts_of(message.correlation))
            until = time.monotonic() + _PATIENCE_S
            while (
                waits
                and await is_anybody_there(store.key_values, is_gone, now=time.time())
                and time.monotonic() < until
            ):
                if (taken_by := await _taken_by(store, message.message_id)) is not None:
                    return is_new, taken_by
                await asyncio.sleep(_POLL_S)
            return is_new, await _taken_by(store, message.message_id)
        finally:
            await store.close()

    with refusals():
        return asyncio.run(store_and_wait())


async def _taken_by(store: Store, message_id: str) -> str | None:
    row = await store.waits.message(message_id)
    return row.taken_by if row is not None else None
