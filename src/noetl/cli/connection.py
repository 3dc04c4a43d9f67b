"""What a command talks to: a server, with a token, or a store of this machine.

`place_meant` decides it for every command: `--server` names an address or a context; without it the settings do, then
the current context. `--db` selects a store, so the two exclude each other. The answer is a `ServerPlace` or a
`StorePlace`. Both have the same contract (`Place`), so that a command sends requests (`ask`), reads records (`read`)
and runs playbooks (`Place.runs`) without knowing which of the two it uses. tests/operations/test_local.py checks it.
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
    from noetl.base.errors import NoetlError
    from noetl.cli.run import RunOptions
    from noetl.cli.runs import Runs
    from noetl.client import AsyncClient, Client
    from noetl.client.history import RemoteRecords
    from noetl.operations.local import LocalOperations
    from noetl.store.contract import ExecutionRow, Records, Results

    # The port: a command may use every call that both have.
    Operations = AsyncClient | LocalOperations

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")
_HELP = "Use this server, or the server of this context, instead of a store."
SERVER = "noetl.server"

server_option = click.option("--server", metavar="URL|NAME", type=CONTEXT, help=_HELP)


def _note(ctx: click.Context, _: click.Parameter, server: str | None) -> None:
    # `meta` is shared by groups and their commands. The key is set even for None: it shows that the command has the
    # option.
    ctx.meta[SERVER] = server


# For commands that ask or read: `place_meant` finds the option in the context, so commands need not pass it on.
reads_server_option = click.option(
    "--server", metavar="URL|NAME", type=CONTEXT, expose_value=False, callback=_note, help=_HELP
)


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--db` and `--server`, for every command that uses `place_meant`."""
    return queries.db_option(reads_server_option(command))


