"""`noetl completion`: the script for a shell, and the paths, ids and steps it suggests while somebody types.

What a shell asks for while it completes must come at once or not at all: there is little time, and every error is
swallowed, since a message in the middle of a command line helps nobody (DEPENDENCIES §6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from noetl.cli.connection import Operations
    from noetl.store.contract import ExecutionRow, Records


# Whoever pressed Tab waits; a server that is slower gives no suggestions.
PATIENCE_S = 1.0
_AMONG = 50
_PLAYBOOKS = 1000
Found = TypeVar("Found")
Words = list[tuple[str, str]]  # what is completed, and what is told of it


class _Suggesting(click.ParamType[str]):
    """Any text, with suggestions from `look`."""

    def __init__(
        self, name: str, look: Callable[[click.Context, str], Awaitable[Words]], *, files: bool = False
    ) -> None:
        self.name, self._look, self._files = name, look, files

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # only shells need it, and each run would load it

        async def in_time() -> Words:
            async with asyncio.timeout(PATIENCE_S):
                return await self._look(ctx, incomplete)

        try:
            found = asyncio.run(in_time())
        except Exception:  # whatever it is, this is not the moment
            found = []
        files = [CompletionItem(incomplete, type="file")] if self._files else []
        return files + [CompletionItem(word, help=told) for word, told in found if word.startswith(incomplete)]


async def _executions(ctx: click.Context, _: str) -> Words:
    rows = await _recorded(ctx, lambda records: records.executions(limit=_AMONG))
    return [("last", "the newest"), *((row.execution_id, f"{row.status} {row.path}") for row in rows)]


async def _playbooks(ctx: click.Context, _: str) -> Words:
    found = await _ask(ctx, lambda operations: operations.playbooks(limit=_PLAYBOOKS))
    return [(one.path, f"version {one.version}") for one in found]


async def _steps(ctx: click.Context, _: str) -> Words:
    """The steps of the execution that stands on the command line before."""
    from noetl.cli.queries import find_execution
    from noetl.net.net import from_json

    # an option without its value yet keeps click from giving arguments their names
    given = str(ctx.params.get("given") or next(iter(ctx.args), "last"))

    async def step_names(records: Records) -> Words:
        row: ExecutionRow = await find_execution(records, given)
        net = from_json(await records.net(row.net_hash))
        return [(one.name, "") for one in net.transitions]

    return await _recorded(ctx, step_names)


async def _tasks(ctx: click.Context, _: str) -> Words:
    found = await _ask(ctx, lambda operations: operations.task_page(state=["open", "claimed"], limit=_AMONG))
    return [(one.task_id, one.title) for one in found.tasks]


async def _contexts(_: click.Context, __: str) -> Words:
    from noetl.cli.contexts import load_contexts

    return [(name, one.server) for name, one in load_contexts().known.items()]


async def _recorded(ctx: click.Context, look: Callable[[Records], Awaitable[Found]]) -> Found:
    from noetl.cli.connection import place_typed

    records = await place_typed(ctx).records()
    try:
        return await look(records)
    finally:
        await records.close()


async def _ask(ctx: click.Context, use: Callable[[Operations], Awaitable[Found]]) -> Found:
    from noetl.cli.connection import place_typed

    async with place_typed(ctx).operations() as operations:
        return await use(operations)


EXECUTION = _Suggesting("execution", _executions)
STEP = _Suggesting("step", _steps)
TASK = _Suggesting("task", _tasks)
PLAYBOOK = _Suggesting("path", _playbooks)
RUNNABLE = _Suggesting("file or path", _playbooks, files=True)
CONTEXT = _Suggesting("context", _contexts)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash   eval "$(noetl completion bash)" in ~/.bashrc
    zsh    eval "$(noetl completion zsh)" in ~/.zshrc
    fish   noetl completion fish > ~/.config/fish/completions/noetl.fish
    """
    from click.shell_completion import get_completion_class

    from noetl.cli.main import noetl

    completion = get_completion_class(shell)
    assert completion is not None  # the choices above are click's own
    click.echo(completion(noetl, {}, "noetl", "_NOETL_COMPLETE").source())
