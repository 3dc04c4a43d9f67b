"""`noetl webhook`: make, list and delete the webhooks of a server (DESIGN §8)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.access import actor, asked, note, nothing_called, on_store, output_option, readable, when
from noetl.cli.reaching import reached, server_option
from noetl.cli.reading import as_json, db_option
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
@output_option
@server_option
@db_option
def create_command(
    output: str, server: str | None, db: str | None, matches: tuple[str, ...], **given: str | None
) -> None:
    """Make a webhook and print its address and its key, once.

    Its key is kept sealed under the master key, which is made when there is none (see noetl credential).
    """
    wanted = {**given, "correlation": _correlation(matches)}
    found = reached(server, db)
    made = asked(found, "POST", "/api/webhooks", wanted) if found else on_store(db, lambda store: _made(store, wanted))
    if output == "json":
        click.echo(as_json(made))
        return
    click.echo(f"url     {made['url']}")
    click.echo(f"secret  {made['secret']}")
    click.echo("the secret is not shown again; docs/security.md says how deliveries are signed", err=True)


async def _made(store: Store, wanted: dict[str, Any]) -> dict[str, Any]:
    from noetl.server.access.webhooks import Target

    name = wanted.pop("name")
    key, hook = await _webhooks(store, create=True).create(name, Target(**wanted), by=actor())
    await note(store, "webhook create", name)
    return {**_shown(hook), "secret": key}


@command.command("list")
@output_option
@server_option
@db_option
def list_command(output: str, server: str | None, db: str | None) -> None:
    """List webhooks, without their keys."""
    from noetl.cli.columns import columns

    found = reached(server, db)
    hooks = asked(found, "GET", "/api/webhooks")["webhooks"] if found else on_store(db, _listed)
    if output == "json":
        click.echo(as_json(hooks))
        return
    rows = [
        (one["name"], _does(one["target"]), one["url"], when(one["created_at"]), one["created_by"]) for one in hooks
    ]
    for line in columns(("NAME", "DOES", "URL", "CREATED", "BY"), rows, nothing="no webhooks"):
        click.echo(line)


async def _listed(store: Store) -> list[dict[str, Any]]:
    return [_shown(hook) for hook in await _webhooks(store).list()]


@command.command("delete")
@click.argument("name")
@server_option
@db_option
def delete_command(name: str, server: str | None, db: str | None) -> None:
    """Close a webhook for ever."""
    from urllib.parse import quote

    found = reached(server, db)
    if found:
        asked(found, "DELETE", f"/api/webhooks/{quote(name, safe='')}")
    elif not on_store(db, lambda store: _deleted(store, name)):
        raise nothing_called("webhook", name)
    click.echo(f"deleted {visible(name)}")


async def _deleted(store: Store, name: str) -> bool:
    is_gone = await _webhooks(store).delete(name)
    if is_gone:
        await note(store, "webhook delete", name)
    return is_gone


def _webhooks(store: Store, *, create: bool = False) -> Webhooks:
    from noetl.clock import SystemClock
    from noetl.keychain.master_keys import load_master_keys
    from noetl.server.access.webhooks import Webhooks

    return Webhooks(store.shelf, lambda: load_master_keys(os.environ, create=create), SystemClock())


def _correlation(matches: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for match in matches:
        key, sign, field = match.partition("=")
        if not sign or not key or not field:
            raise click.BadParameter(f'"{match}" is not KEY=FIELD, such as order=order.id', param_hint="--match")
        found[key] = field
    return found


def _does(target: dict[str, Any]) -> str:
    if "message" not in target:
        return f"start {target['path']}" + (f" {target['version']}" if "version" in target else "")
    by = ", ".join(f"{key}={field}" for key, field in target.get("correlation", {}).items())
    return f"send {target['message']}" + (f" by {by}" if by else "")


def _shown(hook: Webhook) -> dict[str, Any]:
    shown = readable(hook)
    return {"name": shown["name"], "url": f"/hooks/{shown['hook_id']}"} | {
        name: shown[name] for name in ("target", "created_at", "created_by")
    }
