"""DuckDB connections in the child process that can reach only what their call allows.

Extensions come from the wheels that extras install; DuckDB downloads none. Some open files and connections without
DuckDB's checks, so the kernel confines a process that has loaded one (`tools.confinement`) before it runs the SQL of a
playbook.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import duckdb
import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted
from noetl.tools.confinement import confine_files, forbid_sockets
from noetl.tools.duckdb.attachments import Attachment, ObjectFolder
from noetl.tools.duckdb.object_files import ObjectFiles

POSTGRES, LAKE, CATALOGUE = "pg", "lake", "catalogue"  # the names of attached databases in SQL
_METADATA = f"__ducklake_metadata_{LAKE}"  # the name that DuckLake gives the database of its catalogue
_EXTRAS = {"postgres_scanner": "duckdb-extensions", "iceberg": "iceberg", "avro": "iceberg", "delta": "delta"}
_FileState = tuple[str, int, int, int, int]  # path, device, inode, size, time of the last change
_SPARE = 2  # connections besides one per thread: for the transaction, and for catalogue lookups


def load(connection: Any, name: str) -> None:
    """Load an extension directly from its wheel: this process has no home to install it into. Without the wheel, load
    an installed extension of that name."""
    try:
        connection.execute(f"LOAD {quoted(str(_extension_file(name) or name))}")
    except Exception:  # this installs any missing part
        extra, known = _EXTRAS.get(name, "ducklake"), name.removesuffix("_scanner")
        message = f'this DuckDB cannot load the {known} extension here: pip install "noetl-engine[{extra}]"'
        raise ToolError("duckdb.error", message) from None


def _extension_file(name: str) -> Path | None:
    """The file of an extension in its wheel."""
    spec = find_spec(f"duckdb_extension_{name}")
    folders = spec.submodule_search_locations or () if spec is not None else ()
    files = [Path(folder) / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension" for folder in folders]
    return next((file for file in files if file.is_file()), None)


class CheckedExtensions:
    """Extension files whose signature DuckDB has checked in this process.

    The check hashes the whole file: 0.2 s of processor time for each extension and task. A file that has not changed
    since is loaded without it.
    """

    def __init__(self) -> None:
        self._known: set[_FileState] = set()

    def states(self, attachment: Attachment) -> frozenset[_FileState]:
        """The identity of the files that this attachment loads; empty if one of them has no wheel, so that DuckDB
        chooses the file."""
        files = [_extension_file(name) for name in _needed_extensions(attachment)]
        found = [file for file in files if file is not None]
        return frozenset(_file_state(file) for file in found) if len(found) == len(files) else frozenset()

    def holds(self, states: frozenset[_FileState]) -> bool:
        return bool(states) and states <= self._known

    def add(self, states: frozenset[_FileState]) -> None:
        """Call it after DuckDB has loaded them with the check. The states must be from before: a file that was
        replaced in between is then unknown."""
        self._known |= states


def _file_state(file: Path) -> _FileState:
    found = file.stat()
    return str(file), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def attach(connection: Any, attachment: Attachment, threads: int) -> None:
    """Attach a database as `pg`, or a lake as `lake`."""
    needed = _needed_extensions(attachment)
    if networks := [_NETWORKS[name] for name in needed if name in _NETWORKS]:
        # Set before the extensions are loaded, or DuckDB would open objects through them.
        connection.execute(f"SET disabled_filesystems = {quoted(','.join(networks))}")
    for name in needed:
        load(connection, name)
    if attachment.kind in ("iceberg", "delta"):
        return
    if attachment.connects:
        _keep_connections(connection, threads + _SPARE)
    with _password(attachment.password):
        try:
            connection.execute(_attach_statement(attachment))
            if attachment.connects:
                _open_connections(
                    connection, _METADATA if attachment.kind == "ducklake" else POSTGRES, threads + _SPARE
                )
        except duckdb.Error as problem:
            if (found := _OBJECTS.search(str(problem))) is not None:
                message = f'the files of this lake are at {found[1]}: write that as "data_path", and "storage_auth"'
                raise ToolError("sql.input", message) from None
            if not attachment.connects:
                raise
            raise _attach_error(attachment, problem) from None
    if attachment.kind == "ducklake":
        connection.execute(f"USE {LAKE}")


def _needed_extensions(attachment: Attachment) -> tuple[str, ...]:
    """The extensions of an attachment."""
    stores = {"": (), "sqlite": ("sqlite_scanner",), "postgres": ("postgres_scanner",)}
    match attachment.kind:
        case "iceberg":
            return ("avro", "iceberg")
        case "delta":
            return ("delta",)
        case "ducklake":
            return (*_network(attachment.objects), "ducklake", *stores[attachment.store])
        case kind:
            return stores[kind]


def _network(objects: ObjectFolder | None) -> tuple[str, ...]:
    if objects is None:
        return ()
    return ("azure",) if "az" in objects.schemes else ("httpfs",)


def _attach_statement(attachment: Attachment) -> str:
    if attachment.kind == "sqlite":
        return f"ATTACH {quoted(attachment.address)} AS {CATALOGUE} (TYPE sqlite, READ_ONLY)"
    if attachment.kind == "postgres":
        return f"ATTACH {quoted(attachment.address)} AS {POSTGRES} (TYPE postgres)"
    address = quoted(f"ducklake:{attachment.store}{':' if attachment.store else ''}{attachment.address}")
    options = ", ".join(f"{name} {_option(value)}" for name, value in attachment.options.items())
    return f"ATTACH {address} AS {LAKE} ({options})" if options else f"ATTACH {address} AS {LAKE}"


def _option(value: str | int | bool) -> str:
    return quoted(value) if isinstance(value, str) else str(value).lower()


@contextmanager
def _password(password: str) -> Iterator[None]:
    """The password in the environment, where libpq looks for it. SQL that lists databases would show it in an
    address."""
    os.environ["PGPASSWORD"] = password
    try:
        yield
    finally:
        del os.environ["PGPASSWORD"]


def _keep_connections(connection: Any, count: int) -> None:
    """Keep all connections open: once sockets are forbidden, no new one can be made. A scan waits for a free one."""
    for name, value in {
        "max_connections": str(count),
        "acquire_mode": "'wait'",
        "enable_reaper_thread": "false",
        "idle_timeout_millis": "0",
    }.items():
        connection.execute(f"SET pg_pool_{name} = {value}")


def _open_connections(connection: Any, database: str, count: int) -> None:
    """Fill the pool with open transactions: each needs its own connection at the same time."""
    cursors = [connection.cursor() for _ in range(count)]
    try:
        for cursor in cursors:
            cursor.execute("BEGIN TRANSACTION")
            cursor.execute(f"FROM postgres_query({quoted(database)}, 'SELECT 1')").fetchall()
    finally:
        for cursor in cursors:
            cursor.close()


def _attach_error(attachment: Attachment, problem: duckdb.Error) -> ToolError:
    """The error of a failed attachment, with libpq's message but without the address at its beginning."""
    # DuckDB quotes the whole address before the message of libpq.
    message = str(problem).replace(attachment.address, "…").split("\n\n")[0].rpartition('": ')[2].strip()
    what = "the PostgreSQL database of auth" if attachment.kind == "postgres" else "the catalogue of the lake"
    why = f": {message}" if message else ""
    return ToolError("duckdb.error", f"{what} cannot be attached{why}", retryable=True, code=type(problem).__name__)


