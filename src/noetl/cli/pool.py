"""`noetl pool`: how many orders of a pool may be worked on at once, and by whom (CLI-01, SRV-08)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import must_reach, server_option
from noetl.cli.output_formats import columns, list_output, print_list
from noetl.cli.payload import labels_from
from noetl.cli.queries import refusals
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.operations.administration_shapes import PoolInfo

_RATE = re.compile(r"(\d+)/(.+)")


@click.group("pool")
@color_option
def command() -> None:
    """Show and limit pools of workers."""


@command.command("list")
@server_option
@list_output
def list_command(server: str | None, output: str) -> None:
    """List pools: their limits, the labels they require, what is held now, and how many workers serve them.

    Below the list are the waiting orders that no worker of their pool can run, and why.
    """
    import msgspec

    with refusals(), must_reach(server).client() as client:
        pools = client.pools()
    told: list[dict[str, Any]] = msgspec.to_builtins(pools)
    print_list(told, output, key="name", table=lambda: _table(pools))


def _table(pools: list[PoolInfo]) -> list[str]:
    rows = [
        (one.name, one.capacity or "-", one.rate_text or "-", one.require_text or "-", one.leased, one.workers)
        for one in pools
    ]
    headings = ("POOL", "CAPACITY", "RATE", "REQUIRES", "HELD", "WORKERS")
    return columns(headings, rows) + [visible(why) for one in pools for why in one.obstacles]


def _capacity(_: click.Context, __: click.Parameter, given: str | None) -> int | str | None:
    if given is None or given == "none":
        return given
    if not given.isdigit() or int(given) < 1:
        raise click.BadParameter(f'"{given}" is no number of orders; "none" lifts the limit')
    return int(given)


def _rate(_: click.Context, __: click.Parameter, given: str | None) -> dict[str, Any] | str | None:
    from noetl.base.durations import seconds

    if given is None or given == "none":
        return given
    match = _RATE.fullmatch(given)
    try:
        return {"limit": int(match[1]), "per": seconds(match[2])}  # type: ignore[index]
    except (TypeError, ValueError):
        raise click.BadParameter(f'"{given}" is no rate such as 100/1m; "none" lifts it') from None


def _require(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | None:
    if not given:
        return None
    if given == ("none",):
        return {}
    return labels_from(given)


@command.command("set")
@click.argument("name")
@click.option("--capacity", metavar="N|none", callback=_capacity, help="Orders that may be held at once.")
@click.option(
    "--rate", metavar="N/TIME|none", callback=_rate, help="Orders that may be begun in a time, such as 100/1m."
)
@click.option(
    "--require",
    multiple=True,
    callback=_require,
    metavar="KEY=VALUE|none",
    help="Only workers with this label may take its orders; several times for several.",
)
@server_option
def set_command(
    name: str,
    capacity: int | str | None,
    rate: dict[str, Any] | str | None,
    require: dict[str, str] | None,
    server: str | None,
) -> None:
    """Limit a pool, from now on and for all servers; what is held stays held."""
    if capacity is None and rate is None and require is None:
        raise click.UsageError("say --capacity N, --rate N/TIME or --require KEY=VALUE")
    with refusals(), must_reach(server).client() as client:
        before = next((one for one in client.pools() if one.name == name), None)
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
