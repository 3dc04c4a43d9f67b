"""Serving from the command line: settings as the server takes them, its signals, and what is said when it is up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from noetl.cli.live import print_line
from noetl.cli.own_process import look_rarely, new_event_loop, not_looking, protect

if TYPE_CHECKING:
    from noetl.base.settings import Settings
    from noetl.cli.server_children import ChildServers
    from noetl.server.configuration import ServerSettings
    from noetl.server.server_process import Served

INTERRUPTED = 130


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """What is done once a server is up. `context` is the name it is remembered under, with its first token and the
    authority `ca` of its certificate; `token_file` is where the token goes instead of the terminal; `then` is called
    last, with its address."""

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
    """RefusedError for our own, among which are the master key and tokens."""
    from noetl.base.errors import RefusedError
    from noetl.base.settings import PREFIX

    for name in names:
        if name.upper().startswith(PREFIX):
            raise RefusedError(f"secret_variables: {name} is a variable of noetl itself, and no playbook reads those")
    return names


def run_server(settings: ServerSettings, announced: Announced, *, processes: int = 1) -> None:
    """Serve until a signal comes; a second one ends the process at once."""
    from noetl.cli.server_children import settings_of_each, shared_figures

    settings = settings_of_each(settings, processes)
    with shared_figures(processes):
        _serve_all(settings, announced, processes)


def _serve_all(settings: ServerSettings, announced: Announced, processes: int) -> None:
    with not_looking():  # all that is loaded now is needed as long as the process lives
        from noetl.server.server_process import serve

    word: list[Path] = []
    children = _children(processes - 1)

    async def serving() -> None:
        stop, beside = asyncio.Event(), set[asyncio.Task[None]]()
        _stop_on_signal(stop.set)

        async def ready(served: Served) -> None:
            word.append(await _announce(served, settings, announced))
            if children is not None:
                beside.add(asyncio.ensure_future(children.serve(settings, served.listening)))

        try:
            await serve(settings, ready=ready, stop=stop)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    look_rarely()
    protect()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serving())
    except BaseExceptionGroup as several:
        raise _first(several) from None
    finally:
        for place in word:
            place.unlink(missing_ok=True)


def _children(number: int) -> ChildServers | None:
    """Made before the master key is taken out of the environment."""
    from noetl.cli.server_children import ChildServers

    return ChildServers(number, os.environ) if number else None


def _stop_on_signal(stop: Callable[[], None]) -> None:
    heard = 0

    def on_signal() -> None:
        nonlocal heard
        heard += 1
        if heard > 1:
            os._exit(INTERRUPTED)
        stop()

    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, on_signal)


async def _announce(served: Served, settings: ServerSettings, announced: Announced) -> Path:
    from noetl.base.settings import default_db
    from noetl.cli.contexts import write_token
    from noetl.cli.processes import leave, own_record
    from noetl.store.open_store import without_password

    store = settings.db or str(default_db())
    made = None if announced.context is None else await _remember(served, announced.context, announced.ca)
    if served.first_token is not None and announced.token_file is not None:
        write_token(Path(announced.token_file), served.first_token)
    detail = {"store": without_password(store)}
    if served.first_key is not None:
        detail["master_key"] = str(served.first_key)
    if made is not None:
        detail["context_token"] = made
    place = leave(own_record("server", str(served.port), served.url, **detail))
    print_line(f"NoETL at {served.url}, store {without_password(store)}")
    if served.first_key is not None:
        say_master_key(str(served.first_key))
    if served.first_token is not None and announced.token_file is None:
        say_token(served.first_token)
    if made is not None:
        print_line(made)
    if announced.then is not None:
        announced.then(served.url)
    return place


async def _remember(served: Served, name: str, ca: str | None) -> str | None:
    """Keep the server as a context whose token it accepts; what is said of a token that had to be made for it."""
    from noetl.base.errors import RefusedError
    from noetl.cli.contexts import add, read_token
    from noetl.operations.administration_shapes import Role
    from noetl.operations.tokens import Wanted

    kept = add(name, served.url, served.first_token, ca)
    tokens = served.services.access.tokens
    if kept.token_file is not None:
        try:
            if await tokens.identified(read_token(kept.token_file)) is not None:
                return None
        except RefusedError:  # the file is gone or damaged
            pass
    # Only the first start on a store prints a token. Without this, a context that is named later, or was of another
    # store, would be refused by the server it names. Whoever can start a server on a store can make any token there.
    text, token = await tokens.create(Wanted(subject="admin", role=Role.ADMIN))
    add(name, served.url, text, ca)
    return f"made token {token.token_id} (admin) for the context {name}"


def say_master_key(file: str) -> None:
    """Where the key is that a first start has made."""
    from noetl.cli.credential import new_master_key_text

    print_line(new_master_key_text(file))


def say_token(token: str) -> None:
    """The first token, which nobody can tell again."""
    print_line("the token of its administrator, shown this once:")
    click.echo(token)


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """What broke it: an error of ours if there is one among them."""
    from noetl.base.errors import NoetlError

    first: BaseException = several.subgroup(NoetlError) or several
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
