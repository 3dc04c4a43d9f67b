"""Contexts: servers by name, each with the file of its token. One of them may be in use (DEPENDENCIES §6).

A token is never in the list itself: it lies in a file of its own that only its user can read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import msgspec

from noetl.base.errors import RefusedError
from noetl.base.private_files import create, make_folder, others_may_read
from noetl.base.settings import config_folder
from noetl.base.tls_trust import trusting

# A name becomes the name of a file.
_NAME = re.compile(r"[\w.-]{1,64}")


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """`ca` is a PEM file: the authority of a certificate that this machine does not trust by itself."""

    server: str
    token_file: str | None = None
    ca: str | None = None


class Contexts(msgspec.Struct, frozen=True, kw_only=True):
    current: str | None = None
    known: dict[str, Context] = {}


def load_contexts() -> Contexts:
    try:
        return msgspec.json.decode(_place().read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except msgspec.DecodeError as problem:
        raise RefusedError(f"{_place()} cannot be read: {problem}") from None


def add(name: str, server: str, token: str | None = None, ca: str | None = None) -> Context:
    """Remember a server; its token and its authority, if they are given, replace those before."""
    if not _NAME.fullmatch(name):
        raise RefusedError(f'"{name}" is no name of a context: letters, digits and . _ -')
    contexts = load_contexts()
    before = contexts.known.get(name)
    token_file = before.token_file if before is not None else None  # it may have moved to another port
    if token is not None:
        token_file = str(_keep(name, token))
    if ca is not None:
        trusting(ca)  # it can be read, and is one
        ca = str(Path(ca).expanduser().absolute())
    elif before is not None:
        ca = before.ca
    context = Context(server=address(server), token_file=token_file, ca=ca)
    _store(msgspec.structs.replace(contexts, known={**contexts.known, name: context}))
    return context


def use(name: str | None) -> None:
    """Have commands talk to this one from now on; None: to none."""
    contexts = load_contexts()
    if name is not None and name not in contexts.known:
        raise no_context(name, contexts)
    _store(msgspec.structs.replace(contexts, current=name))


def no_context(name: str, contexts: Contexts) -> RefusedError:
    known = ", ".join(contexts.known) or "none yet"
    way_out = "noetl context use --none goes back to the store file" if name == "none" else "noetl context add NAME URL"
    return RefusedError(f'there is no context "{name}"; there is {known}: {way_out}')


def remove(name: str) -> None:
    contexts = load_contexts()
    if (context := contexts.known.get(name)) is None:
        raise RefusedError(f'there is no context "{name}"')
    # Only a file that we made: one that the user named with --token-file stays.
    if context.token_file is not None and Path(context.token_file).parent == _tokens():
        Path(context.token_file).unlink(missing_ok=True)
    known = {one: value for one, value in contexts.known.items() if one != name}
    _store(Contexts(current=contexts.current if contexts.current != name else None, known=known))


def is_only_a_name(server: str) -> bool:
    """Whether this can only be meant as a context: a bare word is a host of no network that people mean."""
    return server != "localhost" and re.fullmatch(r"[A-Za-z][\w-]*", server) is not None


def address(server: str) -> str:
    """A server's URL as it is kept; RefusedError for what is none."""
    text = server if "://" in server else f"http://{server}"
    if not re.fullmatch(r"https?://[^\s/?#]+(?:/[^\s?#]*)?", text):
        raise RefusedError(f'"{server}" is no address of a server, such as http://127.0.0.1:8082')
    return text.rstrip("/")


def token_for(server: str) -> str | None:
    """The token that is kept for an address, under whatever name."""
    for context in load_contexts().known.values():
        if context.server == server and context.token_file is not None:
            return read_token(context.token_file)
    return None


def ca_for(server: str) -> str | None:
    """The authority that is kept for an address, under whatever name."""
    kept = (context.ca for context in load_contexts().known.values() if context.server == server)
    return next((ca for ca in kept if ca is not None), None)


def read_token(file: str | Path) -> str:
    place = Path(file).expanduser()
    try:
        token = place.read_text("utf-8").strip()
        if (mode := others_may_read(place)) is not None:
            click.echo(f"warning: others can read the token file {file} (mode {mode:o}): chmod 600 {file}", err=True)
    except OSError as problem:
        raise RefusedError(f"the token file {file} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isascii() or len(token.split()) != 1:
        raise RefusedError(f"the token file {file} must hold a token and nothing else, as noetl token create prints it")
    return token


def write_token(file: Path, token: str) -> None:
    """Only its user can read it, from the first moment on."""
    make_folder(file.parent)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    with create(part) as opened:
        opened.write(f"{token}\n".encode())
    part.replace(file)


def _keep(name: str, token: str) -> Path:
    file = _tokens() / name
    write_token(file, token)
    return file


def _store(contexts: Contexts) -> None:
    place = _place()
    make_folder(place.parent)
    part = place.with_suffix(".part")
    with create(part) as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(contexts)))
    part.replace(place)


def _place() -> Path:
    return config_folder() / "contexts.json"


def _tokens() -> Path:
    return config_folder() / "tokens"
