"""The root in other words: `steps`, a workflow as a mapping, `inputs`, `credentials`, and keychain entries by name."""

from __future__ import annotations

from noetl.base.diagnostics import Findings
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.spellings.model import EVERYWHERE, Rewriting, Spelling, Where, renames
from noetl.language.reading.spellings.trees import (
    made_list,
    made_mapping,
    made_text,
    moved_into,
    with_items,
    with_value,
)

# What people write at the root about the playbook itself.
_ABOUT = ("version", "description", "author", "owner", "labels", "tags", "annotations")


def _name_sections(node: Mapping, rewriting: Rewriting) -> Mapping:
    kind = node.get("kind")
    if isinstance(kind, Scalar) and isinstance(kind.value, str) and kind.value in ("playbook", "PlayBook", "PLAYBOOK"):
        rewriting.note(kind, f"kind: {kind.value}", "kind: Playbook")
        node = with_value(node, "kind", made_text("Playbook", kind))
    names = {"steps": "workflow"}
    names |= {key: "workload" for key in ("inputs", "parameters") if isinstance(node.get(key), Mapping)}
    names |= {key: "keychain" for key in ("credentials", "secrets") if not isinstance(node.get(key), Scalar)}
    return _list_steps(renames("a playbook", names)(node, rewriting), rewriting)


def with_listed_steps(root: Mapping) -> Mapping:
    """`root` with its steps where every dialect has them, so that their shapes can tell which one it is."""
    quiet = Rewriting(dialect=Dialect.V10, findings=Findings())
    return _list_steps(renames("a playbook", {"steps": "workflow"})(root, quiet), quiet)


def _list_steps(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`workflow: {steps: […]}`, and steps by their names."""
    workflow = node.get("workflow")
    if not isinstance(workflow, Mapping):
        return node
    steps = workflow.get("steps")
    if len(workflow) == 1 and isinstance(steps, Sequence):
        rewriting.note(workflow.keys["steps"], "workflow.steps", "workflow: [{step: …}]")
        return with_value(node, "workflow", steps)
    if not all(isinstance(one, Mapping) and "step" not in one for one in workflow.values.values()) or not len(workflow):
        return node
    rewriting.note(node.keys["workflow"], "workflow as a mapping", "workflow: [{step: …}]")
    listed = [_named("step", key, one) for _, key, one in workflow.items() if isinstance(one, Mapping)]
    return with_value(node, "workflow", made_list(listed, workflow))


def _named(word: str, key: Scalar, entry: Mapping) -> Mapping:
    keys = {word: made_text(word, key), **entry.keys}
    values: dict[str, Node] = {word: made_text(key.value, key), **entry.values}
    return Mapping(keys, values, entry.span, entry.path, made=True)


def _move_about(node: Mapping, rewriting: Rewriting) -> Mapping:
    """What a playbook says about itself, beside its name or its metadata."""
    metadata = node.get("metadata")
    for key in _ABOUT:
        if key in node and not (isinstance(metadata, Mapping) and key in metadata):
            rewriting.note(node.keys[key], f'"{key}" at the root', f"metadata.{key}")
            node = moved_into(node, "metadata", key, key)
    return node


def _name_entries(node: Mapping, rewriting: Rewriting) -> Mapping:
    """An entry of the keychain that is only a name is a stored credential of that name."""
    keychain = node.get("keychain")
    if not isinstance(keychain, Sequence):
        return node
    return with_value(node, "keychain", with_items(keychain, [_entry(one, rewriting) for one in keychain]))


def _entry(node: Node, rewriting: Rewriting) -> Node:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
        rewriting.note(node, "a keychain entry that is a name", "{name: …, kind: credential}")
        return made_mapping([("name", node), ("kind", made_text("credential", node))], node)
    if not isinstance(node, Mapping) or "name" not in node or "kind" in node:
        return node
    if isinstance(node.get("type"), Scalar):
        return renames("a keychain entry", {"type": "kind"})(node, rewriting)
    if set(node.values) <= {"name", "desc", "description"}:
        rewriting.note(node.keys["name"], "a keychain entry without kind", "kind: credential")
        return with_value(node, "kind", made_text("credential", node.keys["name"]))
    return node


SPELLINGS = (
    Spelling(
        id="root-words",
        where=Where.DOCUMENT,
        older="`steps`, `workflow: {steps: […]}`, `workflow: {name: {…}}`; `inputs`, `parameters`; `credentials`",
        canonical="`workflow: [{step: …}]`; `workload`; `keychain`",
        dialects=EVERYWHERE,
        refused_by_v10=True,
        rewrite=_name_sections,
    ),
    Spelling(
        id="root-about",
        where=Where.DOCUMENT,
        older="`description`, `version`, `labels`, `tags`, … at the root",
        canonical="the same under `metadata`",
        dialects=EVERYWHERE,
        refused_by_v10=True,
        rewrite=_move_about,
    ),
    Spelling(
        id="keychain-names",
        where=Where.DOCUMENT,
        older="`keychain: [name]`, `{name: …}` without `kind`, `type` for `kind`",
        canonical="`keychain: [{name: …, kind: credential}]`",
        dialects=EVERYWHERE,
        rewrite=_name_entries,
    ),
)
