"""Telling that a command has made the first master key: without a copy of it, nobody can read what it seals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def telling_new_master_key() -> Iterator[None]:
    """Where the key is that was made meanwhile, on standard error. A server that makes one says so itself."""
    from noetl.secrets.master_keys import has_master_keys, key_file

    had = has_master_keys(os.environ)
    yield
    if not had and has_master_keys(os.environ):
        click.echo(new_master_key_text(str(key_file(os.environ))), err=True)


def new_master_key_text(file: str) -> str:
    return f"made a master key for credentials: {file}; keep a copy of it, without it nobody can read them"
