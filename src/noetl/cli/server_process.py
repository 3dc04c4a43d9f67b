"""Serving from the command line: the settings of the server, its signals, and the announcement when it is ready."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from noetl.base.errors import first_error
from noetl.cli.live import print_line
from noetl.cli.own_process import collection_paused, new_event_loop, protect, tune_collection

if TYPE_CHECKING:
    from noetl.base.settings import Settings
    from noetl.cli.server_children import ChildServers
    from noetl.server.configuration import ServerSettings
    from noetl.server.server_process import Served

INTERRUPTED = 130


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """What to do when a server is ready. `context` is the name under which it is stored, with its first token and the
    CA `ca` of its certificate; `token_file` receives the token instead of the terminal; `then` is called last, with the
    address."""

    token_file: str | None = None
    context: str | None = None
    ca: str | None = None
    then: Callable[[str], object] | None = None


def server_settings(settings: Settings, **more: Any) -> ServerSettings:
    """The settings of a server among all there are."""
    from noetl.server.configuration import Quotas, ServerSettings

    chosen = {
        "db": settings.db,
        "results": settings.results,
        "log_level": settings.log_level,
        "host": settings.host,
        "port": settings.port,
        "workers": settings.workers_in_process,
        "allow": settings.allow,
        "deny": settings.deny,
        "sandbox": settings.sandbox,
        "data_folders": settings.data_folders,
        "allow_addresses": settings.allow_addresses,
        "proxy": settings.proxy,
        "no_proxy": settings.no_proxy,
        "provider_stand_ins": settings.provider_stand_ins,
        "secret_variables": _readable_variables(settings.secret_variables),
        "secret_folders": settings.secret_folders,
        "hosts": settings.allowed_hosts,
        "public_url": settings.public_url,
        "tls_cert": settings.tls_cert,
        "tls_key": settings.tls_key,
        "behind_proxy": settings.behind_proxy,
        "trusted_proxies": settings.trusted_proxies,
        "max_body_bytes": settings.max_body_bytes,
        "max_result_bytes": settings.max_result_bytes,
        "nats": settings.nats,
        "retention_days": settings.retention_days,
        "max_connections": settings.max_connections,
        "max_connections_per_address": settings.max_connections_per_address,
        "quotas": Quotas(
            open_executions=settings.quota_open_executions,
            starts_per_minute=settings.quota_starts_per_minute,
            stored_bytes=settings.quota_stored_bytes,
            streams=settings.quota_streams,
            free_bytes=settings.min_free_bytes,
        ),
        "lease_ttl_s": settings.lease_ttl,
        "heartbeat_s": settings.heartbeat,
        "strict": settings.strict,
    }
    return ServerSettings(**{**chosen, **more})


def _readable_variables(names: tuple[str, ...]) -> tuple[str, ...]:
    """RefusedError for variables of NoETL itself, which include the master key and tokens."""
    from noetl.base.errors import RefusedError
    from noetl.base.settings import PREFIX

    for name in names:
        if name.upper().startswith(PREFIX):
            raise RefusedError(f"secret_variables: {name} is a variable of noetl itself, which playbooks may not read")
    return names


def run_server(settings: ServerSettings, announced: Announced, *, processes: int = 1) -> None:
    """Serve until a signal comes; a second one ends the process at once."""
    from noetl.cli.server_children import settings_per_process, shared_metrics

    settings = settings_per_process(settings, processes)
    with shared_metrics(processes):
        _serve_all(settings, announced, processes)


def _serve_all(settings: ServerSettings, announced: Announced, processes: int) -> None:
    # The imported modules stay for the life of the process, so collecting garbage now would be wasted.
    with collection_paused():
        from noetl.server.server_process import serve

    # the file that tells `noetl server status` of this process; removed however it ends
    record_files: list[Path] = []
    children = _children(processes - 1)

    async def serving() -> None:
        stop, tasks = asyncio.Event(), set[asyncio.Task[None]]()
        _stop_on_signal(stop.set)

        async def ready(served: Served) -> None:
            record_files.append(await _announce(served, settings, announced))
            if children is not None:
                tasks.add(asyncio.ensure_future(children.serve(settings, served.listening)))

        try:
            await serve(settings, ready=ready, stop=stop)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    tune_collection()
    protect()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serving())
    except BaseExceptionGroup as several:
        raise first_error(several) from None
    finally:
        for place in record_files:
            place.unlink(missing_ok=True)


def _children(number: int) -> ChildServers | None:
    """Create this before the master key is removed from the environment, which the children need."""
    from noetl.cli.server_children import ChildServers

    return ChildServers(number, os.environ) if number else None


def _stop_on_signal(stop: Callable[[], None]) -> None:
    received = 0

    def on_signal() -> None:
        nonlocal received
        received += 1
        if received > 1:
            # Exit without cleanup, which may be what hangs; everything that was answered is stored.
            os._exit(INTERRUPTED)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)


async def _announce(served: Served, settings: ServerSettings, announced: Announced) -> Path:
    from noetl.base.redaction import without_password
    from noetl.base.settings import default_db
    from noetl.cli.contexts import write_token
    from noetl.cli.processes import leave, own_record

    store = settings.db or str(default_db())
    token_note = None if announced.context is None else await _remember(served, announced.context, announced.ca)
    if served.first_token is not None and announced.token_file is not None:
        write_token(Path(announced.token_file), served.first_token)
    detail = {"store": without_password(store)}
    if served.first_key is not None:
        detail["master_key"] = str(served.first_key)
    if token_note is not None:
        detail["context_token"] = token_note
    place = leave(own_record("server", str(served.port), served.url, **detail))
    print_line(f"NoETL at {served.url}, store {without_password(store)}")
    if served.first_key is not None:
        print_master_key(str(served.first_key))
    if served.first_token is not None and announced.token_file is None:
        print_token(served.first_token)
    if token_note is not None:
        print_line(token_note)
    if announced.then is not None:
        announced.then(served.url)
    return place


async def _remember(served: Served, name: str, ca: str | None) -> str | None:
    """Store the server as a context with a valid token; returns a message if a token had to be created for it."""
    from noetl.base.errors import RefusedError
    from noetl.cli.contexts import add, read_token
    from noetl.operations.administration_shapes import Role
    from noetl.operations.tokens import TokenRequest

    context = add(name, served.url, served.first_token, ca)
    tokens = served.services.access.tokens
    if context.token_file is not None:
        try:
            # Verify with the server itself: the file may contain a token of another or a deleted store.
            if await tokens.authenticate(read_token(context.token_file)) is not None:
                return None
        # The file is missing or damaged.
        except RefusedError:
            pass
    # Only the first start on a store creates a token. Without this, the server would refuse a context that is added
    # later, or that belonged to another store. A user who can start a server on a store can create any token there.
    text, token = await tokens.create(TokenRequest(subject="admin", role=Role.ADMIN))
    add(name, served.url, text, ca)
    return f"created token {token.token_id} (admin) for the context {name}"


def print_master_key(file: str) -> None:
    """Print the file of the master key that the first start created."""
    from noetl.cli.credential import new_master_key_text

    print_line(new_master_key_text(file))


def print_token(token: str) -> None:
    """Print the first token, which cannot be shown again."""
    print_line("the token of its administrator, shown only once:")
    click.echo(token)
