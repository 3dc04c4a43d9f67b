"""`noetl limit` and `pool`: limits of playbooks, steps and pools of workers, changed while executions run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import ask, find_execution_id, must_reach, place_options, server_option
from noetl.cli.executions import reason_option
from noetl.cli.payload import labels_from
from noetl.cli.queries import QueryRefused, refusals
from noetl.cli.terminal import color_option, columns, list_output, print_list, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.administration_shapes import PoolInfo
    from noetl.operations.api_shapes import PlaybookLimitView, RateView, StepLimitView

_RATE = re.compile(r"(\d+)/(.+)")
_EPILOG = 'An execution is meant by its id, the beginning of it, or "last" for the newest; a playbook by its path.'
step_option = click.option("--step", metavar="STEP", help="Step of the execution.")


@click.group("limit")
@color_option
def limit_command() -> None:
    """Show limits of playbooks and steps, and change them while executions run."""


@limit_command.command("list", epilog=_EPILOG)
@click.argument("reference", metavar="[PLAYBOOK|EXECUTION]", required=False)
@list_output
@place_options
def list_command(reference: str | None, output: str, db: str | None) -> None:
    """List the limits of playbooks that apply to executions now or were set, or those of an execution's steps."""

    async def load_limits(it: Operations) -> tuple[str, list[Any]]:
        # The id of an execution has no slash; most paths of playbooks have one.
        execution_id = None if reference is None or "/" in reference else await _execution_or_none(it, reference)
        if execution_id is None:
            return "path", list(await it.playbook_limits(reference))
        return "step", list(await it.step_limits(execution_id))

    key, rows = ask(db, load_limits)
    print_list(rows, output, key=key, table=lambda: playbook_table(rows) if key == "path" else step_table(rows))


async def _execution_or_none(it: Operations, reference: str) -> str | None:
    """The id of the execution that `reference` means; None if there is none, so it is the path of a playbook."""
    try:
        return await find_execution_id(it, reference)
    except QueryRefused as problem:
        # An ambiguous beginning of ids is an error about executions, not the path of a playbook.
        if problem.message.startswith("several"):
            raise
        return None


