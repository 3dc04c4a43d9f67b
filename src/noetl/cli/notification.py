"""`noetl notification`: notices that servers have sent or could not send, and the rules that ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.access import note, on_store, when
from noetl.cli.connection import must_reach, reached, server_answer, server_option
from noetl.cli.output_formats import list_output, print_list, print_record, record_output
from noetl.cli.queries import db_option
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.operations.notifications import Notifications
    from noetl.store.contract import Store

_STATES = ("pending", "sending", "sent", "folded", "dead")


@click.group("notification", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Show notices about executions, send dead letters again, and set rules that say who is told what."""


@command.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these; dead: dead letters.")
@click.option("--execution", "execution_id", metavar="ID", help="Only those about this execution.")
@click.option(
    "--limit", type=click.IntRange(1, 500), default=50, show_default=True, metavar="N", help="At most so many."
)
@list_output
@server_option
@db_option
def list_command(
    states: tuple[str, ...], execution_id: str | None, limit: int, output: str, server: str | None, db: str | None
) -> None:
    """List notices, the newest first."""
    from noetl.cli.columns import columns

    found = reached(server, db)
    if found:
        page = server_answer(found, lambda it: it.notices(states=states, execution_id=execution_id, limit=limit))
    else:
        page = on_store(db, lambda store: _stored_page(store, states, execution_id, limit))
    rows = [_notice_row(one) for one in page.notices]
    heads = ("NOTICE", "STATE", "EVENT", "PLAYBOOK", "DESTINATION", "CREATED", "ATTEMPTS", "ERROR")
    cells = [
        (
            *(one[name] for name in ("notice_id", "state", "event", "path", "destination")),
            when(one["created_at"]),
            str(one["attempts"]),
            _short(one["error"]),
        )
        for one in rows
    ]
    nothing = "no notices: playbooks ask for them with `on`, installations with noetl notification rule set"
    print_list(rows, output, key="notice_id", table=lambda: columns(heads, cells, nothing=nothing))


def _short(error: str | None) -> str:
    return "" if error is None else error if len(error) <= 60 else error[:59] + "…"


async def _stored_page(store: Store, states: tuple[str, ...], execution_id: str | None, limit: int) -> Any:
    from noetl.store.notices import NoticeState

    chosen = [NoticeState(one) for one in states]
    return await _notifications(store).page(states=chosen, execution_id=execution_id, limit=limit)


@command.command("show")
@click.argument("notice_id", metavar="NOTICE")
@record_output
@server_option
@db_option
def show_command(notice_id: str, output: str, server: str | None, db: str | None) -> None:
    """Show one notice, with the whole error of its last attempt."""
    found = reached(server, db)
    shown = (
        server_answer(found, lambda it: it.notice(notice_id))
        if found
        else on_store(db, lambda store: _notifications(store).get(notice_id))
    )
    row = _notice_row(shown)
    print_record(
        row, output, text=lambda: [f"{name:<13} {visible(str(value))}" for name, value in row.items() if value]
    )


@command.command("retry")
@click.argument("notice_ids", metavar="[NOTICE]…", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="Every dead letter.")
@server_option
@db_option
def retry_command(notice_ids: tuple[str, ...], all_: bool, server: str | None, db: str | None) -> None:
    """Send dead letters again, with all their attempts.

    \b
    noetl notification list --state dead
    noetl notification retry --all
    """
    if all_ == bool(notice_ids):
        raise click.UsageError("name the dead letters, or say --all")
    found = reached(server, db)
    if all_:
        number = server_answer(found, lambda it: it.retry_notices()) if found else on_store(db, _retry_all)
    else:
        number = len(notice_ids)
        for one in notice_ids:
            _retry_one(one, found, db)
    click.echo(f"{number} to be sent again")


def _retry_one(notice_id: str, found: Any, db: str | None) -> None:
    if found:
        server_answer(found, lambda it: it.retry_notice(notice_id))
    else:
        on_store(db, lambda store: _notifications(store).retry(notice_id))


async def _retry_all(store: Store) -> int:
    return await _notifications(store).retry_all()


