"""Connecting, in the child: a DuckDB that can reach nothing but what its call allows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from types import ModuleType
from typing import Any, TypeVar

import duckdb
import msgspec

from noetl.templates.sql.statements import quoted
from noetl.tools.confinement import confine_files, forbid_sockets
from noetl.tools.duckdb.attachments import Attachment
from noetl.tools.duckdb.extensions import attach

LOCKED = "Could not set lock on file"  # in DuckDB's own words
# Another process may have the file open for a moment; DuckDB itself does not wait.
PATIENCE_S = 5.0
Opened = TypeVar("Opened")

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
# What a confined process still reads: the size of its machine, without which DuckDB fails, and system libraries.
_SYSTEM = ("/proc/self/cgroup", "/sys/fs/cgroup", "/etc/ld.so.cache", "/lib", "/lib64", "/usr/lib", "/usr/lib64")


def connected(call: dict[str, Any]) -> Any:
    """A connection for one call, its configuration locked."""
    _provide_pytz()
    limits = {"memory_limit": f"{call['memory_bytes']}B", "threads": str(call["threads"])}
    config: dict[str, Any] = {**_CONFIG, **limits}
    attached = msgspec.convert(call["attach"], Attachment) if call["attach"] else None
    if call.get("is_ours"):
        # This connection lives for several calls. DuckDB knows a file again by its name and a time in seconds, and we
        # write files anew under the same name.
        config["enable_external_file_cache"] = "false"
    if attached is not None:
        config |= _FOR_ATTACHING
    if attached is not None and attached.opens_files:
        confine_files((sys.prefix, sys.base_prefix, *sys.path, *_SYSTEM), (*call["folders"], "/dev/null"))
    connection = patiently(lambda: duckdb.connect(call["database"] or ":memory:", config=config))
    try:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET temp_directory = {quoted(call.get('spill', ''))}")
        if attached is not None:
            patiently(lambda: attach(connection, attached, call["threads"]))
            if attached.is_offline:
                forbid_sockets()
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


def patiently(opened: Callable[[], Opened]) -> Opened:
    """Another worker may have a file open: that is waited for, a little. Our own take turns before they come here."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return opened()
        except duckdb.Error as problem:
            if LOCKED not in str(problem) or time.monotonic() > until:
                raise
            time.sleep(0.05)


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
