"""The name and path a playbook is known by (DOC-05), and v2-case's older place for them (V2C-01)."""

from __future__ import annotations

import msgspec

from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.numbers import plain_text
from noetl.language.reading.shared_checks import ReadContext, mapping, opening, text
from noetl.language.reading.waits.times import duration


class PlaybookIdentity(msgspec.Struct, frozen=True):
    """`node` is the metadata block; its further keys are kept as they are."""

    name: str
    path: str
    version: str | None
    description: str | None
    node: Mapping | None


def read_identity(root: Mapping, reading: ReadContext, *, lifted: bool) -> PlaybookIdentity:
    """Name and path, empty where they are missing. `lifted`: they may stand at the root instead."""
    hint = "metadata: {name: …, path: …}"
    block = mapping(reading, root.get("metadata"), "E_METADATA", "metadata", hint)
    if block is None and root.get("metadata") is None and not (lifted and ("name" in root or "path" in root)):
        reading.error("E_METADATA", opening(root), "a playbook needs metadata", hint)
        return PlaybookIdentity("", "", None, None, None)
    duration(reading, block.get("retention") if block else None, "metadata.retention")
    return PlaybookIdentity(
        name=_read_name(root, block, reading, "name", lifted),
        path=_read_name(root, block, reading, "path", lifted),
        version=plain_text(reading, block.get("version"), "E_METADATA", "metadata.version") if block else None,
        description=plain_text(reading, block.get("description"), "E_METADATA", "metadata.description")
        if block
        else None,
        node=block,
    )


def _read_name(root: Mapping, block: Mapping | None, reading: ReadContext, key: str, lifted: bool) -> str:
    inner = block.get(key) if block else None
    outer = root.get(key) if lifted else None
    found = text(reading, inner, "E_METADATA", f"metadata.{key}")
    above = text(reading, outer, "E_METADATA", key)
    if found and above and found.value != above.value:
        message = f'metadata.{key} is "{found.value}", and {key} at the root is "{above.value}"'
        reading.error("E_METADATA", found, message, f"keep one of them, metadata.{key}")
    if inner is None and outer is None:
        place = opening(block or root)
        reading.error("E_METADATA", place, f"metadata.{key} is missing", f"metadata: {{{key}: …}}")
    return _value(found or above)


def _value(node: Scalar | None) -> str:
    return str(node.value) if node else ""
