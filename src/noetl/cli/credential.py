"""`noetl credential`: store credentials, list and try them, rotate the master key. Values are never shown.

A value is never an argument: every user of the machine can see arguments, and the shell keeps them in its history.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import ask, place_options
from noetl.cli.terminal import color_option, columns, list_output, print_list, visible, when

if TYPE_CHECKING:
    from noetl.operations.administration_shapes import CredentialView


@contextmanager
def announce_new_master_key() -> Iterator[None]:
    """Print the file of a master key that is created in the block, on standard error. A server logs that itself."""
    from noetl.secrets.encryption import has_master_keys, key_file

    had = has_master_keys(os.environ)
    yield
    if not had and has_master_keys(os.environ):
        click.echo(new_master_key_text(str(key_file(os.environ))), err=True)


def new_master_key_text(file: str) -> str:
    return f"created a master key for credentials: {file}; keep a copy of it, without it they cannot be read"


# The same list as in `secrets/credential_types.py`, which is slow to import for a help text; a test compares them.
_TYPES = [
    *("text", "bearer", "basic", "postgres", "oauth2", "mysql", "sqlserver", "oracle", "snowflake", "clickhouse"),
    *("trino", "redshift", "databricks", "nats", "redis", "mqtt", "amqp", "kafka", "slack", "teams"),
    *("ducklake", "iceberg", "s3", "gcs", "azure", "email", "ssh", "llm", "mcp", "container", "kubernetes"),
    *("dbt", "dlt", "dask", "ray", "iceberg_rest", "pgp"),
]


@click.group("credential")
@color_option
def command() -> None:
    """Store credentials for playbooks, encrypted under a master key.

    The key comes from NOETL_MASTER_KEY or from the file NOETL_MASTER_KEY_FILE; without either, the first credential
    creates a file in your data folder that only you can read. Keep a copy of it: without it nothing can be read.
    """


@command.command("set")
@click.argument("name")
@click.option("--type", "kind", type=click.Choice(_TYPES), default="text", help="What it is; text when left out.")
@click.option("--from-env", "variable", metavar="VAR", help="Take the value from this variable.")
@place_options
def set_command(name: str, kind: str, variable: str | None, db: str | None) -> None:
    """Store a credential, or a new version of one.

    The value comes from standard input, as text or as a JSON object, or from a variable:

    \b
    printf %s "$TOKEN" | noetl credential set openai_token --type bearer
    noetl credential set pg --type postgres <<< '{"host": "db", "user": "app", "password": "…"}'
    """
    value = _read_value(name, variable)
    with announce_new_master_key():
        stored = ask(db, lambda it: it.set_credential(name, value, kind=kind), makes_store=True)
    click.echo(f"stored {visible(stored.name)} ({stored.type}, version {stored.version})")
    if short := _too_short(kind, value):
        message = f"warning: {', '.join(short)} is shorter than 6 characters, and such values cannot be masked in logs"
        click.echo(message, err=True)


@command.command("list")
@list_output
@place_options
def list_command(output: str, db: str | None) -> None:
    """List what is stored: names, types, versions and fingerprints, never values."""
    stored = ask(db, lambda it: it.credentials(), makes_store=True)
    print_list(stored, output, key="name", table=lambda: _table(stored))


@command.command("delete")
@click.argument("name")
@place_options
def delete_command(name: str, db: str | None) -> None:
    """Delete a credential."""
    ask(db, lambda it: it.delete_credential(name), makes_store=True)
    click.echo(f"deleted {visible(name)}")


@command.command("test")
@click.argument("name")
@click.option("--kind", help="The kind of task that uses it; known from its type when left out.")
@click.option("--url", help="Where to try it: a bucket such as s3://exports, or an address that is asked by GET.")
@place_options
def test_command(name: str, kind: str | None, url: str | None, db: str | None) -> None:
    """Try a stored credential: connect with it, and do nothing else. With --server the server connects.

    \b
    noetl credential test shop
    noetl credential test shop_api --url https://api.example.org/me
    noetl credential test exports --url s3://exports

    For an OAuth 2 client, the test requests a token; with --url it also tries the token there.
    """
    check = ask(db, lambda it: it.check_credential(name, kind=kind, url=url), makes_store=True)
    click.echo(f"ok: {visible(check.reached)}")


@command.command("rotate")
@place_options
def rotate_command(db: str | None) -> None:
    """Encrypt every credential under a new master key.

    An interrupted rotation is finished first: run it again. Old keys stay in the key file, for other stores that use
    it. When the key comes from NOETL_MASTER_KEY, add the new one after the old, separated by a comma, and rotate.
    """
    rotation = ask(db, lambda it: it.rotate_credentials(), makes_store=True)
    number = rotation.moved
    click.echo(f"{number} credential{'' if number == 1 else 's'} now encrypted under master key {rotation.key_id}")


def _read_value(name: str, variable: str | None) -> str | dict[str, Any]:
    if variable is not None:
        value = os.environ.get(variable, "")
        if not value:
            raise click.UsageError(f"the environment has no variable {variable}")
    elif sys.stdin.isatty():
        # Never an option of its own: arguments are in the history of the shell and in the list of processes.
        value = str(click.prompt(f"Value of {name}", hide_input=True, err=True))
    else:
        value = _piped_text()
    if not value:
        raise click.UsageError("the value is empty: give it on standard input, or with --from-env VAR")
    return _parsed_value(value)


def _piped_text() -> str:
    try:
        text = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError("the value is not UTF-8 text: store bytes in base64") from None
    # Remove one line break, which `echo` and editors add; a key of many lines keeps the others.
    return text.removesuffix("\n").removesuffix("\r")


def _parsed_value(value: str) -> str | dict[str, Any]:
    import msgspec

    # Text that begins like an object is refused if it is not one: a typo in JSON would be stored as the password.
    if value.lstrip().startswith("{"):
        try:
            decoded = msgspec.json.decode(value)
        except msgspec.DecodeError as problem:
            raise click.UsageError(f"the value begins like a JSON object but is not valid JSON: {problem}") from None
        if isinstance(decoded, dict):
            return decoded
    return value


def _too_short(kind: str, value: str | dict[str, Any]) -> list[str]:
    from noetl.base.secret_forms import SHORTEST
    from noetl.events.secret_materials import Material, secrets_in
    from noetl.secrets.credential_types import shaped

    fields = shaped(kind, value)
    # Each field for itself, so that the warning can name the fields that are too short.
    single = [(name, Material(fields={name: value})) for name, value in fields.items()]
    return [name for name, material in single if any(len(text) < SHORTEST for text in secrets_in(material))]


def _table(stored: list[CredentialView]) -> list[str]:
    rows = [
        (
            *(
                str(text)
                for text in (
                    credential.name,
                    credential.type,
                    credential.version,
                    credential.fingerprint,
                    credential.key_id,
                )
            ),
            when(credential.updated_at),
        )
        for credential in stored
    ]
    heads = ("NAME", "TYPE", "VERSION", "FINGERPRINT", "KEY", "UPDATED")
    return columns(heads, rows, nothing="no credentials yet: noetl credential set NAME")
