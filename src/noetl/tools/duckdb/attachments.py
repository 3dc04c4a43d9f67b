"""Attachments: databases and lakes that the child attaches before it runs SQL, as requested by the worker."""

from __future__ import annotations

from typing import Literal

import msgspec


class ObjectFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A bucket that another process serves on a Unix socket (`tools.storage.file_service`)."""

    socket: str
    schemes: tuple[str, ...]  # of the URLs of its objects
    roots: tuple[str, ...]  # the schemes of those URLs
    # Paths below this folder belong to the bucket too: FOLDER/s3://bucket/key. Tables of Delta are read through them.
    folder: str = ""


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A PostgreSQL database, a file of SQLite, or a lake whose catalogue is a file of DuckDB (`store` is empty) or of
    SQLite, or a PostgreSQL database; `iceberg` and `delta` attach nothing, and let SQL read such tables. `address` is a
    path, or what libpq reads, without the password. `options` are of ATTACH; `views` are queries of ours, by name, for
    the SQL of the playbook to read. `objects` is where the files of a lake are, if not in data folders."""

    kind: Literal["postgres", "sqlite", "ducklake", "iceberg", "delta"]
    address: str = ""
    store: Literal["", "sqlite", "postgres"] = ""
    password: str = ""
    options: dict[str, str | int | bool] = {}
    views: dict[str, str] = {}
    objects: ObjectFolder | None = None

    @property
    def file(self) -> str | None:
        """A file that one process at a time may have open."""
        return self.address if self.kind == "ducklake" and not self.store else None

    @property
    def connects(self) -> bool:
        return "postgres" in (self.kind, self.store)

    @property
    def opens_files(self) -> bool:
        """Whether its extension opens files without the checks of DuckDB."""
        return self.kind in ("sqlite", "delta") or self.store == "sqlite"

    @property
    def is_offline(self) -> bool:
        """Whether no connection may be opened after it is attached: its extension has a network stack of its own."""
        return self.connects or self.kind == "delta" or self.objects is not None
