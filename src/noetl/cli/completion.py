"""`noetl completion`: the script for a shell, and the paths, ids and steps it suggests while the user types.

A suggestion must be available at once or not at all. So there is a short timeout, and every error is ignored: a message
in the middle of a command line would only disturb.
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


# The user has pressed Tab and waits; a slower server gives no suggestions.
TIMEOUT_S = 1.0
# Only the newest executions and tasks are suggested; for an older one the user types its beginning.
_AMONG = 50
_PLAYBOOKS = 1000
Found = TypeVar("Found")
# The suggested words, each with a short description.
Words = list[tuple[str, str]]


class _Suggesting(click.ParamType[str]):
    """Any text, with suggestions from `look`."""

    def __init__(
        self, name: str, look: Callable[[click.Context, str], Awaitable[Words]], *, files: bool = False
    ) -> None:
        self.name, self._look, self._files = name, look, files

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        # Imported here: only completion needs it, and every command would load it.
        from click.shell_completion import CompletionItem

        async def suggestions() -> Words:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._look(ctx, incomplete)

        try:
            words = asyncio.run(suggestions())
        # Any error: completion must never print one into the command line.
        except Exception:
            words = []
        files = [CompletionItem(incomplete, type="file")] if self._files else []
        return files + [
            CompletionItem(word, help=help_text) for word, help_text in words if word.startswith(incomplete)
        ]


async def _executions(ctx: click.Context, _: str) -> Words:
    rows = await _read_record(ctx, lambda records: records.executions(limit=_AMONG))
    return [("last", "the newest"), *((row.execution_id, f"{row.status} {row.path}") for row in rows)]


async def _playbooks(ctx: click.Context, _: str) -> Words:
    playbooks = await _ask(ctx, lambda operations: operations.playbooks(limit=_PLAYBOOKS))
    return [(playbook.path, f"version {playbook.version}") for playbook in playbooks]


async def _steps(ctx: click.Context, _: str) -> Words:
    """The steps of the execution that is named on the command line."""
    from noetl.cli.queries import find_execution
    from noetl.net.net import from_json

    # While an option has no value yet, click does not assign arguments to parameters.
    reference = str(ctx.params.get("reference") or next(iter(ctx.args), "last"))

    async def step_names(records: Records) -> Words:
        row: ExecutionRow = await find_execution(records, reference)
        net = from_json(await records.net(row.net_hash))
        return [(step.name, "") for step in net.transitions]

    return await _read_record(ctx, step_names)


async def _tasks(ctx: click.Context, _: str) -> Words:
    page = await _ask(ctx, lambda operations: operations.task_page(state=["open", "claimed"], limit=_AMONG))
    return [(task.task_id, task.title) for task in page.tasks]


async def _contexts(_: click.Context, __: str) -> Words:
    from noetl.cli.contexts import load_contexts

    return [(name, context.server) for name, context in load_contexts().known.items()]


async def _read_record(ctx: click.Context, look: Callable[[Records], Awaitable[Found]]) -> Found:
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

    # Imported here, because `main` imports this module.
    from noetl.cli.main import noetl

    completion = get_completion_class(shell)
    # The choices above are click's own.
    assert completion is not None
    click.echo(completion(noetl, {}, "noetl", "_NOETL_COMPLETE").source())
