"""The root in other words: `steps`, `inputs`, `credentials`, keychain entries by name; `auto` of the executor."""

from __future__ import annotations

from noetl.base.diagnostics import Findings
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.root import ABOUT
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import EVERYWHERE, Rewriting, Spelling, Where, renames


def _drop_auto(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`auto` leaves it to the deployment, as saying nothing does."""
    for key in ("kind", "profile"):
        value = node.get(key)
        if isinstance(value, Scalar) and value.value in ("auto", "default"):
            # Words of its own: there is nothing to write instead.
            message = f"executor.{key}: {value.value} is what leaving it out means"
            rewriting.findings.add("I_ALIAS", value, message, f"leave {key} out")
            node = model.without_keys(node, key)
    return node


def _move_timeout(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    for key in ("timeout_s", "timeout"):
        if key in node and not (isinstance(spec, Mapping) and "timeout" in spec):
            rewriting.note(node.keys[key], f"executor.{key}", "executor.spec.timeout")
            node = model.moved_into(node, "spec", key, "timeout")
        spec = node.get("spec")
        # Looked at again, as the key may just have been moved there.
        if key == "timeout_s" and isinstance(spec, Mapping) and key in spec and "timeout" not in spec:
            rewriting.note(spec.keys[key], f"executor.spec.{key}", "executor.spec.timeout")
            node = model.with_value(node, "spec", model.with_key(spec, key, "timeout"))
    return node


def _move_requires(node: Mapping, rewriting: Rewriting) -> Mapping:
    """What a run needs of its workers is a hint for placement."""
    spec = node.get("spec")
    inside = isinstance(spec, Mapping) and "requires" in spec
    holder = spec if inside else node
    if not isinstance(holder, Mapping) or "requires" not in holder:
        return node
    key, value = holder.keys["requires"], holder.values["requires"]
    outer = spec if isinstance(spec, Mapping) else model.made_mapping((), key)
    policy = outer.get("policy")
    if isinstance(policy, Mapping) and "placement" in policy:
        return node
    rewriting.note(key, "executor.requires", "executor.spec.policy.placement.requires")
    placement = model.made_mapping([("requires", value)], value)
    outer = model.with_path(outer, ("policy", "placement"), placement, key)
    return model.with_value(model.without_keys(node, "requires"), "spec", model.without_keys(outer, "requires"))


def _list_keychain(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`keychain` as a mapping from names to entries."""
    block = node.get("keychain")
    if not isinstance(block, Mapping) or not all(isinstance(entry, Mapping) for entry in block.values.values()):
        return node
    rewriting.note(node.keys["keychain"], "keychain as a mapping", "keychain: [{name: …, kind: …}]")
    return model.with_value(
        node, "keychain", model.made_list([_named_entry(block, name) for name in block.values], block)
    )


def _named_entry(block: Mapping, name: str) -> Node:
    entry = block.values[name]
    if not isinstance(entry, Mapping) or "name" in entry:
        return entry
    return _named("name", block.keys[name], entry)


def _name_static_fields(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`map` of a static entry without a value has nothing to map: it holds the fields themselves."""
    kind = node.get("kind")
    if not (isinstance(kind, Scalar) and kind.value == "static") or "value" in node or "values" in node:
        return node
    return renames("a static keychain entry", {"map": "value"})(node, rewriting)


def _name_sections(node: Mapping, rewriting: Rewriting) -> Mapping:
    kind = node.get("kind")
    if isinstance(kind, Scalar) and isinstance(kind.value, str) and kind.value in ("playbook", "PlayBook", "PLAYBOOK"):
        rewriting.note(kind, f"kind: {kind.value}", "kind: Playbook")
        node = model.with_value(node, "kind", model.made_text("Playbook", kind))
    names = {"steps": "workflow"}
    names |= {key: "workload" for key in ("inputs", "parameters") if isinstance(node.get(key), Mapping)}
    names |= {key: "keychain" for key in ("credentials", "secrets") if not isinstance(node.get(key), Scalar)}
    return _list_steps(renames("a playbook", names)(node, rewriting), rewriting)


def with_listed_steps(root: Mapping) -> Mapping:
    """`root` with its steps where every dialect has them, so that their shapes can tell which one it is."""
    # Notes go nowhere: the same rows are applied again, with notes, once the dialect is known.
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
        return model.with_value(node, "workflow", steps)
    if not all(isinstance(one, Mapping) and "step" not in one for one in workflow.values.values()) or not len(workflow):
        return node
    rewriting.note(node.keys["workflow"], "workflow as a mapping", "workflow: [{step: …}]")
    listed = [_named("step", key, one) for _, key, one in workflow.items() if isinstance(one, Mapping)]
    return model.with_value(node, "workflow", model.made_list(listed, workflow))


def _named(word: str, key: Scalar, entry: Mapping) -> Mapping:
    keys = {word: model.made_text(word, key), **entry.keys}
    values: dict[str, Node] = {word: model.made_text(key.value, key), **entry.values}
    return Mapping(keys, values, entry.span, entry.path, made=True)


def _move_about(node: Mapping, rewriting: Rewriting) -> Mapping:
    """What a playbook says about itself, beside its name or its metadata."""
    metadata = node.get("metadata")
    for key in ABOUT:
        if key in node and not (isinstance(metadata, Mapping) and key in metadata):
            rewriting.note(node.keys[key], f'"{key}" at the root', f"metadata.{key}")
            node = model.moved_into(node, "metadata", key, key)
    return node


def _name_entries(node: Mapping, rewriting: Rewriting) -> Mapping:
    """An entry of the keychain that is only a name is a stored credential of that name."""
    keychain = node.get("keychain")
    if not isinstance(keychain, Sequence):
        return node
    return model.with_value(node, "keychain", model.with_items(keychain, [_entry(one, rewriting) for one in keychain]))


def _entry(node: Node, rewriting: Rewriting) -> Node:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
        rewriting.note(node, "a keychain entry that is a name", "{name: …, kind: credential}")
        return model.made_mapping([("name", node), ("kind", model.made_text("credential", node))], node)
    if not isinstance(node, Mapping) or "name" not in node or "kind" in node:
        return node
    if isinstance(node.get("type"), Scalar):
        return renames("a keychain entry", {"type": "kind"})(node, rewriting)
    if set(node.values) <= {"name", "desc", "description"}:
        rewriting.note(node.keys["name"], "a keychain entry without kind", "kind: credential")
        return model.with_value(node, "kind", model.made_text("credential", node.keys["name"]))
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
