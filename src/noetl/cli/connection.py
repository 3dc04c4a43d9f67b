"""What a command talks to: a server, with a token, or a store of this machine. Both answer the same calls (`ask`).

`--server` names an address or a context; without it the settings do, then the context in use. `--db` means a store, so
the two exclude each other. Words and exit codes are those of reading a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from noetl.cli.live_completion import CONTEXT
from noetl.cli.queries import LOOKED_FOR, QueryRefused, find_execution, is_there, place_of, refusals

if TYPE_CHECKING:
    from noetl.client import AsyncClient, Client
    from noetl.operations.local import LocalOperations

    Operations = AsyncClient | LocalOperations  # the port: whatever both have, a command may ask for

Answered = TypeVar("Answered")
_HELP = "Talk to this server, or to that of a context, instead of a store file."
SERVER = "noetl.server"

server_option = click.option("--server", metavar="URL|NAME", type=CONTEXT, help=_HELP)


def _note(ctx: click.Context, _: click.Parameter, given: str | None) -> None:
    ctx.meta[SERVER] = given


# For commands that look at a store: what they look through finds the server by itself (`server_meant`).
reads_server_option = click.option(
    "--server", metavar="URL|NAME", type=CONTEXT, expose_value=False, callback=_note, help=_HELP
)


def server_meant(db: str | None) -> Reached | None:
    """The server that the command under way reads, None when it reads a store."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or SERVER not in ctx.meta:
        return None
    return reached(ctx.meta[SERVER], db)


class Reached(msgspec.Struct, frozen=True):
    """A server and who we are there. `ca` is a file with the authority of its certificate, if it is a private one."""

    url: str
    token: str | None = None
    ca: str | None = None

    def client(self) -> Client:
        from noetl.client import Client

        return Client(self.url, self.token, ca=self.ca)

    def aclient(self) -> AsyncClient:
        from noetl.client import AsyncClient

        return AsyncClient(self.url, self.token, ca=self.ca)


def ask(
    db: str | None,
    use: Callable[[Operations], Awaitable[Answered]],
    *,
    makes_store: bool = False,
    actor: str | None = None,
    roles: Sequence[str] = (),
) -> Answered:
    """What the server that is meant answers, or else the store; what either refuses ends the command with 4. `actor`
    and `roles` are who asks, on a store alone: a server knows from the token."""
    there = server_meant(db)
    if there is not None and (actor is not None or roles):
        who = [one.opts[0] for one in click.get_current_context().command.params if one.name in ("actor", "roles")]
        raise click.UsageError(f"on a server you are who your token says: leave {' and '.join(who)} out")
    if there is None and not makes_store and not is_there(db):
        raise QueryRefused(f"there is no store {place_of(db)}{LOOKED_FOR}")

    async def answered() -> Answered:
        async with operations_of(there, db, actor=actor, roles=roles) as operations:
            return await use(operations)

    with refusals():
        return asyncio.run(answered())


def operations_of(
    there: Reached | None, db: str | None, *, actor: str | None = None, roles: Sequence[str] = ()
) -> AbstractAsyncContextManager[Operations]:
    if there is not None:
        return there.aclient()
    from noetl.operations.local import local_operations

    return local_operations(db, actor=actor, roles=roles)


async def find_execution_id(operations: Operations, given: str) -> str:
    """The execution that is meant by an id, the beginning of one, or "last"."""
    from noetl.operations.local import LocalOperations

    if isinstance(operations, LocalOperations):
        return (await find_execution(operations.store, given)).execution_id
    from noetl.client.history import RemoteRecords

    return (await find_execution(RemoteRecords(operations), given)).execution_id


async def is_left_alone(operations: Operations, execution_id: str) -> bool:
    """Whether an execution goes on only when somebody takes it up; on a server that is never so."""
    from noetl.operations.local import LocalOperations

    if not isinstance(operations, LocalOperations):
        return False
    from noetl.control.background.presence import is_abandoned

    row = await operations.store.execution(execution_id)
    return row is not None and await is_abandoned(operations.store, row)


def server_answer(there: Reached, ask: Callable[[Client], Answered]) -> Answered:
    """What a server answers; what it refuses ends the command with 4."""
    with refusals(), there.client() as client:
        return ask(client)


def reached(server: str | None, db: str | None = None, *, configured: bool = True) -> Reached | None:
    """The server that is meant, None for a store file. With `configured` the settings and the context in use count."""
    if db is not None and _is_given("db"):
        if server is not None:
            raise click.UsageError("--server and --db exclude each other")
        return None
    with refusals():
        return _find_server(server, configured)


def _is_given(option: str) -> bool:
    """Whether an option stands on the command line: then it comes before all that is configured."""
    ctx = click.get_current_context(silent=True)
    source = ctx.get_parameter_source(option) if ctx is not None else None
    return source in (None, click.core.ParameterSource.COMMANDLINE)


def found_server(server: str | None) -> Reached | None:
    """The server that is named, or configured, where no command has been read yet."""
    return _find_server(server, True)


def must_reach(server: str | None, token_file: str | None = None, ca: str | None = None) -> Reached:
    """The server that is meant; this command has no other way."""
    with refusals():
        found = _find_server(server, True, token_file, ca)
    if found is None:
        raise QueryRefused(
            "which server? say --server URL, set NOETL_SERVER, or use a context: noetl context add NAME URL"
        )
    return found


def _find_server(
    server: str | None, configured: bool, token_file: str | None = None, ca: str | None = None
) -> Reached | None:
    from noetl.base.settings import load_settings
    from noetl.cli.contexts import address, ca_for, is_only_a_name, load_contexts, no_context, read_token, token_for

    settings = load_settings({"server": server, "token_file": token_file, "ca": ca}).settings
    contexts = load_contexts()
    named = settings.server if server is not None or configured else None
    if named is None and configured:
        named = settings.context or contexts.current
    if named is None:
        return None
    context = contexts.known.get(named)
    if context is None and is_only_a_name(named):
        raise no_context(named, contexts)
    url = context.server if context is not None else address(named)
    ca = settings.ca or (context.ca if context is not None else ca_for(url))
    if settings.token is not None:
        return Reached(url, settings.token, ca)
    file = settings.token_file or (context.token_file if context is not None else None)
    return Reached(url, read_token(file) if file is not None else token_for(url), ca)


def as_table(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows as columns that line up; the first one is their heads."""
    from noetl.cli.terminal import visible, width

    cells = [[visible(str(cell if cell is not None else "")) for cell in row] for row in rows]
    widths = [max(width(row[column]) for row in cells) for column in range(len(cells[0]))]
    return ["  ".join(c + " " * (w - width(c)) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
