"""`noetl pool`: how many orders of a pool may be worked on at once (CLI-01, SRV-08)."""

from __future__ import annotations

import re
from typing import Any

import click

from noetl.cli.forms import list_output, print_list
from noetl.cli.reaching import as_table, must_reach, server_option
from noetl.cli.reading import refusals
from noetl.cli.terminal import color_option, visible

_RATE = re.compile(r"(\d+)/(.+)")


@click.group("pool", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Show and limit pools of workers."""


@command.command("list")
@server_option
@list_output
def list_command(server: str | None, output: str) -> None:
    """List pools: their limits, what is held now, and how many workers serve them."""
    import msgspec

    with refusals(), must_reach(server).client() as client:
        pools = client.pools()
    told: list[dict[str, Any]] = msgspec.to_builtins(pools)
    rows: list[tuple[Any, ...]] = [("POOL", "CAPACITY", "RATE", "HELD", "WORKERS")]
    rows += [(one.name, one.capacity or "-", one.rate_text or "-", one.leased, one.workers) for one in pools]
    print_list(told, output, key="name", table=lambda: as_table(rows))


def _capacity(_: click.Context, __: click.Parameter, given: str | None) -> int | str | None:
    if given is None or given == "none":
        return given
    if not given.isdigit() or int(given) < 1:
        raise click.BadParameter(f'"{given}" is no number of orders; "none" lifts the limit')
    return int(given)


def _rate(_: click.Context, __: click.Parameter, given: str | None) -> dict[str, Any] | str | None:
    from noetl.durations import seconds

    if given is None or given == "none":
        return given
    match = _RATE.fullmatch(given)
    try:
        return {"limit": int(match[1]), "per": seconds(match[2])}  # type: ignore[index]
    except (TypeError, ValueError):
        raise click.BadParameter(f'"{given}" is no rate such as 100/1m; "none" lifts it') from None


@command.command("set")
@click.argument("name")
@click.option("--capacity", metavar="N|none", callback=_capacity, help="Orders that may be held at once.")
@click.option(
    "--rate", metavar="N/TIME|none", callback=_rate, help="Orders that may be begun in a time, such as 100/1m."
)
@server_option
def set_command(name: str, capacity: int | str | None, rate: dict[str, Any] | str | None, server: str | None) -> None:
    """Limit a pool, from now on and for all servers; what is held stays held."""
    if capacity is None and rate is None:
        raise click.UsageError("say --capacity N, --rate N/TIME, or both")
    with refusals(), must_reach(server).client() as client:
        before = next((one for one in client.pools() if one.name == name), None)
        settings: dict[str, Any] = {
            "capacity": before.capacity if before is not None else None,
            "rate": before.rate if before is not None else None,
        }
        settings |= {"capacity": None if capacity == "none" else capacity} if capacity is not None else {}
        settings |= {"rate": None if rate == "none" else rate} if rate is not None else {}
        pool = client.set_pool(name, **settings)
    limit = f"{pool.capacity} at once" if pool.capacity else "no limit"
    click.echo(f"{visible(pool.name)}: {limit}{f', {pool.rate_text}' if pool.rate_text else ''}")
