"""Contexts: servers by name, each with the file of its token. One of them may be the current one.

The list itself contains no tokens: each is in a file of its own that only the user can read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import msgspec

from noetl.base.errors import RefusedError
from noetl.base.private_files import create, errors_name, make_folder, others_may_read
from noetl.base.settings import config_folder
from noetl.base.tls_trust import trusting

# A name becomes the name of a file.
_NAME = re.compile(r"[\w.-]{1,64}")


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """`ca` is a PEM file with the CA of a certificate that this machine does not trust by default."""

    server: str
    token_file: str | None = None
    ca: str | None = None


class Contexts(msgspec.Struct, frozen=True, kw_only=True):
    current: str | None = None
    known: dict[str, Context] = {}


def load_contexts() -> Contexts:
    try:
        return msgspec.json.decode(_contexts_file().read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except msgspec.DecodeError as problem:
        raise RefusedError(f"{_contexts_file()} cannot be read: {problem}") from None


def add(name: str, server: str, token: str | None = None, ca: str | None = None) -> Context:
    """Store a context. A token or a CA replaces the earlier one; without, the earlier one stays."""
    if not _NAME.fullmatch(name):
        raise RefusedError(f'"{name}" is not a valid name of a context: use letters, digits and . _ -')
    contexts = load_contexts()
    before = contexts.known.get(name)
    # The server may have moved to another port, so the earlier token stays valid.
    token_file = before.token_file if before is not None else None
    if token is not None:
        token_file = str(_keep(name, token))
    if ca is not None:
        # Raises an error for a file that is unreadable or not a CA.
        trusting(ca)
        ca = str(Path(ca).expanduser().absolute())
    elif before is not None:
        ca = before.ca
    context = Context(server=address(server), token_file=token_file, ca=ca)
    _store(msgspec.structs.replace(contexts, known={**contexts.known, name: context}))
    return context


def use(name: str | None) -> None:
    """Make this context the current one; None: no context is current."""
    contexts = load_contexts()
    if name is not None and name not in contexts.known:
        raise no_context(name, contexts)
    _store(msgspec.structs.replace(contexts, current=name))


def no_context(name: str, contexts: Contexts) -> RefusedError:
    known = f"the contexts are {', '.join(contexts.known)}" if contexts.known else "none is saved yet"
    way_out = "noetl context use --none goes back to the store file"
    if name != "none":
        way_out = "noetl context add NAME URL saves one"
    return RefusedError(f'there is no context "{name}"; {known}; {way_out}')


def remove(name: str) -> None:
    contexts = load_contexts()
    if (context := contexts.known.get(name)) is None:
        raise RefusedError(f'there is no context "{name}"')
    # Delete only a file that this module created; a file that the user named with --token-file stays.
    if context.token_file is not None and Path(context.token_file).parent == _tokens():
        Path(context.token_file).unlink(missing_ok=True)
    known = {other: value for other, value in contexts.known.items() if other != name}
    _store(Contexts(current=contexts.current if contexts.current != name else None, known=known))


def is_only_a_name(server: str) -> bool:
    """Whether this can only be the name of a context: a single word without a dot is unlikely to be a host name."""
    return server != "localhost" and re.fullmatch(r"[A-Za-z][\w-]*", server) is not None


def address(server: str) -> str:
    """A server's URL in the stored form; RefusedError for an invalid address."""
    text = server if "://" in server else f"http://{server}"
    if not re.fullmatch(r"https?://[^\s/?#]+(?:/[^\s?#]*)?", text):
        raise RefusedError(f'"{server}" is not the address of a server; write one like http://127.0.0.1:8082')
    return text.rstrip("/")


def token_for(server: str) -> str | None:
    """The token of the first context with this address."""
    for context in load_contexts().known.values():
        if context.server == server and context.token_file is not None:
            return read_token(context.token_file)
    return None


def ca_for(server: str) -> str | None:
    """The CA of the first context with this address that has one."""
    authorities = (context.ca for context in load_contexts().known.values() if context.server == server)
    return next((ca for ca in authorities if ca is not None), None)


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
    """Write a token to a file that only the user can read, from its creation on."""
    make_folder(file.parent)
    # Write beside it, then rename: another command reads the old token or the new one, never a part of one.
    part = file.with_name(f".{file.name}.{os.getpid()}")
    with errors_name(file), create(part) as opened:
        opened.write(f"{token}\n".encode())
    part.replace(file)


def _keep(name: str, token: str) -> Path:
    file = _tokens() / name
    write_token(file, token)
    return file


def _store(contexts: Contexts) -> None:
    place = _contexts_file()
    make_folder(place.parent)
    part = place.with_suffix(".part")
    with create(part) as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(contexts)))
    part.replace(place)


def _contexts_file() -> Path:
    return config_folder() / "contexts.json"


def _tokens() -> Path:
    return config_folder() / "tokens"
