"""SQL files: named queries, each under a `-- name:` line, and numbered migrations, each run once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from noetl.base.errors import BackendError

_MARK = "-- name: "


def named_queries(file: Path) -> dict[str, str]:
    named = {}
    for part in file.read_text(encoding="utf-8").split(_MARK)[1:]:
        name, _, statement = part.partition("\n")
        named[name.strip()] = statement.strip()
    return named


# Migrations: numbered .sql files, each run once, in order, and remembered with its checksum.
#
# A store whose migrations this program does not have was written by a newer one and is refused, never touched.


class StoreMigration(msgspec.Struct, frozen=True):
    number: int
    name: str
    statements: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.statements.encode()).hexdigest()


class Applied(msgspec.Struct, frozen=True):
    """Which migrations a store has, by name, and which it still needs."""

    done: list[str]
    missing: list[str]


def applied_of(applied: Sequence[tuple[int, str]], known: list[StoreMigration], where: str) -> Applied:
    missing = pending(applied, known, where)
    return Applied([one.name for one in known[: len(known) - len(missing)]], [one.name for one in missing])


def migrations_in(folder: Path) -> list[StoreMigration]:
    return [
        StoreMigration(int(path.stem.split("_")[0]), path.stem, path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.sql"))
    ]


def pending(applied: Sequence[tuple[int, str]], known: list[StoreMigration], where: str) -> list[StoreMigration]:
    """Those still to run, where numbers and checksums of `applied` are what has run. BackendError when these are not
    ours."""
    if len(applied) > len(known):
        newest = f"it is at migration {applied[-1][0]}, this program knows {len(known)}"
        raise BackendError(f"the store {where} was written by a newer noetl ({newest}): install that version")
    for (number, checksum), migration in zip(applied, known, strict=False):
        if (number, checksum) != (migration.number, migration.checksum):
            raise BackendError(f"the store {where} has another migration {number} than this program")
    return known[len(applied) :]
