"""What a command talks to: a server, with a token, or a store of this machine.

`place_meant` decides it, once for every command: `--server` names an address or a context; without it the settings do,
then the context in use. `--db` means a store, so the two exclude each other. The answer is a `ServerPlace` or a
`StorePlace`. Both have the same contract (`Place`), so that a command asks (`ask`), reads what was recorded (`read`)
and runs playbooks (`Place.runs`) without knowing which of the two it talks to. tests/operations/test_port.py checks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import click
import msgspec

from noetl.cli import queries
from noetl.cli.completion import CONTEXT
from noetl.cli.terminal import visible

if TYPE_CHECKING:
    from noetl.cli.run import RunOptions
    from noetl.cli.runs import Runs
    from noetl.client import AsyncClient, Client
    from noetl.client.history import RemoteRecords
    from noetl.operations.local import LocalOperations
    from noetl.store.contract import ExecutionRow, Records, Results

    Operations = AsyncClient | LocalOperations  # the port: whatever both have, a command may ask for

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")
_HELP = "Use this server, or the server of this context, instead of a store."
SERVER = "noetl.server"

server_option = click.option("--server", metavar="URL|NAME", type=CONTEXT, help=_HELP)


def _note(ctx: click.Context, _: click.Parameter, given: str | None) -> None:
    ctx.meta[SERVER] = given


# For commands that ask or read: the place they mean is found without handing the option on (`place_meant`).
reads_server_option = click.option(
    "--server", metavar="URL|NAME", type=CONTEXT, expose_value=False, callback=_note, help=_HELP
)


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--db` and `--server`, of every command that finds executions by `place_meant`."""
    return queries.db_option(reads_server_option(command))