_OBJECTS = re.compile(r"Data path (\S+) requires the extension")  # of a lake that was made in an object store
LOCKED = "Could not set lock on file"  # a part of DuckDB's message
# Another process may have the file open for a moment; DuckDB itself does not wait.
LOCK_WAIT_S = 5.0
T = TypeVar("T")

_CONFIG = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "allow_unsigned_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # otherwise SQL could read the variables of this program
}

# The postgres extension fails if persistent secrets are off. So they are on, in a place where nothing can be stored.
_FOR_ATTACHING = {"allow_persistent_secrets": "true", "secret_directory": "/dev/null/secrets"}
# Files that a confined process still reads: the size of its machine, without which DuckDB fails, and system libraries.
_SYSTEM = ("/proc/self/cgroup", "/sys/fs/cgroup", "/etc/ld.so.cache", "/lib", "/lib64", "/usr/lib", "/usr/lib64")


# Objects are read by another process, so these are never used. DuckLake asks for the extension of a store all the same.
_NETWORKS = {
    "httpfs": "S3FileSystem,HTTPFileSystem,HuggingFaceFileSystem",
    "azure": "AzureBlobStorageFileSystem,AzureDfsStorageFileSystem",
}


def locked_connection(call: dict[str, Any], objects: ObjectFiles | None = None) -> Any:
    """A connection for one call, with its configuration locked. It opens `objects` as files."""
    _provide_pytz()
    attached = msgspec.convert(call["attach"], Attachment) if call["attach"] else None
    folders = [*call["folders"], *_folders_of(attached)]
    if attached is not None and attached.opens_files:
        # Before DuckDB starts: threads that run already would not be confined.
        confine_files((sys.prefix, sys.base_prefix, *sys.path, *_SYSTEM), (*folders, "/dev/null"))
    config = _configuration(call, attached)
    connection = retry_while_locked(lambda: duckdb.connect(call["database"] or ":memory:", config=config))
    try:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET temp_directory = {quoted(call.get('spill', ''))}")
        if objects is not None:
            connection.register_filesystem(objects)
        if attached is not None:
            retry_while_locked(lambda: attach(connection, attached, call["threads"]))
            # DuckDB lets a running database only become stricter here. No SQL of the task has run before.
            connection.execute("SET allow_unsigned_extensions = false")
            # Only now: the connections of the attached database are open, and no further one can be made.
            if attached.is_offline:
                forbid_sockets()
        roots = attached.objects.roots if attached is not None and attached.objects is not None else ()
        _lock(connection, (*folders, *roots), call.get("files"))
    except BaseException:
        connection.close()
        raise
    return connection


