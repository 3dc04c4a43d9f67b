"""`noetl db`: migrate a store, check its consistency, rebuild its rows from the log, back it up (design.md §2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from noetl.cli.connection import ask_store
from noetl.cli.queries import FAILED, QueryRefused, db_option, is_there, place_of, refusals
from noetl.cli.terminal import as_json, color_option, visible

if TYPE_CHECKING:
    from noetl.control.background.retention import RetentionCount
    from noetl.operations.local import LocalOperations
    from noetl.store.inspection import Inspection, SqlStore
    from noetl.store.sql_files import Applied
    from noetl.store.sqlite.backup import Manifest

# Flaws on a terminal; JSON has all of them.
_SHOWN = 20
_MEMORY = ":memory:"

output_option = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format."
)


@click.group("db")
def command() -> None:
    """Maintain a store: a file, or a schema in PostgreSQL."""


@command.command("migrate")
@db_option
@click.option("--plan", is_flag=True, help="Only show which migrations would run.")
@output_option
@color_option
def migrate_command(db: str | None, plan: bool, output: str) -> None:
    """Run the migrations that a store still needs.

    They run whenever a store is opened as well; this does it ahead, before servers are started. A store that is not
    there yet is made.
    """
    _refuse_memory(db)
    if plan:
        _print_plan(db, output)
        return
    with refusals():
        before, after = asyncio.run(_run_migrations(db))
    ran = [name for name in after.done if name not in before]
    if output == "json":
        click.echo(as_json({"store": _store_name(db), "ran": ran, "applied": after.done}))
        return
    for name in ran:
        click.echo(f"ran {name}")
    if not ran:
        click.echo(f"up to date: {len(after.done)} migrations, the newest is {after.done[-1]}")


def _print_plan(db: str | None, output: str) -> None:
    from noetl.store.open_store import applied_migrations

    _refuse_missing(db)
    with refusals():
        applied = asyncio.run(applied_migrations(db))
    if output == "json":
        click.echo(as_json({"store": _store_name(db), "applied": applied.done, "pending": applied.missing}))
        return
    for name in applied.missing:
        click.echo(f"would run {name}")
    if not applied.missing:
        click.echo(f"up to date: {len(applied.done)} migrations, the newest is {applied.done[-1]}")


async def _run_migrations(db: str | None) -> tuple[list[str], Applied]:
    from noetl.store.open_store import applied_migrations, open_store

    # Asked before the store is opened, which is what runs the migrations.
    before = (await applied_migrations(db)).done if is_there(db) else []
    store, _ = await open_store(db)
    await store.close()
    return before, await applied_migrations(db)


@command.command("check")
@db_option
@click.option("--sample", type=click.IntRange(0), default=200, show_default=True, help="Executions to rebuild.")
@output_option
@color_option
@click.pass_context
def check_command(ctx: click.Context, db: str | None, sample: int, output: str) -> None:
    """Check whether a store is up to date and whole; exit code 1 if it is not.

    It checks that no log has a gap, that no order, wait or task is open without its execution, and that the rows of the
    newest executions match their logs.
    """
    _refuse_missing(db)
    with refusals():
        applied, inspection = asyncio.run(_checked(db, sample))
    is_good = inspection is not None and not inspection.flaws
    if output == "json":
        flaws = (
            [{"execution_id": flaw.execution_id, "what": flaw.what} for flaw in inspection.flaws] if inspection else []
        )
        state = {"store": _store_name(db), "ok": is_good, "applied": applied.done, "pending": applied.missing}
        comparison = {"compared": inspection.compared, "warnings": inspection.hazards} if inspection else {}
        click.echo(as_json(state | {"compared": 0, "warnings": []} | comparison | {"flaws": flaws}))
    else:
        _print_state(applied, inspection)
    if not is_good:
        ctx.exit(FAILED)


async def _checked(db: str | None, sample: int) -> tuple[Applied, Inspection | None]:
    from noetl.store.inspection import inspected
    from noetl.store.open_store import applied_migrations, open_store

    applied = await applied_migrations(db)
    if applied.missing:
        # Opening the store would run the migrations, and a check must not change anything.
        return applied, None
    store, _ = await open_store(db)
    try:
        return applied, await inspected(cast("SqlStore", store), sample=sample)
    finally:
        await store.close()


def _print_state(applied: Applied, inspection: Inspection | None) -> None:
    click.echo(
        f"migrations: {len(applied.done)} applied" + (f", {len(applied.missing)} pending" * bool(applied.missing))
    )
    if inspection is None:
        click.echo(f"pending: {', '.join(applied.missing)}; run them with: noetl db migrate")
        return
    for hazard in inspection.hazards:
        click.echo(f"warning: {hazard}")
    for flaw in inspection.flaws[:_SHOWN]:
        click.echo(f"execution {visible(flaw.execution_id)}: {visible(flaw.what)}")
    if len(inspection.flaws) > _SHOWN:
        click.echo(f"and {len(inspection.flaws) - _SHOWN} more: see -o json")
    if inspection.flaws:
        click.echo("to rebuild rows that differ from the log, run: noetl db rebuild")
    else:
        click.echo(f"whole: {_executions(inspection.compared)} compared with the log")


@command.command("rebuild")
@db_option
@output_option
@color_option
def rebuild_command(db: str | None, output: str) -> None:
    """Rebuild the rows of executions, orders, waits and tasks from the log.

    This is one transaction, and commits wait for it. Leases are restored as expired; a worker that holds one renews it.
    """
    _refuse_missing(db)
    with refusals():
        number = asyncio.run(_rebuild(db))
    click.echo(as_json({"executions": number}) if output == "json" else f"rebuilt the rows of {_executions(number)}")


async def _rebuild(db: str | None) -> int:
    from noetl.store.open_store import open_store

    store, _ = await open_store(db)
    try:
        return await store.rebuild()
    finally:
        await store.close()


@command.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@db_option
@output_option
@color_option
def backup_command(file: Path, db: str | None, output: str) -> None:
    """Write a consistent copy of a store with its large results to FILE, while servers go on.

    For a store in a file. In PostgreSQL use pg_dump, and copy the results folder after it.
    """
    from noetl.store.sqlite.backup import back_up

    _refuse_missing(db)
    with refusals():
        manifest = back_up(*_file_store(db), file)
    _print_copied(f"wrote {file}", manifest, output)


@command.command("restore")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@db_option
@output_option
@color_option
def restore_command(file: Path, db: str | None, output: str) -> None:
    """Write the store of a backup to a place where there is none yet."""
    from noetl.store.sqlite.backup import restore

    _refuse_memory(db)
    with refusals():
        manifest = restore(file, *_file_store(db))
    _print_copied(f"restored {place_of(db)}", manifest, output)


def _file_store(db: str | None) -> tuple[Path, Path]:
    """The file of a store and the folder of its results."""
    from noetl.base.settings import default_db, results_folder
    from noetl.store.open_store import is_database

    if is_database(db):
        raise QueryRefused(
            "a store in PostgreSQL is backed up by PostgreSQL: pg_dump --format=custom, then copy the results folder"
        )
    place = Path(db) if db is not None else default_db()
    return place, results_folder(place)


def _print_copied(what: str, manifest: Manifest, output: str) -> None:
    if output == "json":
        click.echo(
            as_json({"executions": manifest.executions, "results": manifest.results, "migrations": manifest.migrations})
        )
    else:
        click.echo(f"{what}: {_executions(manifest.executions)}, {manifest.results:,} stored results")


@command.command("retention")
@db_option
@click.option("--run", "runs", is_flag=True, help="Remove it. Without this, only what would be removed is shown.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed; this is the default.")
@click.option(
    "--days",
    type=click.FloatRange(0),
    help="How many days other executions are kept; without it, they are not deleted.",
)
@output_option
@color_option
def retention_command(db: str | None, runs: bool, dry_run: bool, days: float | None, output: str) -> None:
    """Delete executions whose retention time has passed, and results that nothing refers to.

    A playbook says how long its executions are kept: metadata.retention. Servers do this every hour, with their own
    setting for the others; without a server nothing is deleted automatically.
    """
    _refuse_missing(db)
    if runs and dry_run:
        raise click.UsageError("--run and --dry-run exclude each other")
    with refusals():
        count = asyncio.run(_run_retention(db, days, runs=runs))
    if output == "json":
        totals = {"removed": runs, "executions": count.total, "results": count.results}
        click.echo(
            as_json(
                totals
                | {
                    "playbooks": [
                        {"path": playbook.path, "kept_s": playbook.kept_s, "executions": playbook.executions}
                        for playbook in count.executions
                    ]
                }
            )
        )
        return
    for playbook in count.executions:
        click.echo(
            f"{visible(playbook.path)}: {_executions(playbook.executions)} older than {playbook.kept_s / 86_400:g} days"
        )
    verb = "removed" if runs else "would remove"
    click.echo(f"{verb} {_executions(count.total)} and {count.results:,} stored results")


async def _run_retention(db: str | None, days: float | None, *, runs: bool) -> RetentionCount:
    from noetl.base.clock import SystemClock
    from noetl.control.background.retention import Retention
    from noetl.store.open_store import open_store

    store, results = await open_store(db)
    try:
        default_s = None if days is None else days * 86_400
        # Without --days only playbooks with `metadata.retention` are concerned: the others have no retention time.
        retention = Retention(store, results, SystemClock(), default_s=default_s)
        return await (retention.run() if runs else retention.planned())
    finally:
        await store.close()


@command.command("delete")
@click.argument("execution_ids", metavar="ID...", nargs=-1, required=True)
@db_option
@click.option("--run", "runs", is_flag=True, help="Delete them. Without this, only what would be deleted is shown.")
@output_option
@color_option
def delete_command(execution_ids: tuple[str, ...], db: str | None, runs: bool, output: str) -> None:
    """Delete executions that are over before their retention time, for good.

    The executions that they have started are deleted with them. The audit log says who deleted which execution. A
    stored result that nothing refers to any more is deleted by the next retention run, a day after it was stored at the
    earliest.

    noetl db delete 01a1f64b-9118-735a-ba35-801fec7f8dd5 --run
    """
    _refuse_missing(db)

    async def deleted(operations: LocalOperations) -> list[str]:
        wanted = await operations.executions_to_delete(execution_ids)
        if runs:
            await operations.delete_executions(wanted)
        return wanted

    ids = ask_store(db, deleted, else_say="executions are deleted in the store: name it with --db")
    if output == "json":
        click.echo(as_json({"deleted": runs, "executions": ids}))
        return
    for execution_id in ids:
        click.echo(execution_id)
    click.echo(f"{'deleted' if runs else 'would delete'} {_executions(len(ids))}")


def _executions(number: int) -> str:
    return f"{number:,} execution" if number == 1 else f"{number:,} executions"


def _store_name(db: str | None) -> str:
    from noetl.base.redaction import without_password

    return without_password(db) if db is not None else str(place_of(db))


def _refuse_missing(db: str | None) -> None:
    _refuse_memory(db)
    if not is_there(db):
        raise QueryRefused(f"there is no store {place_of(db)}: name another with --db")


def _refuse_memory(db: str | None) -> None:
    if db == _MEMORY:
        raise QueryRefused("a store in memory ends with its process, so there is nothing to maintain")
