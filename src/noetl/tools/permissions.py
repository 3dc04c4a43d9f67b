"""Permissions: what the operator of a worker lets tools do on its machine (design.md §7). Nothing of it by default."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.base.addresses.policy import OPEN, AddressPolicy
from noetl.base.errors import RefusedError

# Kinds that run programs of this machine: off until somebody turns them on.
OFF_BY_DEFAULT = frozenset({"shell", "script", "container"})
# What can be turned on: those, and the part of `mcp` that starts programs.
ALLOWABLE = ("shell", "script", "container", "mcp")


def allowed_kinds(names: Iterable[str]) -> frozenset[str]:
    """The kinds to be turned on. RefusedError for a name that turns on nothing."""
    allowed = frozenset(names)
    if unknown := sorted(allowed - {*ALLOWABLE}):
        raise RefusedError(f'allow: "{unknown[0]}" is not one of {", ".join(ALLOWABLE)}')
    return allowed


def denied_kinds(names: Iterable[str]) -> frozenset[str]:
    """The kinds to be denied. RefusedError for a name that no kind has: whoever mistypes one would allow it."""
    denied = frozenset(names)
    if not denied:
        return denied
    from noetl.tools.kinds import KINDS
    from noetl.tools.registry import BUILT_IN, plugin_kinds

    known = {*KINDS, *BUILT_IN, *plugin_kinds()}
    if unknown := sorted(denied - known):
        raise RefusedError(f'deny: there is no tool kind "{unknown[0]}"; there are {", ".join(sorted(known))}')
    return denied


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of a worker has said."""

    kinds: frozenset[str] = frozenset()  # turned on, of those that are off by default
    denied: frozenset[str] = frozenset()  # turned off, whatever else is said
    data_folders: tuple[str, ...] = ()  # of files that tools may open for a playbook
    provider_stand_ins: tuple[str, ...] = ()  # who stands in for which provider of jobs: `ibm=simulator` (QNT-03)
    sandbox: bool = False  # code of playbooks runs in a sandbox only
    addresses: AddressPolicy = OPEN  # what tools may connect to: all but metadata addresses

    def refusal(self, kind: str) -> str | None:
        """Why a kind may not be run here; nothing where it may."""
        if kind in self.denied:
            return f'tool kind "{kind}" is denied here by the operator (--deny {kind})'
        if kind not in OFF_BY_DEFAULT or kind in self.kinds:
            return None
        return f'tool kind "{kind}" runs programs of this machine and is off: turn it on with --allow {kind}'
