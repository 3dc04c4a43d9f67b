"""Connecting, in the child: a DuckDB that can reach nothing but what its call allows."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted

LOCKED = "Could not set lock on file"  # in DuckDB's own words
# Another process may have the file open for a moment; DuckDB itself does not wait.
PATIENCE_S = 5.0

_CONFIG = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "allow_unsigned_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # or SQL could read the variables of this program
}

# The postgres extension asks for the storage of persistent secrets and fails where that is off: so it is on, in a place
# where nothing can be stored.
_FOR_ATTACHING = {"allow_persistent_secrets": "true", "secret_directory": "/dev/null/secrets"}


def connected(call: dict[str, Any]) -> Any:
    """A connection for one call, its configuration locked."""
    _provide_pytz()
    limits = {"memory_limit": f"{call['memory_bytes']}B", "threads": str(call["threads"])}
    config = {**_CONFIG, **limits}
    if call["attach"]:
        config |= _FOR_ATTACHING
    connection = _opened(call["database"] or ":memory:", config)
    try:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET temp_directory = {quoted(call.get('spill', ''))}")
        if call["attach"]:
            attach(connection, call["attach"])
        folders = ", ".join(quoted(folder.rstrip("/") + "/") for folder in call["folders"])
        connection.execute(f"SET allowed_directories = [{folders}]")
        if files := call.get("files"):
            connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, files))}]")
        connection.execute("SET enable_external_access = false")
        # Last: from here on no SQL of the task can undo what was set before.
        connection.execute("SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(database: str, config: dict[str, Any]) -> Any:
    """Another worker may have the file open: that is waited for, a little. Our own take turns before they come here."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return duckdb.connect(database, config=config)
        except duckdb.Error as problem:
            if LOCKED not in str(problem) or time.monotonic() > until:
                raise
            time.sleep(0.05)


def attach(connection: Any, address: str) -> None:
    """Attach a PostgreSQL database as `pg`, where the extension for it is installed."""
    try:
        connection.execute(f"LOAD {quoted(_postgres_extension())}")
    except Exception:  # whatever is missing, this is the way out
        message = "this DuckDB cannot load the postgres extension here: install noetl-engine[duckdb-extensions]"
        raise ToolError("duckdb.error", message) from None
    try:
        connection.execute(f"ATTACH {quoted(address)} AS pg (TYPE postgres)")
    except duckdb.Error:  # its words hold the address, and so the password
        raise ToolError("duckdb.error", "the PostgreSQL database of auth cannot be attached", retryable=True) from None


def _postgres_extension() -> str:
    """The file that the extra installs, loaded where it lies: this process has no home to install it into. Without the
    extra, the name of one that somebody installed otherwise."""
    spec = find_spec("duckdb_extension_postgres_scanner")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        file = Path(folder) / "extensions" / f"v{duckdb.__version__}" / "postgres_scanner.duckdb_extension"
        if file.is_file():
            return str(file)
    return "postgres_scanner"


class _Utc(tzinfo):
    """The one time zone of a connection."""

    def localize(self, moment: datetime) -> datetime:
        return moment.replace(tzinfo=UTC)

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, moment: datetime | None) -> None:
        return None

    def fromutc(self, moment: datetime) -> datetime:
        return moment

    def tzname(self, moment: datetime | None) -> str:
        return "UTC"


def _provide_pytz() -> None:
    """DuckDB asks a package we do not need for the zone of its times; ours is always UTC."""
    if "pytz" not in sys.modules:
        module: Any = ModuleType("pytz")
        module.utc = _Utc()
        module.timezone = lambda name: module.utc
        sys.modules["pytz"] = module
