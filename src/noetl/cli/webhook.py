"""`noetl webhook`: make, list and delete the webhooks of a server (design.md §8)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.access import actor, note, nothing_called, on_store, readable, when
from noetl.cli.connection import reached, server_answer, server_option
from noetl.cli.output_formats import list_output, print_list, print_record, record_output
from noetl.cli.queries import db_option
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.server.access.webhooks import Webhook, Webhooks
    from noetl.store.contract import Store


@click.group("webhook", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Let other systems start playbooks and send messages, by signed deliveries to a secret address."""


@command.command("create")
@click.argument("name")
@click.option("--playbook", "path", metavar="PATH", help="Start this registered playbook, with the body as `body`.")
@click.option("--version", metavar="VERSION", help="Of the playbook; the newest when left out.")
@click.option("--message", metavar="NAME", help="Send this message, with the body as its payload.")
@click.option(
    "--match", "matches", multiple=True, metavar="KEY=FIELD", help="Match the message by a field of the body."
)
@record_output
@server_option
@db_option
def create_command(
    output: str, server: str | None, db: str | None, matches: tuple[str, ...], **given: str | None
) -> None:
    """Make a webhook and print its address and its key, once.

    Its key is kept sealed under the master key, which is made when there is none (see noetl credential).
    """
    if (given["path"] is None) == (given["message"] is None):
        raise click.UsageError("say what it does: --playbook PATH or --message NAME, one of them")
    wanted: dict[str, Any] = {**given, "correlation": _correlation(matches)}
    found = reached(server, db)
    made = (
        server_answer(found, lambda it: it.make_webhook(**wanted))
        if found
        else on_store(db, lambda it: _create_webhook(it, wanted))
    )
    print_record(made, output, text=lambda: [f"url     {made['url']}", f"secret  {made['secret']}"])
    if output == "text":
        click.echo("the secret is not shown again; docs/security.md says how deliveries are signed", err=True)


async def _create_webhook(store: Store, wanted: dict[str, Any]) -> dict[str, Any]:
    from noetl.server.access.webhooks import WebhookTarget

    name = wanted.pop("name")
    key, hook = await _webhooks(store, create=True).create(name, WebhookTarget(**wanted), by=actor())
    await note(store, "webhook create", name)
    return {**_webhook_row(hook), "secret": key}


@command.command("list")
@list_output
@server_option
@db_option
def list_command(output: str, server: str | None, db: str | None) -> None:
    """List webhooks, without their keys."""
    from noetl.cli.columns import columns

    found = reached(server, db)
    hooks = server_answer(found, lambda it: it.webhooks()) if found else on_store(db, _listed)
    rows = [
        (one["name"], _target_text(one["target"]), one["url"], when(one["created_at"]), one["created_by"])
        for one in hooks
    ]
    heads = ("NAME", "DOES", "URL", "CREATED", "BY")
    nothing = "no webhooks yet: noetl webhook create NAME --playbook PATH"
    print_list(hooks, output, key="name", table=lambda: columns(heads, rows, nothing=nothing))


async def _listed(store: Store) -> list[dict[str, Any]]:
    return [_webhook_row(hook) for hook in await _webhooks(store).list()]


@command.command("delete")
@click.argument("name")
@server_option
@db_option
def delete_command(name: str, server: str | None, db: str | None) -> None:
    """Close a webhook for ever."""
    found = reached(server, db)
    if found:
        server_answer(found, lambda it: it.delete_webhook(name))
    elif not on_store(db, lambda store: _deleted(store, name)):
        raise nothing_called("webhook", name)
    click.echo(f"deleted {visible(name)}")


async def _deleted(store: Store, name: str) -> bool:
    is_gone = await _webhooks(store).delete(name)
    if is_gone:
        await note(store, "webhook delete", name)
    return is_gone


def _webhooks(store: Store, *, create: bool = False) -> Webhooks:
    from noetl.base.clock import SystemClock
    from noetl.secrets.master_keys import load_master_keys
    from noetl.server.access.webhooks import Webhooks

    return Webhooks(store.key_values, lambda: load_master_keys(os.environ, create=create), SystemClock())


def _correlation(matches: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for match in matches:
        key, sign, field = match.partition("=")
        if not sign or not key or not field:
            raise click.BadParameter(f'"{match}" is not KEY=FIELD, such as order=order.id', param_hint="--match")
        found[key] = field
    return found


def _target_text(target: dict[str, Any]) -> str:
    if "message" not in target:
        return f"start {target['path']}" + (f" {target['version']}" if "version" in target else "")
    by = ", ".join(f"{key}={field}" for key, field in target.get("correlation", {}).items())
    return f"send {target['message']}" + (f" by {by}" if by else "")


def _webhook_row(hook: Webhook) -> dict[str, Any]:
    shown = readable(hook)
    return {"name": shown["name"], "url": f"/hooks/{shown['hook_id']}"} | {
        name: shown[name] for name in ("target", "created_at", "created_by")
    }
