"""`noetl config`, `context` and `login`: the settings and their origins; named servers and their tokens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.queries import QueryRefused, refusals
from noetl.cli.terminal import as_json, color_option, columns, visible

if TYPE_CHECKING:
    from noetl.operations.administration_shapes import SessionShape


@click.group("config")
@color_option
def config_command() -> None:
    """Settings: a flag comes before a NOETL_… variable, that before .env, that before noetl.toml or [tool.noetl] of
    pyproject.toml, that before your own config.toml, that before the default."""


@config_command.command("show")
@click.option("--origin", is_flag=True, help="And where each value was found.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
def show_command(origin: bool, output: str) -> None:
    """Show every setting. Secrets are masked."""
    import msgspec

    from noetl.base.redaction import without_password
    from noetl.base.settings import SECRETS, load_settings

    with refusals():
        loaded = load_settings()
    values: dict[str, Any] = msgspec.to_builtins(loaded.settings)
    values = {name: without_password(value) if isinstance(value, str) else value for name, value in values.items()}
    shown = {name: "***" if name in SECRETS and value is not None else value for name, value in values.items()}
    if output == "json":
        values_shown = (
            {name: {"value": shown[name], "origin": loaded.origins[name]} for name in shown} if origin else shown
        )
        click.echo(as_json(values_shown))
        return
    headings = ("SETTING", "VALUE", *(["ORIGIN"] if origin else []))
    rows = [(name, _text(value), *([loaded.origins[name]] if origin else [])) for name, value in shown.items()]
    click.echo("\n".join(columns(headings, rows)))


@config_command.command("path")
def path_command() -> None:
    """Print where your own settings are read from."""
    from noetl.base.settings import config_folder

    click.echo(config_folder() / "config.toml")


def _text(value: Any) -> str:
    match value:
        case None | []:
            return "-"
        case bool():
            return str(value).lower()
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


# `noetl context` and `login`: the known servers, the current one, and its token.

_STDIN = ("-",)


@click.group("context")
@color_option
def context_command() -> None:
    """Name servers, and choose the one that commands talk to."""


@context_command.command("list")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
def list_command(output: str) -> None:
    """List contexts; the one in use is marked."""
    from noetl.cli.contexts import load_contexts

    with refusals():
        contexts = load_contexts()
    if output == "json":
        click.echo(as_json(contexts))
        return
    if not contexts.known:
        click.echo("no contexts: noetl context add NAME URL")
        return
    rows = [
        ("*" if name == contexts.current else "", name, context.server, "kept" if context.token_file else "none")
        for name, context in contexts.known.items()
    ]
    click.echo("\n".join(columns(("", "NAME", "SERVER", "TOKEN"), rows)))


@context_command.command("add")
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


@context_command.command("use")
@click.argument("name", required=False)
@click.option("--none", "none", is_flag=True, help="No server: commands work on the store file again.")
def use_command(name: str | None, none: bool) -> None:
    """Have commands talk to this server from now on."""
    from noetl.cli.contexts import use

    if (name is None) != none:
        raise click.UsageError("name a context, or say --none")
    with refusals():
        use(name)
    click.echo("commands work on the store file" if name is None else f"commands talk to {visible(name)}")


@context_command.command("remove")
@click.argument("name")
def remove_command(name: str) -> None:
    """Forget a server, and its token."""
    from noetl.cli.contexts import remove

    with refusals():
        remove(name)
    click.echo(f"removed {visible(name)}")


@click.command("login")
@click.argument("server", required=False, metavar="URL|NAME")
@click.option("--name", metavar="NAME", help="The context it is kept under; without it, the server's host.")
@click.option("--ca", metavar="FILE", help="The authority of its certificate, in PEM, if it is a private one.")
@color_option
def login_command(server: str | None, name: str | None, ca: str | None) -> None:
    """Keep a token for a server. It is read from standard input, never from an argument.

    \b
    noetl login http://127.0.0.1:8082
    printf %s "$TOKEN" | noetl login https://noetl.example.org --name prod
    """
    from noetl.base.settings import load_settings
    from noetl.cli.contexts import address, ca_for, load_contexts

    with refusals():
        contexts = load_contexts()
        chosen = server or contexts.current
        if chosen is None:
            raise QueryRefused("which server? noetl login URL")
        known = contexts.known.get(chosen)
        url = known.server if known is not None else address(chosen)
        name = name or (chosen if known is not None else _host(url))
        # Read and verify the token before anything is stored: a context with an invalid token is worse than none.
        token = _read_token(url)
        identity = _request_identity(url, token, ca or load_settings().settings.ca or ca_for(url))
        _keep(name, url, token, ca)
    click.echo(f"{visible(name)}: {visible(identity.subject)}, {identity.role} of {url}")


def _read_token(url: str) -> str:
    if sys.stdin.isatty():
        token = str(click.prompt(f"Token for {url}", hide_input=True, err=True))
    else:
        token = sys.stdin.readline()
    if not token.strip():
        raise QueryRefused("standard input has no token: noetl login URL < TOKEN_FILE")
    return token.strip()


def _request_identity(url: str, token: str, ca: str | None) -> SessionShape:
    from noetl.client import Client

    with Client(url, token, ca=ca) as client:
        return client.who_am_i()


def _keep(name: str, url: str, token: str, ca: str | None) -> None:
    from noetl.cli.contexts import add, load_contexts, use

    add(name, url, token, ca)
    # The first login becomes the current context. A later one must not change the server of other terminals.
    if load_contexts().current is None:
        use(name)


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    # The name of a context is also the name of a file, which must not contain a colon.
    return urlsplit(url).netloc.replace(":", "-") or "server"
