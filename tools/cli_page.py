"""docs/cli.md: every command with its options and an example, generated from the command tree. `make docs` writes
it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from noetl.cli.main import COMMANDS, noetl

HEAD = """\
# The command line

Generated from the commands themselves (`make docs`); `noetl COMMAND --help` says the same.

Data goes to standard output, everything else to standard error. Commands that look at executions, or tell them
something, work on a store (`--db`, else `NOETL_DB`, else the file in your data folder) or on a server (`--server URL`
or the name of a context, else `NOETL_SERVER`, else the context in use), with the same words and exit codes; `--db` and
`--server` exclude each other. `noetl run FILE` runs here, whatever context is in use, and its execution is in the store
here: look at it with `--db`, or run it with `--server`. Lists take `-o table|json|jsonl|yaml|id`;
fields are those of the [API](api.md).

| exit code | |
|---|---|
| 0 | done |
| 1 | the execution failed; `check` found errors; a check of a store or of the audit log found damage |
| 2 | wrong usage |
| 3 | the playbook has errors |
| 4 | refused, not there, or the server is not reachable |
| 5 | cancelled, or the wait for it timed out |
| 130 | interrupted |

An ID is an execution's id, the beginning of it, or `last` for the newest. `eval "$(noetl completion bash)"` completes
commands, options, execution ids, playbook paths and step names (zsh and fish too).

```console
$ noetl run examples/hello.yaml -q
{
  "greeting": "hello, world"
}
$ noetl executions -o yaml
- execution_id: …
  path: examples/hello
…
$ noetl status last
…  completed
…
$ noetl events last --step strat
error: examples/hello has no step "strat"; did you mean "start"?
```
"""


def tree(command: click.Command, words: tuple[str, ...], parent: click.Context | None) -> Iterator[click.Context]:
    """Every command under this one, as its context."""
    ctx = click.Context(command, info_name=words[-1], parent=parent, max_content_width=100)
    yield ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            under = command.get_command(ctx, name)
            assert under is not None, f"{name} is listed"
            yield from tree(under, (*words, name), ctx)


def commands() -> list[click.Context]:
    """All of them, without `noetl` itself."""
    return list(tree(noetl, ("noetl",), None))[1:]


def cli_page() -> str:
    return HEAD + "".join(_section(ctx) for ctx in commands())


def _section(ctx: click.Context) -> str:
    is_verb = ctx.info_name in COMMANDS and ctx.parent is not None and ctx.parent.parent is None
    lines = [f"\n{'##' if is_verb else '###'} {ctx.command_path}\n", *_words(ctx.command.help or "")]
    if not isinstance(ctx.command, click.Group):
        usage = " ".join(ctx.command.collect_usage_pieces(ctx))
        lines += [f"`{ctx.command_path} {usage}`\n", *_options(ctx)]
    return "\n".join(lines) + "\n"


def _words(text: str) -> Iterator[str]:
    """Paragraphs, with what is set off in the help as a block of text."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield "```sh\n" + paragraph.removeprefix("\b\n") + "\n```\n" if " " in paragraph else paragraph
        else:
            yield " ".join(paragraph.split("\n")) + "\n"


def _options(ctx: click.Context) -> Iterator[str]:
    rows = [
        record
        for option in ctx.command.params
        if isinstance(option, click.Option) and option.name != "color"
        for record in [option.get_help_record(ctx)]
        if record is not None
    ]
    if rows:
        yield "| option | |\n|---|---|"
        yield from (f"| `{_cell(names)}` | {_cell(told)} |" for names, told in rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
