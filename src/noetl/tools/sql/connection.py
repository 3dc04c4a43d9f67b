"""Connection: one database and role, as the parent tells it to its child process."""

from __future__ import annotations

from typing import Any

import msgspec


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """One database and role. Shown without its password."""

    dialect: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""
    database: str = ""
    options: dict[str, Any] = {}

    def __str__(self) -> str:
        where = f" at {self.host}" if self.host else ""
        return f'{self.dialect} database "{self.database}"{where}'

    __repr__ = __str__