def _configuration(call: dict[str, Any], attached: Attachment | None) -> dict[str, Any]:
    """The settings that a connection starts with."""
    config: dict[str, Any] = {
        **_CONFIG,
        "memory_limit": f"{call['memory_bytes']}B",
        "threads": str(call["threads"]),
    }
    if call.get("is_ours"):
        # This connection serves several calls. DuckDB's cache identifies a file by its name and a time in seconds, and
        # we write new files under the same name.
        config["enable_external_file_cache"] = "false"
    if attached is not None:
        config |= _FOR_ATTACHING
        if call.get("has_checked_extensions"):
            config["allow_unsigned_extensions"] = "true"
    return config


def _lock(connection: Any, folders: Sequence[str], files: Sequence[str] | None) -> None:
    """Allow these folders and files only, and refuse all further changes of settings."""
    allowed = ", ".join(quoted(folder.rstrip("/") + "/") for folder in folders)
    connection.execute(f"SET allowed_directories = [{allowed}]")
    if files:
        connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, files))}]")
    connection.execute("SET enable_external_access = false")
    # Last: from here on no SQL of the task can undo what was set before.
    connection.execute("SET lock_configuration = true")


def _folders_of(attached: Attachment | None) -> tuple[str, ...]:
    return (attached.objects.folder,) if attached is not None and attached.objects and attached.objects.folder else ()


def retry_while_locked(opened: Callable[[], T]) -> T:
    """Retry for a few seconds while another worker has the file open. Tasks of this worker take turns before that."""
    until = time.monotonic() + LOCK_WAIT_S
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
    """Provide a minimal `pytz`, which DuckDB imports for time zones; ours is always UTC."""
    if "pytz" not in sys.modules:
        module: Any = ModuleType("pytz")
        module.utc = _Utc()
        module.timezone = lambda name: module.utc
        sys.modules["pytz"] = module