class Place(Protocol):
    """A server or a store. A command may use only these members, without checking which of the two it is."""

    # The process that runs schedules here, for messages.
    scheduler: ClassVar[str]
    # Whether the net of an execution can be read here.
    gives_nets: ClassVar[bool]

    def operations(
        self, *, actor: str | None = None, roles: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[Operations]:
        """The port. `actor` and `roles` identify the user on a store; a server takes them from the token."""

    async def records(self) -> Records:
        """The records for reading; the caller closes them."""

    def results(self) -> Results:
        """Where large results are."""

    def runs(self, options: RunOptions) -> Runs:
        """Runs of playbooks. Here the two places must differ; `cli/runs.py` says why."""

    def way_back(self, execution_id: str) -> list[str]:
        """The lines to print when the user stops watching a running execution."""


class ServerPlace(msgspec.Struct, frozen=True):
    """A server and the token for it. `ca` is a file with the CA of its certificate, if that is a private one."""

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
            options = [
                parameter.opts[0]
                for parameter in click.get_current_context().command.params
                if parameter.name in ("actor", "roles")
            ]
            raise click.UsageError(
                f"on a server your token determines who you are: leave {' and '.join(options)} out; "
                "noetl token create NAME --human-role ROLE makes a token with a role"
            )
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
    """The place that the running command uses. A command without --server has only the store."""
    ctx = click.get_current_context(silent=True)
    server = server_meant(ctx.meta[SERVER], db) if ctx is not None and SERVER in ctx.meta else None
    return server if server is not None else StorePlace(db, makes_store)


def typed_place() -> str:
    """The place options of the running command as they were typed, for a suggested command: ` --server team`."""
    ctx = click.get_current_context()
    if (server := ctx.meta.get(SERVER)) is not None:
        return f" --server {visible(str(server))}"
    is_typed = ctx.get_parameter_source("db") is click.core.ParameterSource.COMMANDLINE
    return f" --db {visible(str(ctx.params['db']))}" if is_typed else ""


def place_typed(ctx: click.Context) -> Place:
    """The place for completions while a command is being typed: its options are known, but no command runs yet."""
    from noetl.base.settings import load_settings

    typed = ctx.params.get("db")
    db = str(typed) if typed is not None else load_settings().settings.db
    if ctx.get_parameter_source("db") is click.core.ParameterSource.COMMANDLINE:
        return StorePlace(db)
    server = ctx.params.get("server") or ctx.meta.get(SERVER)
    server_place = find_server(str(server) if server is not None else None)
    return server_place if server_place is not None else StorePlace(db)


def place_of_run(name: str, server: str | None, db: str | None, *, here: bool) -> Place:
    """Where a playbook runs. A file runs here unless a server is named; the path of a registered one runs on the
    server, where one is configured (design.md §2)."""
    from noetl.cli.runs import is_file

    if here and server is not None:
        raise click.UsageError("--server runs it there, --local and --memory here")
    # A file runs here even if there is a current context: users do not expect a file to be sent to a server.
    server_place = None if here or (server is None and is_file(name)) else server_meant(server, db)
    return server_place if server_place is not None else StorePlace(db)


def ask(
    db: str | None,
    use: Callable[[Operations], Awaitable[Answered]],
    *,
    makes_store: bool = False,
    actor: str | None = None,
    roles: Sequence[str] = (),
) -> Answered:
    """Call `use` with the operations of the selected place; a refusal ends the command with exit code 4. `actor` and
    `roles` identify the user on a store; a server takes them from the token."""
    return _answer(place_meant(db, makes_store=makes_store).operations(actor=actor, roles=roles), use)


def _answer(asked: AbstractAsyncContextManager[Asked], use: Callable[[Asked], Awaitable[Answered]]) -> Answered:
    async def answered() -> Answered:
        async with asked as operations:
            return await use(operations)

    with queries.refusals():
        return asyncio.run(answered())


def ask_store(db: str | None, use: Callable[[LocalOperations], Awaitable[Answered]], *, else_say: str) -> Answered:
    """Call `use` on a store, which is created if there is none; `else_say` is the refusal for a server."""
    place = place_meant(db, makes_store=True)
    if not isinstance(place, StorePlace):
        raise queries.QueryRefused(else_say)
    return _answer(place.operations(), use)


def ask_server(server: str | None, use: Callable[[Client], Answered]) -> Answered:
    """Call `use` with a client of the selected server."""
    with queries.refusals(), must_reach(server).client() as client:
        return use(client)


def read(db: str | None, look: Callable[[Records], Awaitable[Answered]]) -> Answered:
    """The result of `look` on the records of the selected place."""
    return read_at(place_meant(db), look)


def read_at(place: Place, look: Callable[[Records], Awaitable[Answered]]) -> Answered:
    """The result of `look` on the records of a place; running executions are not affected."""

    async def looking() -> Answered:
        records = await place.records()
        try:
            return await look(records)
        finally:
            await records.close()

    with queries.refusals():
        return asyncio.run(looking())


async def known_step(records: Records, row: ExecutionRow, step: str | None) -> None:
    """Refuse a step that the playbook of an execution does not have, if the net is available."""
    if step is not None and place_meant(None).gives_nets:
        await queries.refuse_unknown_step(records, row, step)


async def find_execution_id(operations: Operations, reference: str) -> str:
    """The id of the execution that `reference` means: an id, the beginning of one, or "last"."""
    from noetl.operations.local import LocalOperations

    # A local store answers such a search itself; a server is searched through its API.
    if isinstance(operations, LocalOperations):
        return (await queries.find_execution(operations.store, reference)).execution_id
    from noetl.client.history import RemoteRecords

    return (await queries.find_execution(RemoteRecords(operations), reference)).execution_id


def live_output_source(records: Records) -> RemoteRecords | None:
    """The source of the output of running tasks. Only servers have it, in memory; None for a store."""
    from noetl.client.history import RemoteRecords

    return records if isinstance(records, RemoteRecords) else None


async def is_abandoned_run(operations: Operations, execution_id: str) -> bool:
    """Whether no process drives the execution, so that a user must resume it; never true on a server."""
    from noetl.operations.local import LocalOperations

    if not isinstance(operations, LocalOperations):
        return False
    from noetl.control.background.presence import is_abandoned

    row = await operations.store.execution(execution_id)
    return row is not None and await is_abandoned(operations.store, row)


def server_meant(server: str | None, db: str | None = None) -> ServerPlace | None:
    """The selected server, None for a store. Settings and the current context count."""
    # A store that only the settings name does not count: a named or current server comes first.
    if db is not None and _is_given("db"):
        if server is not None:
            raise click.UsageError("--server and --db exclude each other")
        return None
    with queries.refusals():
        return find_server(server)


def _is_given(option: str) -> bool:
    """Whether an option was typed on the command line: then it overrides the configuration."""
    ctx = click.get_current_context(silent=True)
    # Outside of a command, as in a test, a `db` argument counts as typed.
    source = ctx.get_parameter_source(option) if ctx is not None else None
    return source in (None, click.core.ParameterSource.COMMANDLINE)


def must_reach(server: str | None, token_file: str | None = None, ca: str | None = None) -> ServerPlace:
    """The selected server, for commands that need one. Refused if none is named or configured."""
    with queries.refusals():
        place = find_server(server, token_file, ca)
    if place is None:
        from noetl.cli.contexts import load_contexts

        known = ", ".join(sorted(load_contexts().known))
        choose, add = f"choose a context ({known}): noetl context use NAME", "add a context: noetl context add NAME URL"
        context = choose if known else add
        raise queries.QueryRefused(f"no server is selected: use --server URL, set NOETL_SERVER, or {context}")
    return place


def find_server(server: str | None, token_file: str | None = None, ca: str | None = None) -> ServerPlace | None:
    """The named or configured server, None if there is none. NoetlError for an unknown name."""
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
    # A token from the settings or the environment overrides a token that was saved for the address.
    if settings.token is not None:
        return ServerPlace(url, settings.token, ca)
    file = settings.token_file or (context.token_file if context is not None else None)
    return ServerPlace(url, read_token(file) if file is not None else token_for(url), ca)


def why_this_server(problem: NoetlError) -> str:
    """After a server that does not answer: that the current context named it, where the command line did not."""
    from noetl.base.settings import load_settings
    from noetl.cli.contexts import load_contexts

    ctx, settings, current = click.get_current_context(silent=True), load_settings().settings, load_contexts().current
    named = ctx is None or ctx.params.get("server") or ctx.meta.get("noetl.server") or settings.server
    if named or settings.context or current is None:
        return ""
    from noetl.client import UnreachableError

    way_out = f' It is the current context, "{current}"; --db STORE reads a store instead'
    return way_out if isinstance(problem, UnreachableError) else ""
