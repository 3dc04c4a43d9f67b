"""The executor in other words: `auto`, and keys that the source documents call placeholders."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.spellings.model import EVERYWHERE, Rewriting, Spelling, Where, renames
from noetl.language.reading.spellings.trees import (
    made_list,
    made_mapping,
    made_text,
    moved_into,
    with_key,
    with_value,
    without_keys,
)


def _drop_auto(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`auto` leaves it to the deployment, as saying nothing does."""
    for key in ("kind", "profile"):
        value = node.get(key)
        if isinstance(value, Scalar) and value.value in ("auto", "default"):
            message = f"executor.{key}: {value.value} is what leaving it out means"
            rewriting.findings.add("I_ALIAS", value, message, f"leave {key} out")
            node = without_keys(node, key)
    return node


def _move_timeout(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    for key in ("timeout_s", "timeout"):
        if key in node and not (isinstance(spec, Mapping) and "timeout" in spec):
            rewriting.note(node.keys[key], f"executor.{key}", "executor.spec.timeout")
            node = moved_into(node, "spec", key, "timeout")
        spec = node.get("spec")
        if key == "timeout_s" and isinstance(spec, Mapping) and key in spec and "timeout" not in spec:
            rewriting.note(spec.keys[key], f"executor.spec.{key}", "executor.spec.timeout")
            node = with_value(node, "spec", with_key(spec, key, "timeout"))
    return node


def _move_requires(node: Mapping, rewriting: Rewriting) -> Mapping:
    """What a run needs of its workers is a hint for placement."""
    spec = node.get("spec")
    inside = isinstance(spec, Mapping) and "requires" in spec
    holder = spec if inside else node
    if not isinstance(holder, Mapping) or "requires" not in holder:
        return node
    key, value = holder.keys["requires"], holder.values["requires"]
    outer = spec if isinstance(spec, Mapping) else made_mapping((), key)
    policy = outer.get("policy")
    block = policy if isinstance(policy, Mapping) else made_mapping((), key)
    if "placement" in block:
        return node
    rewriting.note(key, "executor.requires", "executor.spec.policy.placement.requires")
    placement = made_mapping([("requires", value)], value)
    outer = with_value(outer, "policy", with_value(block, "placement", placement))
    return with_value(without_keys(node, "requires"), "spec", without_keys(outer, "requires") if inside else outer)


def _list_keychain(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`keychain` as a mapping from names to entries."""
    block = node.get("keychain")
    if not isinstance(block, Mapping) or not all(isinstance(entry, Mapping) for entry in block.values.values()):
        return node
    rewriting.note(node.keys["keychain"], "keychain as a mapping", "keychain: [{name: …, kind: …}]")
    return with_value(node, "keychain", made_list([_named_entry(block, name) for name in block.values], block))


def _named_entry(block: Mapping, name: str) -> Node:
    entry = block.values[name]
    if not isinstance(entry, Mapping) or "name" in entry:
        return entry
    key = block.keys[name]
    keys = {"name": made_text("name", key), **entry.keys}
    return Mapping(keys, {"name": made_text(name, key), **entry.values}, entry.span, entry.path, made=True)


def _name_static_fields(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`map` of a static entry without a value has nothing to map: it holds the fields themselves."""
    kind = node.get("kind")
    if not (isinstance(kind, Scalar) and kind.value == "static") or "value" in node or "values" in node:
        return node
    return renames("a static keychain entry", {"map": "value"})(node, rewriting)


SPELLINGS = (
    Spelling(
        id="executor-auto",
        where=Where.EXECUTOR,
        older="`executor.profile: auto`",
        canonical="no `executor.kind`",
        dialects=EVERYWHERE,
        rewrite=_drop_auto,
    ),
    Spelling(
        id="executor-timeout",
        where=Where.EXECUTOR,
        older="`executor.timeout_s`",
        canonical="`executor.spec.timeout`",
        dialects=EVERYWHERE,
        rewrite=_move_timeout,
    ),
    Spelling(
        id="executor-requires",
        where=Where.EXECUTOR,
        older="`executor.requires`",
        canonical="`executor.spec.policy.placement.requires`",
        dialects=EVERYWHERE,
        rewrite=_move_requires,
    ),
    Spelling(
        id="keychain-mapping",
        where=Where.DOCUMENT,
        older="`keychain: {name: {kind: …}}`",
        canonical="`keychain: [{name: …, kind: …}]`",
        dialects=EVERYWHERE,
        rewrite=_list_keychain,
    ),
    Spelling(
        id="keychain-static-map",
        where=Where.KEYCHAIN,
        older="`{kind: static, map: {field: …}}`",
        canonical="`{kind: static, value: {field: …}}`",
        dialects=EVERYWHERE,
        rewrite=_name_static_fields,
    ),
)