@command.command("test")
@click.argument("rule")
@server_option
def test_command(rule: str, server: str | None) -> None:
    """Send a test notice to every destination of a rule, from the server. Exit code 1: one did not arrive."""
    tried = server_answer(must_reach(server), lambda it: it.test_notification_rule(rule))
    for one in tried:
        click.echo(f"{visible(one.destination)}: " + ("sent" if one.error is None else visible(one.error)))
    if any(one.error is not None for one in tried):
        raise SystemExit(1)


@command.group("rule")
def rule_group() -> None:
    """Rules of the installation: which events of which playbooks are told where."""


@rule_group.command("list")
@list_output
@server_option
@db_option
def list_rules_command(output: str, server: str | None, db: str | None) -> None:
    """List the rules."""
    from noetl.cli.columns import columns

    found = reached(server, db)
    rules = server_answer(found, lambda it: it.notification_rules()) if found else on_store(db, _rules)
    cells = [
        (
            one["name"],
            ", ".join(one["on"]),
            one.get("path", "*"),
            _kinds(one),
            "yes" if one.get("enabled", True) else "no",
        )
        for one in rules
    ]
    nothing = "no rules yet: noetl notification rule set NAME FILE"
    heads = ("NAME", "EVENTS", "PLAYBOOKS", "DESTINATIONS", "ENABLED")
    print_list(rules, output, key="name", table=lambda: columns(heads, cells, nothing=nothing))


def _kinds(rule: dict[str, Any]) -> str:
    return ", ".join(kind for one in rule["notify"] for kind in one)


async def _rules(store: Store) -> list[dict[str, Any]]:
    import msgspec

    return [msgspec.to_builtins(one) for one in await _notifications(store).rules.all()]


@rule_group.command("set")
@click.argument("name")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@server_option
@db_option
def set_rule_command(name: str, file: Path, server: str | None, db: str | None) -> None:
    """Make a rule from a YAML or JSON file, or replace the one of that name; - reads it from stdin.

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
    found = reached(server, db)
    if found:
        server_answer(found, lambda it: it.set_notification_rule(name, rule))
    else:
        on_store(db, lambda store: _put_rule(store, name, rule))
    click.echo(f"rule {visible(name)} is set")


def _rule_in(file: Path) -> dict[str, Any]:
    """Read as playbooks are: `on` is a word, every mistake has its line."""
    from noetl.base.diagnostics import Findings
    from noetl.base.source import Source
    from noetl.language.reading.nodes import data
    from noetl.language.reading.yaml import read_yaml

    try:
        with click.open_file(str(file), encoding="utf-8") as opened:
            source = Source(str(file), opened.read())
    except (OSError, UnicodeDecodeError) as problem:
        raise click.BadParameter(f"{file} cannot be read: {problem}") from None
    findings = Findings()
    rule: dict[str, Any] = data(read_yaml(source, findings)) or {}
    for one in findings:
        raise click.BadParameter(f"{file}:{one.span.line}: {one.message}")
    return rule


async def _put_rule(store: Store, name: str, rule: dict[str, Any]) -> None:
    await _notifications(store).put_rule(name, rule)
    await note(store, "notification rule set", name)


@rule_group.command("delete")
@click.argument("name")
@server_option
@db_option
def delete_rule_command(name: str, server: str | None, db: str | None) -> None:
    """Delete a rule. Notices that it has asked for stay."""
    found = reached(server, db)
    if found:
        server_answer(found, lambda it: it.delete_notification_rule(name))
    else:
        on_store(db, lambda store: _delete_rule(store, name))
    click.echo(f"deleted {visible(name)}")


async def _delete_rule(store: Store, name: str) -> None:
    await _notifications(store).rules.delete(name)
    await note(store, "notification rule delete", name)


def _notifications(store: Store) -> Notifications:
    from noetl.base.clock import SystemClock
    from noetl.control.notifications.rules import NotificationRules
    from noetl.operations.notifications import Notifications

    clock = SystemClock()
    return Notifications(store.notices, NotificationRules(store.key_values, clock), None, clock)


def _notice_row(view: Any) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(view)
    return row
