"""Permissions: what the operator of a worker lets tools do on its machine (DESIGN §7). Nothing of it by default."""

from __future__ import annotations

import msgspec

# Kinds that run programs of this machine: off until somebody turns them on.
OFF_BY_DEFAULT = frozenset({"shell", "script", "container"})


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """`kinds` that are turned on, the folders of files that tools may open for a playbook, and who stands in for
    which provider of quantum jobs (`ibm=simulator`, QNT-03)."""

    kinds: frozenset[str] = frozenset()
    data_folders: tuple[str, ...] = ()
    quantum_providers: tuple[str, ...] = ()

    def refusal(self, kind: str) -> str | None:
        """Why a kind may not be run here; nothing where it may."""
        if kind not in OFF_BY_DEFAULT or kind in self.kinds:
            return None
        return f'tool kind "{kind}" runs programs of this machine and is off: turn it on with --allow {kind}'
