"""`noetl webhook`: make, list and delete the webhooks of a server (design.md §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import ask, place_options
from noetl.cli.credential import telling_new_master_key
from noetl.cli.output_formats import list_output, print_list, print_record, record_output
from noetl.cli.terminal import color_option, visible, when

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.administration_shapes import WebhookTarget


@click.group("webhook")
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
@place_options
def create_command(output: str, db: str | None, matches: tuple[str, ...], **given: str | None) -> None:
    """Make a webhook and print its address and its key, once.

    Its key is kept sealed under the master key, which is made when there is none (see noetl credential).
    """
    if (given["path"] is None) == (given["message"] is None):
        raise click.UsageError("say what it does: --playbook PATH or --message NAME, one of them")
    wanted: dict[str, Any] = {**given, "correlation": _correlation(matches)}
    with telling_new_master_key():
        made = ask(db, lambda it: it.make_webhook(**wanted), makes_store=True)
    print_record(made, output, text=lambda: [f"url     {made.url}", f"secret  {made.secret}"])
    if made.target.path is not None and not ask(db, lambda it: _is_registered(it, made.target), makes_store=True):
        click.echo(f"warning: {_absent_text(made.target)}; deliveries fail until it is: noetl register FILE", err=True)
    if output == "text":
        click.echo("the secret is not shown again; docs/security.md says how deliveries are signed", err=True)


@command.command("list")
@list_output
@place_options
def list_command(output: str, db: str | None) -> None:
    """List webhooks, without their keys."""
    from noetl.cli.output_formats import columns

    hooks = ask(db, lambda it: it.webhooks(), makes_store=True)
    rows = [(one.name, _target_text(one.target), one.url, when(one.created_at), one.created_by) for one in hooks]
    heads = ("NAME", "DOES", "URL", "CREATED", "BY")
    nothing = "no webhooks yet: noetl webhook create NAME --playbook PATH"
    print_list(hooks, output, key="name", table=lambda: columns(heads, rows, nothing=nothing))


@command.command("delete")
@click.argument("name")
@place_options
def delete_command(name: str, db: str | None) -> None:
    """Close a webhook permanently."""
    ask(db, lambda it: it.delete_webhook(name), makes_store=True)
    click.echo(f"deleted {visible(name)}")


async def _is_registered(operations: Operations, target: WebhookTarget) -> bool:
    """A webhook may be made before its playbook is registered, so that this is only warned of."""
    from noetl.base.errors import NotFoundError
    from noetl.store.catalog import NEWEST

    try:
        versions = await operations.versions(target.path or "")
    except NotFoundError:
        return False
    wanted = target.version
    return wanted in (None, NEWEST) or any(wanted in (str(one.version), one.label) for one in versions)


def _absent_text(target: WebhookTarget) -> str:
    version = f" version {visible(target.version)}" if target.version is not None else ""
    return f'there is no playbook "{visible(target.path or "")}"{version} in the catalogue yet'


def _correlation(matches: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for match in matches:
        key, sign, field = match.partition("=")
        if not sign or not key or not field:
            raise click.BadParameter(f'"{match}" is not KEY=FIELD, such as order=order.id', param_hint="--match")
        found[key] = field
    return found


def _target_text(target: WebhookTarget) -> str:
    if target.message is None:
        return f"start {target.path}" + (f" {target.version}" if target.version is not None else "")
    by = ", ".join(f"{key}={field}" for key, field in target.correlation.items())
    return f"send {target.message}" + (f" by {by}" if by else "")
