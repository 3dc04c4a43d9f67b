"""Servers and workers that were started from the command line, found by their records in the state folder (CLI-01).

A record has id and start time of its process. The system reuses process ids, so no signal is sent before both match.
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
from noetl.cli.queries import QueryRefused, refusals
from noetl.cli.terminal import as_json, color_option, columns
from noetl.worker.identity import started_at

_POLL_S = 0.05
_LAST_LINES = 20
# The log of a process in the foreground.
_TERMINAL = "where it was started"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is server or worker; `url` is where a server listens, or which one a worker serves."""

    kind: str
    name: str
    pid: int
    # The start time in the system's unit: a process id may be reused, the pair is unique.
    started: int
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
    """Write the record of a process; only its user can read it."""
    place = _record_file(record.kind, record.pid)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Write beside it, then rename: `detached` polls for the file and must not read a part of it.
    part = place.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(record))
    part.chmod(0o600)
    part.replace(place)
    return place


def is_alive(record: Record) -> bool:
    # 0: the start time was unknown, so the process cannot be distinguished from another with the same id.
    return record.started != 0 and started_at(record.pid) == record.started and not _is_zombie(record.pid)


def listed(kind: str) -> list[Record]:
    """The records of running processes, the oldest first; other records are deleted."""
    records = []
    for place in sorted(state_folder().glob(f"{kind}-*.json")):
        try:
            record = msgspec.json.decode(place.read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            continue
        if is_alive(record):
            records.append(record)
        else:
            place.unlink(missing_ok=True)
    return sorted(records, key=lambda record: record.at)


def chosen(kind: str, name: str | None, *, everything: bool = False) -> list[Record]:
    """The records that match a name or process id; without one, at most one process may run."""
    records = listed(kind)
    if everything:
        return records
    if name is not None:
        matching = [record for record in records if name in (record.name, str(record.pid))]
        if matching:
            return matching
        raise RefusedError(f'no {kind} "{name}" was started here; running: {_process_names(records)}')
    if len(records) > 1:
        raise RefusedError(f"several run here: {_process_names(records)}; name one, or use --all")
    return records


def stop(record: Record, *, within_s: float, force: bool = False) -> bool:
    """Send SIGTERM and wait; with `force`, kill the process after `within_s`. False if it still runs."""
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
    """Run the same command in the background; `ready` is called when it has written its record. Its warnings until then
    are printed here too.

    RefusedError with the end of its log if it ended instead."""
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = folder / f"{kind}-{int(time.time() * 1000)}.log"
    with log.open("wb") as output:
        log.chmod(0o600)
        # A session of its own: Ctrl-C in this terminal must not reach a background process.
        child = subprocess.Popen(  # noqa: S603  ourselves, with our own arguments
            [sys.executable, "-m", "noetl.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RefusedError(f"the {kind} ended at once:\n{_end_of(log)}")
        place = _record_file(kind, child.pid)
        if place.exists():
            record = msgspec.json.decode(place.read_bytes(), type=Record)
            # Only this process knows the log file of the child; `status` shows it later.
            leave(msgspec.structs.replace(record, detail={**record.detail, "log": str(log)}))
            ready(record)
            for warning in _warnings_in(log):
                click.echo(f"warning: {warning}", err=True)
            click.echo(f"its log is {log}", err=True)
            return
        time.sleep(_POLL_S)
    # End it: the user sees an error and would start a second one.
    child.terminate()
    child.wait()
    raise RefusedError(f"the {kind} was not ready within {within_s:g} s:\n{_end_of(log)}")


def _warnings_in(log: Path) -> Iterator[str]:
    """The warnings in a log: plain lines of the command, and JSON lines of the server."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("warning: "):
            yield line.removeprefix("warning: ")
        elif line.startswith("{"):
            with suppress(msgspec.DecodeError):
                log_line = msgspec.json.decode(line, type=_LogLine)
                if log_line.level == "warning":
                    yield log_line.event


def _record_file(kind: str, pid: int) -> Path:
    return state_folder() / f"{kind}-{pid}.json"


def _send(record: Record, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(record.pid, what)


def _wait_until_ended(record: Record, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while is_alive(record):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    # A killed process leaves its record behind.
    _record_file(record.kind, record.pid).unlink(missing_ok=True)
    return True


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended but its parent has not yet collected its exit code."""
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
# A drain of 30 s, and time to shut down.
_WITHIN_S = 40.0


def add_process_commands(
    group: click.Group, kind: str, *, heads: tuple[str, ...], more: Callable[[Record], tuple[Any, ...]]
) -> None:
    """Give `group` its `stop` and `status`; `more` are further columns of a process."""

    @group.command("stop", help=f"Stop a {kind} that was started here, by its name or number, and wait for its end.")
    @click.argument("name", required=False, metavar="NAME|PID")
    @click.option("--all", "everything", is_flag=True, help="All of them.")
    @click.option("--timeout", type=click.FloatRange(0), default=_WITHIN_S, metavar="S", help="How long to wait.")
    @click.option("--force", is_flag=True, help="Kill it when it has not ended in time.")
    @color_option
    def stop_command(name: str | None, everything: bool, timeout: float, force: bool) -> None:

        with refusals():
            records = chosen(kind, name, everything=everything)
        if not records:
            click.echo(f"no {kind} runs here")
        for record in records:
            if not stop(record, within_s=timeout, force=force):
                raise QueryRefused(
                    f"{kind} {record.name} ({record.pid}) has not ended after {timeout:g} s: use --force"
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
                (
                    record.name,
                    record.pid,
                    record.url,
                    lasted(time.time() - record.at),
                    *more(record),
                    record.detail.get("log", _TERMINAL),
                )
                for record in records
            ]
            click.echo("\n".join(columns(("NAME", "PID", "URL", "UP", *heads, "LOG"), rows)))
        else:
            click.echo(f"no {kind} runs here")
        ctx.exit(0 if records else QueryRefused.exit_code)
