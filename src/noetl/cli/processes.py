"""Processes that were started from the command line: found again by a record in the state folder (CLI-01).

A record holds id and start time of its process. The system reuses process ids, so nothing is signalled before both are
seen to be those of the process that left the record.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from noetl.base.errors import RefusedError
from noetl.base.settings import state_folder
from noetl.cli.output_formats import columns
from noetl.cli.queries import QueryRefused, as_json, refusals
from noetl.cli.terminal import color_option
from noetl.worker.identity import started_at

_POLL_S = 0.05
_LAST_LINES = 20
_TERMINAL = "where it was started"  # the log of a process in the foreground


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is server or worker; `url` is where a server listens, or which one a worker serves."""

    kind: str
    name: str
    pid: int
    started: int  # the process's start time as the system counts it: ids are reused, and both together are not
    url: str
    at: float
    detail: dict[str, str] = {}


class _LogLine(msgspec.Struct, frozen=True):
    event: str = ""
    level: str = ""


def own_record(kind: str, name: str, url: str, **detail: str) -> Record:
    pid = os.getpid()
    return Record(kind=kind, name=name, pid=pid, started=started_at(pid) or 0, url=url, at=time.time(), detail=detail)


def leave(record: Record) -> Path:
    """Leave word of this process; only its user can read it."""
    place = _place(record.kind, record.pid)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Written beside it and renamed: `detached` polls for the file and must not read half of it.
    part = place.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(record))
    part.chmod(0o600)
    part.replace(place)
    return place


def is_alive(record: Record) -> bool:
    return record.started != 0 and started_at(record.pid) == record.started and not _is_zombie(record.pid)


def listed(kind: str) -> list[Record]:
    """Those that still run, the oldest first; word of others is removed."""
    found = []
    for place in sorted(state_folder().glob(f"{kind}-*.json")):
        try:
            record = msgspec.json.decode(place.read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            continue
        if is_alive(record):
            found.append(record)
        else:
            place.unlink(missing_ok=True)
    return sorted(found, key=lambda record: record.at)


def chosen(kind: str, given: str | None, *, everything: bool = False) -> list[Record]:
    """The process that is meant, by its name or its number; without either there must be one only."""
    records = listed(kind)
    if everything:
        return records
    if given is not None:
        matching = [record for record in records if given in (record.name, str(record.pid))]
        if matching:
            return matching
        raise RefusedError(f'no {kind} "{given}" was started here; there is {_process_names(records)}')
    if len(records) > 1:
        raise RefusedError(f"several run here: {_process_names(records)}; name one, or say --all")
    return records


def stop(record: Record, *, within_s: float, force: bool = False) -> bool:
    """Ask a process to end and wait for it; with `force` it is killed when it has not in time. False if it stays."""
    if not is_alive(record):
        return True
    _send(record, signal.SIGTERM)
    if _wait_until_ended(record, within_s):
        return True
    if force:
        _send(record, signal.SIGKILL)
        return _wait_until_ended(record, within_s=5.0)
    return False


def detached(arguments: Sequence[str], kind: str, *, within_s: float, ready: Callable[[Record], None]) -> None:
    """Run the same command in the background; `ready` hears of it when it has left word of itself. What it has warned
    of until then is shown here too.

    RefusedError with the end of its log when it ended instead."""
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = folder / f"{kind}-{int(time.time() * 1000)}.log"
    with log.open("wb") as output:
        log.chmod(0o600)
        # In a session of its own: Ctrl-C in this terminal must not reach a process in the background.
        child = subprocess.Popen(  # noqa: S603  ourselves, with our own arguments
            [sys.executable, "-m", "noetl.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if child.poll() is not None:
            raise RefusedError(f"the {kind} ended at once:\n{_end_of(log)}")
        place = _place(kind, child.pid)
        if place.exists():
            record = msgspec.json.decode(place.read_bytes(), type=Record)
            # Only this process knows where the other's output goes; `status` tells it later.
            leave(msgspec.structs.replace(record, detail={**record.detail, "log": str(log)}))
            ready(record)
            for warning in _warnings_in(log):
                click.echo(f"warning: {warning}", err=True)
            click.echo(f"its log is {log}", err=True)
            return
        time.sleep(_POLL_S)
    child.terminate()
    child.wait()
    raise RefusedError(f"the {kind} did not come up within {within_s:g} s:\n{_end_of(log)}")


def _warnings_in(log: Path) -> Iterator[str]:
    """Those of the command line, and those of the program's own log."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("warning: "):
            yield line.removeprefix("warning: ")
        elif line.startswith("{"):
            with suppress(msgspec.DecodeError):
                written = msgspec.json.decode(line, type=_LogLine)
                if written.level == "warning":
                    yield written.event


def _place(kind: str, pid: int) -> Path:
    return state_folder() / f"{kind}-{pid}.json"


def _send(record: Record, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(record.pid, what)


def _wait_until_ended(record: Record, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while is_alive(record):
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    # A killed process leaves its record behind.
    _place(record.kind, record.pid).unlink(missing_ok=True)
    return True


def _is_zombie(pid: int) -> bool:
    """One that has ended and was not yet waited for by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _process_names(records: list[Record]) -> str:
    return ", ".join(f"{record.name} ({record.pid})" for record in records) or "none"


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-_LAST_LINES:])


addresses_option = click.option(
    "--allow-address",
    "allow_addresses",
    multiple=True,
    metavar="NETWORK|HOST|unix:PATH",
    help="A private network, address, host name or Unix socket that tools may reach all the same.",
)

processes_option = click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Processes on one port, for more than one core; needs PostgreSQL.  [default: 1]",
)

