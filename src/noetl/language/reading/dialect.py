"""Dialect: which one a document is written in, and whether its apiVersion is one we read (DIA-01…05, DOC-04).

In this order: a dialect named by the author, `noetl.io/v10`, strong markers, weak markers, v10. A v10 document is never
taken for an older one. A document with marks of two dialects is of the one that reads all of them (the table of
spellings says which), and is refused rather than guessed at when none does.
"""

from __future__ import annotations

import msgspec

from noetl.base.diagnostics import DiagnosticPosition, Findings
from noetl.language.reading.constructs import Anatomy, dissect
from noetl.language.reading.markers import GUARDED_ENTRY, STRONG, Marker, weak_dialect
from noetl.language.reading.nodes import Mapping, Scalar, describe
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.shared_checks import did_you_mean

API_V2, API_V10 = "noetl.io/v2", "noetl.io/v10"


class Found(msgspec.Struct, frozen=True):
    """A marker and the first place it stands at."""

    marker: Marker
    at: Scalar


def detect(root: Mapping, findings: Findings, override: Dialect | None = None) -> Dialect | None:
    """The dialect of a document; None when it is of two. A bad apiVersion is noted, and the shape decides."""
    api_version = _api_version(root, findings)
    named = override or _named(root, findings)
    if api_version == API_V10:
        if named is not None and named.rules is not Dialect.V10:
            _conflict(root, findings, str(named), by_option=override is not None)
        return named if named is not None and named.rules is Dialect.V10 else _spelling_of_v10(root)
    return named or _by_shape(root, findings)


def _api_version(root: Mapping, findings: Findings) -> str | None:
    node = root.get("apiVersion")
    if isinstance(node, Scalar) and node.value in (API_V2, API_V10):
        return str(node.value)
    must = f"playbooks must use {API_V2} or {API_V10}"
    if node is None:
        first = next(iter(root.keys.values()), None)
        place = DiagnosticPosition("apiVersion", first.span if first is not None else root.span)
        findings.add("E_API_VERSION", place, f"apiVersion is missing; {must}", f"begin with apiVersion: {API_V10}")
        return None
    shown = f'"{node.value}"' if isinstance(node, Scalar) and node.value is not None else describe(node)
    findings.add("E_API_VERSION", node, f"apiVersion is {shown}; {must}", f"write apiVersion: {API_V10}")
    return None


def _named(root: Mapping, findings: Findings) -> Dialect | None:
    """The dialect in `metadata.dialect`."""
    metadata = root.get("metadata")
    node = metadata.get("dialect") if isinstance(metadata, Mapping) else None
    if node is None:
        return None
    words = [dialect.value for dialect in Dialect]
    if isinstance(node, Scalar) and node.value in words:
        return Dialect(str(node.value))
    shown = f'"{node.value}"' if isinstance(node, Scalar) and node.value is not None else describe(node)
    hint = did_you_mean(str(node.value) if isinstance(node, Scalar) else "", words)
    findings.add("E_METADATA", node, f"metadata.dialect must be one of {', '.join(words)}, and this is {shown}", hint)
    return None


def _conflict(root: Mapping, findings: Findings, named: str, *, by_option: bool) -> None:
    who = "--dialect" if by_option else "metadata.dialect"
    findings.add(
        "E_API_VERSION",
        root.values["apiVersion"],
        f'apiVersion {API_V10} is the dialect v10, and {who} says "{named}"',
        f"write apiVersion: {API_V2}, or leave {who} out",
    )


def _by_shape(root: Mapping, findings: Findings) -> Dialect | None:
    parts = dissect(root)
    found = _strong(parts)
    if not found:
        return weak_dialect(parts) or Dialect.V10
    dialects = dict.fromkeys((*(one.marker.dialect for one in found), Dialect.V10))
    for dialect in dialects:
        if all(one.marker.is_read_in(dialect) for one in found):
            return dialect
    _mixed(_firsts(found), findings)
    return None


def _spelling_of_v10(root: Mapping) -> Dialect:
    """v10, or v10-io where one of its own words stands."""
    found = _strong(dissect(root))
    return Dialect.V10_IO if any(one.marker.dialect is Dialect.V10_IO for one in found) else Dialect.V10


def _strong(parts: Anatomy) -> list[Found]:
    """Every marker, in the order of the document."""
    found = [Found(marker, at) for marker in STRONG for at in marker.find(parts)]
    found.sort(key=lambda one: one.at.span.start)
    if any(one.marker.dialect is Dialect.V2_CASE and not one.marker.is_read_in(Dialect.V2_EVAL) for one in found):
        found = [one for one in found if one.marker is not GUARDED_ENTRY]  # E_NEXT_WHEN says it better (V2C-04)
    return found


def _firsts(found: list[Found]) -> list[Found]:
    """The first marker of each dialect that has one. A spelling that others read too stands for its dialect only where
    nothing else does."""
    own = sorted(found, key=lambda one: bool(one.marker.spelling))
    firsts: dict[Dialect, Found] = {}
    for one in own:
        firsts.setdefault(one.marker.dialect, one)
    return sorted(firsts.values(), key=lambda one: one.at.span.start)


def _mixed(found: list[Found], findings: Findings) -> None:
    places = ", ".join(f'"{one.at.path}" is {one.marker.dialect}' for one in found)
    count = "two" if len(found) == 2 else "three"
    first, second = found[0].marker, found[1].marker
    hint = (
        f"in {first.dialect} write {second.instead[first.dialect]} for {second.name}; "
        f"in {second.dialect} write {first.instead[second.dialect]} for {first.name}; "
        "choose one (noetl migrate rewrites an older dialect as v10)"
    )
    findings.add("E_DIALECT_MIXED", found[1].at, f"{count} dialects in one document: {places}", hint)
