"""`noetl worker`: run workers of a server, and list and stop those that were started here (CLI-01, WRK-01)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import must_reach, server_option
from noetl.cli.payload import labels_from
from noetl.cli.processes import add_process_commands, addresses_option
from noetl.cli.queries import refusals
from noetl.cli.terminal import color_option, columns, list_output, print_list, visible, when
from noetl.cli.tools import deny_option, kinds_option, sandbox_option

if TYPE_CHECKING:
    from noetl.base.settings import Settings
    from noetl.cli.connection import ServerPlace
    from noetl.operations.administration_shapes import WorkerInfo
    from noetl.tools.registry import Registry
    from noetl.worker.remote_worker import RemoteWorker

UNFINISHED = 1
_READY_S = 60.0


@click.group("worker")
@color_option
def command() -> None:
    """Run workers: they take orders from a server, run the tools, and report. They listen on no port."""


def _labels(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    return labels_from(pairs)


@command.command("start")
@click.option("--server", metavar="URL|NAME", help="The server to work for, or the context that names it.")
@click.option("--pool", metavar="POOL,…", help="Pools to take orders of.  [default: default]")
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Orders worked on at a time.  [default: 8]")
@click.option("--name", metavar="NAME", help="What it is called; without it, as this machine.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    callback=_labels,
    metavar="KEY=VALUE",
    help="What it has; a pool may ask for it.",
)
@kinds_option
@deny_option
@sandbox_option
@addresses_option
@click.option(
    "--drain-timeout", type=click.FloatRange(0), metavar="S", help="How long it may take to end.  [default: 30]"
)
@click.option("--token-file", metavar="FILE", help="Where its token is; NOETL_TOKEN comes first.")
@click.option("--ca", metavar="FILE", help="The authority of the server's certificate, in PEM, if it is a private one.")
@click.option("--detach", is_flag=True, help="Run it in the background.")
@color_option
@click.pass_context
def start_command(
    ctx: click.Context,
    server: str | None,
    pool: str | None,
    concurrency: int | None,
    name: str | None,
    labels: dict[str, str],
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    sandbox: bool,
    allow_addresses: tuple[str, ...],
    drain_timeout: float | None,
    token_file: str | None,
    ca: str | None,
    detach: bool,
) -> None:
    """Run tasks for a server until it is stopped.

    SIGTERM or Ctrl-C drains it: it takes no more orders, finishes and reports what runs, and exits with 0; with 1 when
    that took longer than --drain-timeout. A second signal stops it at once. Another worker takes over what is left.
    """
    from noetl.base.settings import load_settings
    from noetl.cli.own_process import new_event_loop, protect, tune_collection

    if detach:
        _detach()
        return
    flags = {
        "server": server,
        "pools": pool,
        "concurrency": concurrency,
        "allow": list(allow) or None,
        "deny": list(deny) or None,
        "sandbox": sandbox or None,
        "allow_addresses": list(allow_addresses) or None,
        "drain_timeout": drain_timeout,
        "token_file": token_file,
    }
    with refusals():
        settings = load_settings(flags).settings
        server_place = must_reach(server, token_file, ca)
        _warn_of_folders(settings)
        tune_collection()
        # The token has been read, so it can be removed from the environment.
        protect("NOETL_TOKEN")
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            left = runner.run(_serve(server_place, settings, name, labels))
        ctx.exit(left)


def _warn_of_folders(settings: Settings) -> None:
    from noetl.tools.files import missing_folder_warnings

    for warning in missing_folder_warnings(settings.data_folders):
        click.echo(f"warning: {warning}", err=True)


def _detach() -> None:
    from noetl.cli.processes import Record, detached

    def ready(record: Record) -> None:
        click.echo(f"worker {record.name} ({record.pid}) serves {record.url}")

    with refusals():
        detached(
            [argument for argument in sys.argv[1:] if argument != "--detach"], "worker", within_s=_READY_S, ready=ready
        )


async def _serve(server: ServerPlace, settings: Settings, name: str | None, labels: dict[str, str]) -> int:
    from noetl.base.distribution import own_version
    from noetl.base.tls_trust import trusting
    from noetl.cli.live import print_line
    from noetl.cli.processes import leave, own_record
    from noetl.worker.identity import own_instance
    from noetl.worker.remote_worker import RemoteWorker, WorkerSpec

    spec = WorkerSpec(
        url=server.url,
        token=server.token,
        name=name or socket.gethostname(),
        instance=own_instance(),
        pools=settings.pools,
        concurrency=settings.concurrency,
        labels=labels,
        drain_s=settings.drain_timeout,
        version=own_version(),
    )
    record = own_record("worker", spec.name, server.url, pools=",".join(settings.pools))
    place = None

    def registered() -> None:
        nonlocal place
        # Written only after the registration: `detached` waits for this file as the sign that the worker is ready.
        place = leave(record)

    worker = RemoteWorker(
        spec, _tools(settings), say=print_line, verify=trusting(server.ca, spec.url), registered=registered
    )
    _stop_on_signal(worker)
    try:
        left = await worker.serve()
    finally:
        if place is not None:
            place.unlink(missing_ok=True)
    if left:
        print_line(f"{left} unfinished; another worker takes it up")
    return UNFINISHED if left else 0


def _tools(settings: Settings) -> Registry:
    """The tools of a worker; its operator decides what they may do and reach (design.md §7)."""
    from noetl.base.addresses.policy import AddressPolicy
    from noetl.base.addresses.proxies import outbound_proxies
    from noetl.tools.registry import Permissions, allowed_kinds, denied_kinds, guarded_registry

    permissions = Permissions(
        kinds=allowed_kinds(settings.allow),
        denied=denied_kinds(settings.deny),
        sandbox=settings.sandbox,
        data_folders=settings.data_folders,
        provider_stand_ins=settings.provider_stand_ins,
        addresses=AddressPolicy(
            allow=settings.allow_addresses,
            proxies=outbound_proxies(settings.proxy, settings.no_proxy, os.environ),
        ),
    )
    return guarded_registry(permissions)


def _stop_on_signal(worker: RemoteWorker) -> None:
    """The first signal drains the worker, the second stops it at once."""
    received = 0

    def on_signal() -> None:
        nonlocal received
        received += 1
        worker.drain() if received == 1 else worker.stop()

    # Handlers of the loop, not of the process: they run between two callbacks and may touch what tasks use.
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)


@command.command("list")
@server_option
@list_output
def list_command(server: str | None, output: str) -> None:
    """List the workers of a server: what they serve, how much they hold, and which of them are drained."""
    import msgspec

    with refusals(), must_reach(server).client() as client:
        workers = client.workers()
    heads = ("WORKER", "STATE", "POOLS", "HELD", "LAST SEEN")
    rows = [
        (
            worker.worker_id,
            _state(worker),
            ",".join(worker.pools),
            f"{len(worker.leases)} of {worker.capacity}",
            when(worker.last_seen),
        )
        for worker in workers
    ]
    table = partial(columns, heads, rows, nothing="no worker has announced itself")
    print_list(msgspec.to_builtins(workers), output, key="worker_id", table=table)


def _state(worker: WorkerInfo) -> str:
    if not worker.live:
        return "lost"
    return "live" if worker.drained_at is None else "draining" if worker.leases else "drained"


@command.command("drain")
@click.argument("worker_id", metavar="WORKER")
@server_option
def drain_command(worker_id: str, server: str | None) -> None:
    """Give a worker no more orders: it finishes what it holds and stays connected.

    Stop it once `noetl worker list` says "drained". `noetl worker resume` lets it take orders again.
    """
    with refusals(), must_reach(server).client() as client:
        held = len(client.drain_worker(worker_id).leases)
    click.echo(f"{visible(worker_id)} is drained: {held} unfinished" if held else f"{visible(worker_id)} is drained")


@command.command("resume")
@click.argument("worker_id", metavar="WORKER")
@server_option
def resume_command(worker_id: str, server: str | None) -> None:
    """Let a drained worker take orders again."""
    with refusals(), must_reach(server).client() as client:
        client.resume_worker(worker_id)
    click.echo(f"{visible(worker_id)} takes orders again")


def _status(record: Any) -> tuple[str, ...]:
    return (record.detail.get("pools", ""),)


add_process_commands(command, "worker", heads=("POOLS",), more=_status)