def _limit(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise click.BadParameter(f'"{text}" is not a whole number of at least 1; noetl limit reset removes a limit')
    return int(text)


def _rate(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, float] | None:
    from noetl.base.durations import seconds

    if text is None:
        return None
    match = _RATE.fullmatch(text)
    try:
        number, per = int(match[1]), match[2]  # type: ignore[index]
        # `10/s` means ten in one second.
        per_s = seconds(per if per[0].isdigit() else f"1{per}")
    except (TypeError, ValueError):
        number, per_s = 0, 0.0
    if number < 1 or per_s <= 0:
        raise click.BadParameter(f'"{text}" is not a rate such as 10/s or 100/5m') from None
    return number, per_s


@limit_command.command("set", epilog=_EPILOG)
@click.argument("reference", metavar="PLAYBOOK|EXECUTION")
@step_option
@click.option("--limit", metavar="N", callback=_limit, help="Most at once.")
@click.option(
    "--rate", metavar="N/TIME", callback=_rate, help="Most runs that begin in a time, such as 10/s or 100/5m."
)
@reason_option
@place_options
def set_command(
    reference: str,
    step: str | None,
    limit: int | None,
    rate: tuple[int, float] | None,
    reason: str | None,
    db: str | None,
) -> None:
    """Change a limit from now on; it overrides the playbook.

    For a playbook: how many of its executions run at once. With --step, for one execution: how many runs of that step
    run at once, or start within a time. If there is room now, what waits starts at once; nothing that runs is stopped.

    \b
    noetl limit set reports/daily --limit 3
    noetl limit set last --step fetch --rate 10/s
    """
    if limit is None and rate is None:
        raise click.UsageError("use --limit N, --rate N/TIME, or both")
    if step is None:
        if limit is None or rate is not None:
            raise click.UsageError("a rate applies to a step: name it with --step; a playbook has only --limit")
        changed = ask(db, lambda it: it.limit_playbook(reference, limit, reason=reason))
        click.echo(f"{visible(reference)}: {limit} at once" + ("" if changed else ", as it was"))
        return
    settings: dict[str, Any] = {} if limit is None else {"limit": limit}
    settings |= {} if rate is None else {"rate": {"limit": rate[0], "per": rate[1]}}
    execution_id, changed = _limit_step(
        reference, step, settings | ({"reason": reason} if reason is not None else {}), db
    )
    words = [f"{limit} at once"] if limit is not None else []
    words += [f"{rate[0]} in {rate[1]:g} s"] if rate is not None else []
    summary = ", ".join(words) + ("" if changed else ", as it was")
    click.echo(f"step {visible(step)} of execution {execution_id}: {summary}")


@limit_command.command("reset", epilog=_EPILOG)
@click.argument("reference", metavar="PLAYBOOK|EXECUTION")
@step_option
@place_options
def reset_command(reference: str, step: str | None, db: str | None) -> None:
    """Remove a limit that was set: that of the playbook applies again.

    \b
    noetl limit reset reports/daily
    noetl limit reset last --step fetch
    """
    if step is None:
        changed = ask(db, lambda it: it.reset_playbook_limit(reference))
        click.echo(f"{visible(reference)}: as the playbook says" + ("" if changed else ", as it was"))
        return
    execution_id, changed = _limit_step(reference, step, {"limit": None, "rate": None}, db)
    summary = "as the playbook says" + ("" if changed else ", as it was")
    click.echo(f"step {visible(step)} of execution {execution_id}: {summary}")


def _limit_step(reference: str, step: str, settings: dict[str, Any], db: str | None) -> tuple[str, bool]:
    """Change the limits of a step; returns the id of the execution, and whether anything changed."""

    async def change_limit(it: Operations) -> tuple[str, bool]:
        execution_id = await find_execution_id(it, reference)
        return execution_id, await it.limit_step(execution_id, step, **settings)

    return ask(db, change_limit)


def playbook_table(rows: Sequence[PlaybookLimitView]) -> list[str]:
    cells = [
        (row.path, _text(row.key), _text(row.written), _text(row.limit), str(row.running), str(row.waiting))
        for row in rows
    ]
    return columns(("PLAYBOOK", "KEY", "WRITTEN", "SET", "RUNNING", "WAITING"), cells, nothing="no limits")


def step_table(rows: Sequence[StepLimitView]) -> list[str]:
    cells = [
        (row.step, what, _text(written), _text(wanted), str(running), str(waiting))
        for row in rows
        for what, written, wanted, running, waiting in _lines(row)
    ]
    return columns(("STEP", "WHAT", "WRITTEN", "SET", "RUNNING", "WAITING"), cells, nothing="no limits")


def _lines(row: StepLimitView) -> list[tuple[str, Any, Any, Any, Any]]:
    """The rows of a step: for its limit, its rate, or both."""
    lines: list[tuple[str, Any, Any, Any, Any]] = []
    if row.written is not None or row.limit is not None:
        lines.append(("at once", row.written, row.limit, row.running, row.waiting))
    if row.written_rate is not None or row.rate is not None:
        lines.append(("rate", _rate_text(row.written_rate), _rate_text(row.rate), "-", row.paced))
    return lines


def _rate_text(rate: RateView | None) -> str | None:
    if rate is None:
        return None
    return f"{rate.limit} in {f'{rate.per:g} s' if isinstance(rate.per, int | float) else rate.per}"


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


# `noetl pool`: how many orders of a pool may run at once, and which workers may take them (CLI-01, SRV-08).


@click.group("pool")
@color_option
def pool_command() -> None:
    """Show and limit pools of workers."""


@pool_command.command("list")
@server_option
@list_output
def list_pools_command(server: str | None, output: str) -> None:
    """List pools: their limits, the labels they require, what is held now, and how many workers serve them.

    Below the list are the waiting orders that no worker of their pool can run, and why.
    """
    import msgspec

    with refusals(), must_reach(server).client() as client:
        pools = client.pools()
    fields: list[dict[str, Any]] = msgspec.to_builtins(pools)
    print_list(fields, output, key="name", table=lambda: _table(pools))


def _table(pools: list[PoolInfo]) -> list[str]:
    rows = [
        (pool.name, pool.capacity or "-", pool.rate_text or "-", pool.require_text or "-", pool.leased, pool.workers)
        for pool in pools
    ]
    headings = ("POOL", "CAPACITY", "RATE", "REQUIRES", "HELD", "WORKERS")
    return columns(headings, rows) + [visible(why) for pool in pools for why in pool.obstacles]


def _capacity(_: click.Context, __: click.Parameter, text: str | None) -> int | str | None:
    if text is None or text == "none":
        return text
    if not text.isdigit() or int(text) < 1:
        raise click.BadParameter(f'"{text}" is not a number of orders; "none" removes the limit')
    return int(text)


def _pool_rate(_: click.Context, __: click.Parameter, text: str | None) -> dict[str, Any] | str | None:
    from noetl.base.durations import seconds

    if text is None or text == "none":
        return text
    match = _RATE.fullmatch(text)
    try:
        return {"limit": int(match[1]), "per": seconds(match[2])}  # type: ignore[index]
    except (TypeError, ValueError):
        raise click.BadParameter(f'"{text}" is not a rate such as 100/1m; "none" removes it') from None


def _require(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str] | None:
    if not pairs:
        return None
    if pairs == ("none",):
        return {}
    return labels_from(pairs)


@pool_command.command("set")
@click.argument("name")
@click.option("--capacity", metavar="N|none", callback=_capacity, help="Orders that may be held at once.")
@click.option(
    "--rate", metavar="N/TIME|none", callback=_pool_rate, help="Orders that may be begun in a time, such as 100/1m."
)
@click.option(
    "--require",
    multiple=True,
    callback=_require,
    metavar="KEY=VALUE|none",
    help="Only workers with this label may take its orders; several times for several.",
)
@server_option
def set_pool_command(
    name: str,
    capacity: int | str | None,
    rate: dict[str, Any] | str | None,
    require: dict[str, str] | None,
    server: str | None,
) -> None:
    """Limit a pool, from now on and for all servers; what is held stays held."""
    if capacity is None and rate is None and require is None:
        raise click.UsageError("use --capacity N, --rate N/TIME or --require KEY=VALUE")
    with refusals(), must_reach(server).client() as client:
        # The route replaces all settings of a pool, so those without an option are sent unchanged.
        before = next((other for other in client.pools() if other.name == name), None)
        settings: dict[str, Any] = {
            "capacity": before.capacity if before is not None else None,
            "rate": before.rate if before is not None else None,
            "require": require,
        }
        settings |= {"capacity": None if capacity == "none" else capacity} if capacity is not None else {}
        settings |= {"rate": None if rate == "none" else rate} if rate is not None else {}
        pool = client.set_pool(name, **settings)
    limit = f"{pool.capacity} at once" if pool.capacity else "no limit"
    words = [limit, pool.rate_text, f"for workers with {pool.require_text}" if pool.require else ""]
    click.echo(visible(f"{pool.name}: {', '.join(word for word in words if word)}"))
