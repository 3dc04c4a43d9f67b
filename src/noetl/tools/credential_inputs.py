"""Credential inputs: which inputs of a kind name credentials, as the kind itself declares (reliability.md §2.2)."""

from __future__ import annotations

from noetl.tools.registry import BUILT_IN


def credential_inputs(kind: str) -> tuple[str, ...] | None:
    """None for a built-in kind, whose places are known; none of them where a plug-in's kind does not say."""
    if kind in BUILT_IN:
        return None
    from noetl.tools.kinds import load_kinds  # looks for installed packages, and most playbooks need none

    found = load_kinds().get(kind)
    return tuple(one.name for one in found.inputs if one.credential) if found is not None else ()