class Place(Protocol):
    """Where executions are. A command may use whatever is here, and no more, without asking which place it is."""

    scheduler: ClassVar[str]  # who runs what is scheduled here, for sentences
    gives_nets: ClassVar[bool]  # whether the net of an execution can be read here

    def operations(
        self, *, actor: str | None = None, roles: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[Operations]:
        """The port. `actor` and `roles` are who asks, on a store alone: a server knows from the token."""

    async def records(self) -> Records:
        """What was recorded, for reading; the reader closes it."""

    def results(self) -> Results:
        """Where large results are."""

    def runs(self, options: RunOptions) -> Runs:
        """Runs of playbooks. This is where the two places must differ; `cli/runs.py` says why."""

    def way_back(self, execution_id: str) -> list[str]:
        """What to tell whoever stops watching an execution that goes on."""


class ServerPlace(msgspec.Struct, frozen=True):
    """A server and who we are there. `ca` is a file with the authority of its certificate, if it is a private one."""

    url: str
    token: str | None = None
    ca: str | None = None
    scheduler: ClassVar[str] = "the server"
    gives_nets: ClassVar[bool] = False  # to workers only

    def client(self) -> Client:
        from noetl.client import Client

        return Client(self.url, self.token, ca=self.ca)

    def aclient(self) -> AsyncClient:
        from noetl.client import AsyncClient

        return AsyncClient(self.url, self.token, ca=self.ca)

    def operations(self, *, actor: str | None = None, roles: Sequence[str] = ()) -> AsyncClient:
        if actor is not None or roles:
            who = [one.opts[0] for one in click.get_current_context().command.params if one.name in ("actor", "roles")]
            raise click.UsageError(f"on a server you are who your token says: leave {' and '.join(who)} out")
        return self.aclient()

    async def records(self) -> RemoteRecords:
        from noetl.client.history import RemoteRecords

        return RemoteRecords(self.aclient())

    def results(self) -> Results:
        from noetl.client.history import ServerResults

        return ServerResults(self.client())

    def runs(self, options: RunOptions) -> Runs:
        from noetl.cli.runs import ServerRuns

        return ServerRuns(self, options)

    def way_back(self, execution_id: str) -> list[str]:
        return [
            f"execution {execution_id} goes on at {self.url}",
            f"come back with:  noetl watch {execution_id} --server {self.url}",
            f"cancel it with:  noetl cancel {execution_id} --server {self.url}",
        ]


class StorePlace(msgspec.Struct, frozen=True):
    """A store of this machine: a file, or a database. None is the file in the user's data folder."""

    db: str | None
    makes_store: bool = False
    scheduler: ClassVar[str] = "a server on this store"
    gives_nets: ClassVar[bool] = True

    def operations(
        self, *, actor: str | None = None, roles: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[LocalOperations]:
        from noetl.operations.local import local_operations

        if not self.makes_store and not queries.is_there(self.db):
            raise queries.QueryRefused(f"there is no store {queries.place_of(self.db)}{queries.LOOKED_FOR}")
        return local_operations(self.db, actor=actor, roles=roles)

    async def records(self) -> Records:
        from noetl.store.open_store import open_records

        return await open_records(self.db)

    def results(self) -> Results:
        from noetl.store.open_store import open_results

        return open_results(self.db)

    def runs(self, options: RunOptions) -> Runs:
        from noetl.cli.embedded_runs import EmbeddedRuns

        return EmbeddedRuns(self.db, options)

    def way_back(self, execution_id: str) -> list[str]:
        return [f"execution {execution_id} goes on in its own process"]


def place_meant(db: str | None, *, makes_store: bool = False) -> Place:
    """Where the command under way finds executions. A command without --server has only the store."""
    ctx = click.get_current_context(silent=True)
    there = server_meant(ctx.meta[SERVER], db) if ctx is not None and SERVER in ctx.meta else None
    return there if there is not None else StorePlace(db, makes_store)


def typed_place() -> str:
    """Where the command under way was sent, as it was typed, for a command that is proposed: ` --server team`."""
    ctx = click.get_current_context()
    if (server := ctx.meta.get(SERVER)) is not None:
        return f" --server {visible(str(server))}"
    is_typed = ctx.get_parameter_source("db") is click.core.ParameterSource.COMMANDLINE
    return f" --db {visible(str(ctx.params['db']))}" if is_typed else ""


def place_typed(ctx: click.Context) -> Place:
    """Where to look for completions while a command is being typed: its options are read, but no command runs yet."""
    from noetl.base.settings import load_settings

    given = ctx.params.get("db")
    db = str(given) if given is not None else load_settings().settings.db
    if ctx.get_parameter_source("db") is click.core.ParameterSource.COMMANDLINE:
        return StorePlace(db)
    server = ctx.params.get("server") or ctx.meta.get(SERVER)
    there = find_server(str(server) if server is not None else None)
    return there if there is not None else StorePlace(db)


def place_of_run(name: str, server: str | None, db: str | None, *, here: bool) -> Place:
    """Where a playbook runs. A file runs here unless a server is named; the path of a registered one runs on the
    server, where one is configured (design.md §2)."""
    from noetl.cli.runs import is_file

    if here and server is not None:
        raise click.UsageError("--server runs it there, --local and --memory here")
    there = None if here or (server is None and is_file(name)) else server_meant(server, db)
    return there if there is not None else StorePlace(db)


def ask(
    db: str | None,
    use: Callable[[Operations], Awaitable[Answered]],
    *,
    makes_store: bool = False,
    actor: str | None = None,
    roles: Sequence[str] = (),
) -> Answered:
    """What the place that is meant answers; what it refuses ends the command with 4. `actor` and `roles` are who asks,
    on a store alone: a server knows from the token."""
    return _answer(place_meant(db, makes_store=makes_store).operations(actor=actor, roles=roles), use)


def _answer(asked: AbstractAsyncContextManager[Asked], use: Callable[[Asked], Awaitable[Answered]]) -> Answered:
    async def answered() -> Answered:
        async with asked as operations:
            return await use(operations)

    with queries.refusals():
        return asyncio.run(answered())


def ask_store(db: str | None, use: Callable[[LocalOperations], Awaitable[Answered]], *, else_say: str) -> Answered:
    """What only a store can do; it is made when there is none. `else_say` refuses a server."""
    place = place_meant(db, makes_store=True)
    if not isinstance(place, StorePlace):
        raise queries.QueryRefused(else_say)
    return _answer(place.operations(), use)


def ask_server(server: str | None, use: Callable[[Client], Answered]) -> Answered:
    """What only a server can do."""
    with queries.refusals(), must_reach(server).client() as client:
        return use(client)


def read(db: str | None, look: Callable[[Records], Awaitable[Answered]]) -> Answered:
    """What `look` finds in the records of the place that is meant."""
    return read_at(place_meant(db), look)


def read_at(place: Place, look: Callable[[Records], Awaitable[Answered]]) -> Answered:
    """What `look` finds in the records of a place; a running execution is not disturbed by it."""

    async def looking() -> Answered:
        records = await place.records()
        try:
            return await look(records)
        finally:
            await records.close()

    with queries.refusals():
        return asyncio.run(looking())


async def known_step(records: Records, row: ExecutionRow, step: str | None) -> None:
    """Refused when the playbook of an execution has no such step, where that can be known."""
    if step is not None and place_meant(None).gives_nets:
        await queries.refuse_unknown_step(records, row, step)


async def find_execution_id(operations: Operations, given: str) -> str:
    """The execution that is meant by an id, the beginning of one, or "last"."""
    from noetl.operations.local import LocalOperations

    if isinstance(operations, LocalOperations):
        return (await queries.find_execution(operations.store, given)).execution_id
    from noetl.client.history import RemoteRecords

    return (await queries.find_execution(RemoteRecords(operations), given)).execution_id


def live_output_source(records: Records) -> RemoteRecords | None:
    """Where the lines of running tasks can be had. Only servers keep them, and in memory: a store has none."""
    from noetl.client.history import RemoteRecords

    return records if isinstance(records, RemoteRecords) else None


async def is_left_alone(operations: Operations, execution_id: str) -> bool:
    """Whether an execution goes on only when somebody takes it up; on a server that is never so."""
    from noetl.operations.local import LocalOperations

    if not isinstance(operations, LocalOperations):
        return False
    from noetl.control.background.presence import is_abandoned

    row = await operations.store.execution(execution_id)
    return row is not None and await is_abandoned(operations.store, row)


def server_meant(server: str | None, db: str | None = None) -> ServerPlace | None:
    """The server that is meant, None for a store. The settings and the context in use count."""
    # A store that the settings name does not count: then a server that is named or in use comes first.
    if db is not None and _is_given("db"):
        if server is not None:
            raise click.UsageError("--server and --db exclude each other")
        return None
    with queries.refusals():
        return find_server(server)


def _is_given(option: str) -> bool:
    """Whether an option stands on the command line: then it comes before all that is configured."""
    ctx = click.get_current_context(silent=True)
    # Outside of a command, as in a test, whoever passes `db` means it.
    source = ctx.get_parameter_source(option) if ctx is not None else None
    return source in (None, click.core.ParameterSource.COMMANDLINE)


def must_reach(server: str | None, token_file: str | None = None, ca: str | None = None) -> ServerPlace:
    """The server that is meant; this command has no other way."""
    with queries.refusals():
        found = find_server(server, token_file, ca)
    if found is None:
        raise queries.QueryRefused(
            "which server? say --server URL, set NOETL_SERVER, or use a context: noetl context add NAME URL"
        )
    return found


def find_server(server: str | None, token_file: str | None = None, ca: str | None = None) -> ServerPlace | None:
    """The server that is named, or configured. NoetlError when the name is not known."""
    from noetl.base.settings import load_settings
    from noetl.cli.contexts import address, ca_for, is_only_a_name, load_contexts, no_context, read_token, token_for

    settings = load_settings({"server": server, "token_file": token_file, "ca": ca}).settings
    contexts = load_contexts()
    named = settings.server if settings.server is not None else settings.context or contexts.current
    if named is None:
        return None
    context = contexts.known.get(named)
    if context is None and is_only_a_name(named):
        raise no_context(named, contexts)
    url = context.server if context is not None else address(named)
    ca = settings.ca or (context.ca if context is not None else ca_for(url))
    # A token of the settings or the environment comes before one that was saved for the address.
    if settings.token is not None:
        return ServerPlace(url, settings.token, ca)
    file = settings.token_file or (context.token_file if context is not None else None)
    return ServerPlace(url, read_token(file) if file is not None else token_for(url), ca)
