"""`noetl notification`: notices that servers have sent or could not send, and the rules that ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.cli import terminal
from noetl.cli.connection import ask, ask_server, place_options, server_option

if TYPE_CHECKING:
    from noetl.cli.connection import Operations

# The width of an error in a list: the address comes first, then the answer, so the end can be cut.
_WIDEST = 120
_STATES = ("pending", "sending", "sent", "folded", "dead")


@click.group("notification")
@terminal.color_option
def command() -> None:
    """Show notices about executions, send dead letters again, and set rules for who is notified of what."""


@command.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these; dead: dead letters.")
@click.option("--execution", "execution_id", metavar="ID", help="Only those about this execution.")
@click.option(
    "--limit", type=click.IntRange(1, 500), default=50, show_default=True, metavar="N", help="Most rows to list."
)
@terminal.list_output
@place_options
def list_command(states: tuple[str, ...], execution_id: str | None, limit: int, output: str, db: str | None) -> None:
    """List notices, the newest first."""
    page = ask(db, lambda it: it.notices(states=states, execution_id=execution_id, limit=limit), makes_store=True)
    rows = [_notice_row(row) for row in page.notices]
    heads = ("NOTICE", "STATE", "EVENT", "PLAYBOOK", "DESTINATION", "CREATED", "ATTEMPTS", "ERROR")
    cells = [
        (
            *(row[name] for name in ("notice_id", "state", "event", "path", "destination")),
            terminal.when(row["created_at"]),
            str(row["attempts"]),
            _short_error(row["error"]),
        )
        for row in rows
    ]
    nothing = "no notices: playbooks ask for them with `on`, installations with noetl notification rule set"
    terminal.print_list(rows, output, key="notice_id", table=lambda: terminal.columns(heads, cells, nothing=nothing))


def _short_error(error: str | None) -> str:
    return "" if error is None else error if len(error) <= _WIDEST else error[: _WIDEST - 1] + "…"


@command.command("show")
@click.argument("notice_id", metavar="NOTICE")
@terminal.record_output
@place_options
def show_command(notice_id: str, output: str, db: str | None) -> None:
    """Show one notice, with the whole error of its last attempt."""
    notice = ask(db, lambda it: it.notice(notice_id), makes_store=True)
    row = _notice_row(notice)
    terminal.print_record(
        row, output, text=lambda: [f"{name:<13} {terminal.visible(str(value))}" for name, value in row.items() if value]
    )


@command.command("retry")
@click.argument("notice_ids", metavar="[NOTICE]…", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="Every dead letter.")
@place_options
def retry_command(notice_ids: tuple[str, ...], all_: bool, db: str | None) -> None:
    """Send dead letters again, with all their attempts.

    \b
    noetl notification list --state dead
    noetl notification retry --all
    """
    if all_ == bool(notice_ids):
        raise click.UsageError("name the dead letters, or say --all")
    number = ask(db, lambda it: _retry(it, notice_ids), makes_store=True)
    click.echo(f"{number} to be sent again")


async def _retry(it: Operations, notice_ids: tuple[str, ...]) -> int:
    """Retry these dead letters, or all without ids; returns how many."""
    if not notice_ids:
        return await it.retry_notices()
    for notice_id in notice_ids:
        await it.retry_notice(notice_id)
    return len(notice_ids)


@command.command("test")
@click.argument("rule")
@server_option
def test_command(rule: str, server: str | None) -> None:
    """Send a test notice to every destination of a rule, from the server. Exit code 1: one did not arrive."""
    results = ask_server(server, lambda client: client.test_notification_rule(rule))
    for result in results:
        click.echo(
            f"{terminal.visible(result.destination)}: "
            + ("sent" if result.error is None else terminal.visible(result.error))
        )
    if any(result.error is not None for result in results):
        raise SystemExit(1)


@command.group("rule")
def rule_group() -> None:
    """Rules of the installation: which events of which playbooks are sent where."""


@rule_group.command("list")
@terminal.list_output
@place_options
def list_rules_command(output: str, db: str | None) -> None:
    """List the rules."""
    rules = ask(db, lambda it: it.notification_rules(), makes_store=True)
    cells = [
        (
            rule["name"],
            ", ".join(rule["on"]),
            rule.get("path", "*"),
            _kinds(rule),
            "yes" if rule.get("enabled", True) else "no",
        )
        for rule in rules
    ]
    nothing = "no rules yet: noetl notification rule set NAME FILE"
    heads = ("NAME", "EVENTS", "PLAYBOOKS", "DESTINATIONS", "ENABLED")
    terminal.print_list(rules, output, key="name", table=lambda: terminal.columns(heads, cells, nothing=nothing))


def _kinds(rule: dict[str, Any]) -> str:
    return ", ".join(kind for destination in rule["notify"] for kind in destination)


@rule_group.command("set")
@click.argument("name")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@place_options
def set_rule_command(name: str, file: Path, db: str | None) -> None:
    """Set a rule from a YAML or JSON file; - reads standard input. A rule with that name is replaced.

    \b
    noetl notification rule set ops ops.yaml
    \b
    on: [failed, late]
    path: billing/*
    late_after: 2h
    throttle: 10m
    notify:
      - email: {to: ops@example.org, auth: mail}
    """
    rule = _rule_in(file)
    ask(db, lambda it: it.set_notification_rule(name, rule), makes_store=True)
    click.echo(f"rule {terminal.visible(name)} is set")


def _rule_in(file: Path) -> dict[str, Any]:
    """The rule in a file. It is read like a playbook, so that `on` is a word and every mistake has its line."""
    from noetl.base.diagnostics import Findings, Source
    from noetl.language.reading.nodes import data
    from noetl.language.reading.yaml import read_yaml

    try:
        with click.open_file(str(file), encoding="utf-8") as opened:
            source = Source(str(file), opened.read())
    except (OSError, UnicodeDecodeError) as problem:
        raise click.BadParameter(f"{file} cannot be read: {problem}") from None
    findings = Findings()
    rule: dict[str, Any] = data(read_yaml(source, findings)) or {}
    for finding in findings:
        raise click.BadParameter(f"{file}:{finding.span.line}: {finding.message}")
    return rule


@rule_group.command("delete")
@click.argument("name")
@place_options
def delete_rule_command(name: str, db: str | None) -> None:
    """Delete a rule. Notices that it has asked for stay."""
    ask(db, lambda it: it.delete_notification_rule(name), makes_store=True)
    click.echo(f"deleted {terminal.visible(name)}")


def _notice_row(view: Any) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(view)
    return row
