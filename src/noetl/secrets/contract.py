"""Finds what one keychain entry stands for. Built-in kinds and plug-ins keep the same promise (KEY-07).

A resolver runs in the server. It is given where it may look, keeps nothing it finds, and says in its errors what was
looked for and where, never what was found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import ToolError
from noetl.events.secret_materials import Material
from noetl.net.net import KeychainEntry
from noetl.secrets.vault import Vault

UNRESOLVED = "keychain.unresolved"

Post = Callable[[str, dict[str, str], tuple[str, str] | None], Awaitable[tuple[int, Any]]]


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where resolvers may look. Whoever opens the keychain decides."""

    environment: Mapping[str, str]  # only what may be read
    vault: Vault | None
    clock: Clock
    read_file: Callable[[str], str]  # opens only what may be opened
    # Sends a form, with basic credentials when given; gives the status and the parsed body.
    post: Post
    sees_environment: bool = True  # False where the operator has named the variables that may be read


class Resolver(Protocol):
    """One kind of keychain entry. A plug-in names its class under the entry-point group `noetl.keychains`."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        """What the entry stands for now. ToolError `keychain.unresolved` says why there is nothing."""


def unresolved(entry: KeychainEntry, why: str) -> ToolError:
    """The error of an entry that cannot be resolved; it names the entry (KEY-02)."""
    return ToolError(UNRESOLVED, f'keychain entry "{entry.name}" ({entry.kind}): {why}', entry=entry.name)


def word(entry: KeychainEntry, *names: str) -> str | None:
    """The first of these keys that the entry has, as text."""
    for name in names:
        written = entry.lookup.get(name)
        if isinstance(written, str | int) and not isinstance(written, bool) and written != "":
            return str(written)
    return None
