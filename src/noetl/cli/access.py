"""`noetl token` and `audit`: tokens of a server and its audit log. A token is shown once; only its hash is stored."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.cli import terminal
from noetl.cli.connection import ask, ask_store, place_options
from noetl.cli.queries import refusals

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.administration_shapes import AccessTokenView, AuditShape, MadeToken

_ROLES = ["viewer", "operator", "author", "admin", "worker"]

_STORE_ONLY = "--from-file works on a store only: use --db, and neither --server nor --out"


@click.group("token")
@terminal.color_option
def token_command() -> None:
    """Create, list and revoke tokens of a server.

    \b
    viewer    sees everything but credentials
    operator  runs what is registered, pauses, cancels, sends messages
    author    registers playbooks, which is running code
    admin     credentials, tokens, webhooks, pools, the audit log
    worker    takes orders of its pools, and nothing else
    """


@token_command.command("create")
@click.argument("subject", metavar="NAME")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="What it may do.")
@click.option("--human-role", "human_roles", multiple=True, metavar="ROLE", help="A role of human tasks; repeatable.")
@click.option("--pool", "pools", multiple=True, metavar="POOL", help="A pool that a worker serves; repeatable.")
@click.option("--expires", metavar="DURATION", help="Ends after this long, such as 90d or 12h; never when left out.")
@click.option("--out", metavar="FILE", help="Write it to FILE, which only you can read, instead of printing it.")
@click.option(
    "--from-file", "chosen", metavar="FILE", help="Store the token in FILE, which you made; repeating it is harmless."
)
@terminal.record_output
@place_options
def create_command(
    output: str,
    db: str | None,
    expires: str | None,
    out: str | None,
    chosen: str | None,
    **fields: Any,
) -> None:
    """Create a token for NAME and print it, once.

    With --from-file you choose the token, and it is not printed: noetl_, 5 to 16 letters or digits, _, and 32 random
    bytes in base64 for URLs. It is stored in a database, before its servers start.
    """
    request = {**fields, "expires_in_s": _seconds(expires)}
    if chosen is not None:
        _adopt(chosen, request, output, db=db, out=out)
        return
    if out is not None:
        _check_new_file(out)
    created = ask(db, lambda it: it.make_token(**request), makes_store=True)
    # With --out the token is never printed, not even as JSON: it could end up in a build log.
    record: Any = created if out is None else _save_token(created, out)
    terminal.print_record(record, output, text=lambda: [created.token] if out is None else [])
    if output == "text" and out is not None:
        click.echo(f"token {created.token_id} ({created.role}) is in {out}", err=True)
    elif output == "text":
        click.echo(f"this is token {created.token_id} ({created.role}); it is not shown again", err=True)


def _adopt(chosen: str, request: dict[str, Any], output: str, *, db: str | None, out: str | None) -> None:
    from noetl.base.errors import RefusedError

    with refusals():
        if out is not None:
            raise RefusedError(_STORE_ONLY)
        try:
            text = Path(chosen).expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise RefusedError(f"{chosen} cannot be read: {problem}") from None

    stored = ask_store(db, lambda store: store.adopt_token(text, **request), else_say=_STORE_ONLY)
    terminal.print_record(stored, output, text=list)
    if output == "text":
        click.echo(f"token {stored.token_id} ({stored.role}) is stored", err=True)


def _check_new_file(out: str) -> None:
    """Refuse an existing file before the token is created: a token that cannot be written would be lost."""
    from noetl.base.errors import RefusedError

    with refusals():
        if Path(out).expanduser().exists():
            raise RefusedError(f"{out} exists already: name another file with --out")


def _save_token(created: MadeToken, out: str) -> dict[str, Any]:
    """Write the token to a file; returns its fields without the token itself."""
    import msgspec

    from noetl.cli.contexts import write_token

    write_token(Path(out).expanduser(), created.token)
    return {
        **{name: value for name, value in msgspec.to_builtins(created).items() if name != "token"},
        "token_file": out,
    }


@token_command.command("list")
@terminal.list_output
@place_options
def list_command(output: str, db: str | None) -> None:
    """List tokens, without their secrets."""
    tokens = ask(db, lambda it: it.tokens(), makes_store=True)
    rows = [
        (
            token.token_id,
            token.subject,
            token.role,
            _roles_and_pools(token),
            _state(token),
            terminal.when(token.created_at),
            terminal.when(token.used_at),
        )
        for token in tokens
    ]
    heads = ("TOKEN", "NAME", "ROLE", "ALSO", "STATE", "CREATED", "USED")
    nothing = "no tokens yet: noetl token create NAME --role ROLE"
    terminal.print_list(tokens, output, key="token_id", table=lambda: terminal.columns(heads, rows, nothing=nothing))


@token_command.command("revoke")
@click.argument("token_id", metavar="TOKEN")
@place_options
def revoke_command(token_id: str, db: str | None) -> None:
    """Revoke a token permanently, with the sessions opened with it. TOKEN is its id in the list, or its text."""
    # The finder of a leaked token knows its text, not its id.
    public = token_id.split("_")[1] if token_id.startswith("noetl_") else token_id
    token = ask(db, lambda it: it.revoke_token(public), makes_store=True)
    click.echo(f"revoked {terminal.visible(token.token_id)} of {terminal.visible(token.subject)}")


def _seconds(expires: str | None) -> float | None:
    from noetl.base.durations import seconds

    try:
        return seconds(expires) if expires is not None else None
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--expires") from None


def _roles_and_pools(token: AccessTokenView) -> str:
    return ", ".join((*token.human_roles, *(f"pool {pool}" for pool in token.pools))) or "-"


def _state(token: AccessTokenView) -> str:
    from noetl.base.clock import rfc3339

    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is None:
        return "valid"
    return (
        f"{'valid until' if rfc3339(time.time()) < token.expires_at else 'expired'} {terminal.when(token.expires_at)}"
    )


# `noetl audit`: read the audit log, and check that it was not changed (reliability.md §3.9).

BROKEN = 1
# The most rows that a server returns at once.
_PAGE = 1_000


@click.group("audit")
@terminal.color_option
def audit_command() -> None:
    """Read and check the audit log: every change and every refusal, in a chain of hashes."""


@audit_command.command("list")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many rows.")
@click.option("--before", type=click.IntRange(1), metavar="ROW", help="Only rows older than this one.")
@terminal.list_output
@place_options
def list_records_command(limit: int, before: int | None, output: str, db: str | None) -> None:
    """List what was done and refused, the newest first."""
    rows = ask(db, lambda it: _rows(it, limit, before), makes_store=True)
    cells = [
        (str(row.seq), terminal.when(row.at), row.actor, row.action, row.object, row.address, row.outcome)
        for row in rows
    ]
    heads = ("ROW", "TIME", "WHO", "DID", "TO", "FROM", "OUTCOME")
    terminal.print_list(rows, output, key="seq", table=lambda: terminal.columns(heads, cells, nothing="no rows yet"))


async def _rows(it: Operations, limit: int, before: int | None) -> list[AuditShape]:
    rows: list[AuditShape] = []
    while len(rows) < limit:
        page = await it.audit(limit=min(_PAGE, limit - len(rows)), before=before)
        rows += page.rows
        if page.next is None:
            break
        before = int(page.next)
    return rows


@audit_command.command("verify")
@click.option("--holds", metavar="HASH", help="A hash noted earlier, which must still be in the chain.")
@place_options
def verify_command(holds: str | None, db: str | None) -> None:
    """Walk the chain of hashes; exit code 1 when it is broken.

    Note the last hash in another place: with --holds it shows later that nothing was cut off the end.
    """
    walk = ask(db, lambda it: it.verify_audit(holds=holds), makes_store=True)
    if walk.broken_at is not None:
        click.echo(f"broken at row {walk.broken_at}: {walk.why}", err=True)
        raise SystemExit(BROKEN)
    if holds is not None and not walk.holds:
        click.echo(
            "the hash is not in the chain: rows were removed from its end, or it belongs to another log", err=True
        )
        raise SystemExit(BROKEN)
    rows = walk.rows
    click.echo(f"{rows} row{'' if rows == 1 else 's'}, unbroken; the last hash is {walk.last_hash}")
