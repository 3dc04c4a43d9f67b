"""Repairs of tasks: how a task runs is said under `spec`."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.reading.spellings.trees import moved_into

KNOBS = ("timeout", "verify_ssl", "follow_redirects", "async", "auth_mode")


def move_knobs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Run-time options beside `kind`, which v10 reads under `spec` alone (SPEC-05)."""
    if "kind" not in node:
        return node
    for key in KNOBS:
        spec = node.get("spec")
        if key in node and not (isinstance(spec, Mapping) and key in spec):
            rewriting.note(node.keys[key], f'"{key}" beside kind', f"spec.{key}")
            node = moved_into(node, "spec", key, key)
    return node