_FORMS = click.Choice(["table", "json"])
_WITHIN_S = 40.0  # a drain of 30 s, and the time to say goodbye


def add_process_commands(
    group: click.Group, kind: str, *, heads: tuple[str, ...], more: Callable[[Record], tuple[Any, ...]]
) -> None:
    """Give `group` its `stop` and `status`; `more` are further columns of a process."""

    @group.command("stop", help=f"Stop a {kind} that was started here, by its name or number, and wait for its end.")
    @click.argument("given", required=False, metavar="NAME|PID")
    @click.option("--all", "everything", is_flag=True, help="All of them.")
    @click.option("--timeout", type=click.FloatRange(0), default=_WITHIN_S, metavar="S", help="How long to wait.")
    @click.option("--force", is_flag=True, help="Kill it when it has not ended in time.")
    @color_option
    def stop_command(given: str | None, everything: bool, timeout: float, force: bool) -> None:

        with refusals():
            records = chosen(kind, given, everything=everything)
        if not records:
            click.echo(f"no {kind} runs here")
        for record in records:
            if not stop(record, within_s=timeout, force=force):
                raise QueryRefused(
                    f"{kind} {record.name} ({record.pid}) has not ended after {timeout:g} s: say --force"
                )
            click.echo(f"stopped {kind} {record.name} ({record.pid})")

    @group.command("status", help=f"Show the {kind}s that were started here. Exits with 0 when there is one, else 4.")
    @click.option("-o", "--output", type=_FORMS, default="table", help="Output format.")
    @color_option
    @click.pass_context
    def status_command(ctx: click.Context, output: str) -> None:
        from noetl.cli.live_text import lasted

        records = listed(kind)
        if output == "json":
            click.echo(as_json(records))
        elif records:
            rows = [
                (one.name, one.pid, one.url, lasted(time.time() - one.at), *more(one), one.detail.get("log", _TERMINAL))
                for one in records
            ]
            click.echo("\n".join(columns(("NAME", "PID", "URL", "UP", *heads, "LOG"), rows)))
        else:
            click.echo(f"no {kind} runs here")
        ctx.exit(0 if records else QueryRefused.exit_code)
