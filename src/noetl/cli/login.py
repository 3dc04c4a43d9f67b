"""`noetl login`: keep a server's token where only its user can read it, once the server knows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from noetl.cli.queries import QueryRefused, refusals
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.operations.administration_shapes import SessionShape


@click.command("login")
@click.argument("server", required=False, metavar="URL|NAME")
@click.option("--name", metavar="NAME", help="The context it is kept under; without it, the server's host.")
@click.option("--ca", metavar="FILE", help="The authority of its certificate, in PEM, if it is a private one.")
@color_option
def command(server: str | None, name: str | None, ca: str | None) -> None:
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
        token = _read_token(url)
        who = _request_identity(url, token, ca or load_settings().settings.ca or ca_for(url))
        _keep(name, url, token, ca)
    click.echo(f"{visible(name)}: {visible(who.subject)}, {who.role} of {url}")


def _read_token(url: str) -> str:
    if sys.stdin.isatty():
        token = str(click.prompt(f"Token for {url}", hide_input=True, err=True))
    else:
        token = sys.stdin.readline()
    if not token.strip():
        raise QueryRefused("there was no token on standard input")
    return token.strip()


def _request_identity(url: str, token: str, ca: str | None) -> SessionShape:
    from noetl.client import Client

    with Client(url, token, ca=ca) as client:
        return client.who_am_i()


def _keep(name: str, url: str, token: str, ca: str | None) -> None:
    from noetl.cli.contexts import add, load_contexts, use

    add(name, url, token, ca)
    if load_contexts().current is None:
        use(name)


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).netloc.replace(":", "-") or "server"
