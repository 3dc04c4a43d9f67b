"""`noetl context`: servers by name, and which of them commands talk to."""

from __future__ import annotations

import sys

import click

from noetl.cli.queries import as_json, refusals
from noetl.cli.terminal import color_option, visible

_STDIN = ("-",)


@click.group("context", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Name servers, and choose the one that commands talk to."""


@command.command("list")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Form of the output.")
def list_command(output: str) -> None:
    """List contexts; the one in use is marked."""
    from noetl.cli.connection import as_table
    from noetl.cli.contexts import load_contexts

    with refusals():
        contexts = load_contexts()
    if output == "json":
        click.echo(as_json(contexts))
        return
    if not contexts.known:
        click.echo("no contexts: noetl context add NAME URL")
        return
    rows = [("", "NAME", "SERVER", "TOKEN")] + [
        ("*" if name == contexts.current else "", name, one.server, "kept" if one.token_file else "none")
        for name, one in contexts.known.items()
    ]
    click.echo("\n".join(as_table(list(rows))))


@command.command("add")
@click.argument("name")
@click.argument("url")
@click.option("--token-file", metavar="FILE|-", help="Take the token from this file, or from standard input.")
@click.option("--ca", metavar="FILE", help="The authority of its certificate, in PEM, if it is a private one.")
@click.option("--use", "at_once", is_flag=True, help="And use it from now on.")
def add_command(name: str, url: str, token_file: str | None, ca: str | None, at_once: bool) -> None:
    """Remember a server under a name."""
    from noetl.cli.contexts import add, read_token, use

    with refusals():
        token = None
        if token_file is not None:
            token = sys.stdin.readline().strip() if token_file in _STDIN else read_token(token_file)
        context = add(name, url, token, ca)
        if at_once:
            use(name)
    click.echo(f"{visible(name)} is {visible(context.server)}")


@command.command("use")
@click.argument("name", required=False)
@click.option("--none", "nobody", is_flag=True, help="No server: commands work on the store file again.")
def use_command(name: str | None, nobody: bool) -> None:
    """Have commands talk to this server from now on."""
    from noetl.cli.contexts import use

    if (name is None) != nobody:
        raise click.UsageError("name a context, or say --none")
    with refusals():
        use(name)
    click.echo("commands work on the store file" if name is None else f"commands talk to {visible(name)}")


@command.command("remove")
@click.argument("name")
def remove_command(name: str) -> None:
    """Forget a server, and its token."""
    from noetl.cli.contexts import remove

    with refusals():
        remove(name)
    click.echo(f"removed {visible(name)}")
