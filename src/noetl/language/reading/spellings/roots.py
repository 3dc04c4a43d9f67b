"""Other spellings at the root: `steps`, `inputs`, `credentials`, keychain entries by name; `auto` of the executor."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.diagnostics import Findings
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, data, inner
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.root import ABOUT
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.casing import with_snake_keys
from noetl.language.reading.spellings.model import EVERYWHERE, Rewriting, Spelling, Where, renames
from noetl.language.reading.spellings.next_shapes import read_next
from noetl.language.reading.spellings.tool_words import name_kind, name_tool


def _drop_auto(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`auto` leaves the choice to the deployment, as does a missing key."""
    for key in ("kind", "profile"):
        value = node.get(key)
        if isinstance(value, Scalar) and value.value in ("auto", "default"):
            # The message says only to remove it: there is no replacement.
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
        # Read again, since the key may just have been moved there.
        if key == "timeout_s" and isinstance(spec, Mapping) and key in spec and "timeout" not in spec:
            rewriting.note(spec.keys[key], f"executor.spec.{key}", "executor.spec.timeout")
            node = model.with_value(node, "spec", model.with_key(spec, key, "timeout"))
    return node


def _move_requires(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Requirements of a run on its workers are a hint for placement."""
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
    """The `map` of a static entry without a value cannot be a mapping of names: it holds the fields themselves."""
    kind = node.get("kind")
    if not (isinstance(kind, Scalar) and kind.value == "static") or "value" in node or "values" in node:
        return node
    return renames("a static keychain entry", {"map": "value"})(node, rewriting)


def _name_sections(node: Mapping, rewriting: Rewriting) -> Mapping:
    kind = node.get("kind")
    if isinstance(kind, Scalar) and isinstance(kind.value, str) and kind.value in ("playbook", "PlayBook", "PLAYBOOK"):
        rewriting.note(kind, f"kind: {kind.value}", "kind: Playbook")
        node = model.with_value(node, "kind", model.made_text("Playbook", kind))
    for key in ("inputs", "parameters"):
        node = _give_defaults(node, key, rewriting)
    names = {"steps": "workflow"}
    names |= {key: "workload" for key in ("inputs", "parameters") if isinstance(node.get(key), Mapping)}
    names |= {key: "keychain" for key in ("credentials", "secrets") if not isinstance(node.get(key), Scalar)}
    named = renames("a playbook", names)(node, rewriting)
    for key in ("inputs", "parameters"):
        if key in node and key not in named and not _has_own_name(named, key):
            read = _with_root_read(named, {key: "workload"})
            named = read if isinstance(read, Mapping) else named
    return _list_steps(named, rewriting)


def _with_root_read(node: Node, names: dict[str, str]) -> Node:
    """`{{ inputs.v }}` reads what stands under the root `inputs`, now `workload`."""
    if isinstance(node, Sequence):
        return model.with_items(node, [_with_root_read(one, names) for one in node])
    if not isinstance(node, Mapping):
        return model.with_names(node, names)
    for key, value in node.values.items():
        if key not in _NO_TEMPLATES:
            node = model.with_value(node, key, _with_root_read(value, names))
    return node


_NO_TEMPLATES = frozenset(("workload", "metadata", "code", "script"))
# Keys whose value is a name that templates read, or whose keys are.
_NAMES_OF_THINGS = frozenset(("step", "name", "id", "task", "iterator"))
_NAMES_OF_VALUES = frozenset(("workload", "ctx", "vars", "args", "set", "set_ctx", "set_vars", "with", "inputs"))


def _has_own_name(node: Node, word: str) -> bool:
    """Whether something else of the document may be called `word`: a step, a task, an iterator or a value."""
    if isinstance(node, Sequence):
        return any(_has_own_name(one, word) for one in node)
    for key, _, value in node.items() if isinstance(node, Mapping) else ():
        if key in _NAMES_OF_THINGS and isinstance(value, Scalar) and value.value == word:
            return True
        if key in _NAMES_OF_VALUES and isinstance(value, Mapping) and word in value:
            return True
        if _has_own_name(value, word):
            return True
    return False


# Keys of other systems for an input, besides its name.
_ABOUT_INPUT = frozenset(
    {"name", "id", "key", "type", "default", "defaults", "value", "required", "description", "desc", "title", "label"}
    | {"displayName", "enum", "options", "choices", "values", "format", "min", "max", "pattern", "example", "items"}
)
_NAMING = ("name", "id", "key")
_DEFAULTS = ("default", "defaults", "value")


_TOKEN_FIELDS = frozenset({"client_id", "client_secret", "scope", "audience", "grant_type"})
_SHARED_BY = ("global", "catalog", "local", "shared")
_FORM = "application/x-www-form-urlencoded"


def _name_token_request(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`kind: oauth2` as the request for a token: `endpoint`, and the client in `data`."""
    kind, word = node.get("kind"), next((key for key in ("endpoint", "url") if key in node), None)
    data = next((key for key in ("data", "body", "form") if isinstance(node.get(key), Mapping)), None)
    body = node.get(data) if data is not None else None
    if not (isinstance(kind, Scalar) and kind.value == "oauth2") or word is None or "token_url" in node:
        return node
    if not isinstance(body, Mapping) or not body.values.keys() <= _TOKEN_FIELDS or data is None:
        return node
    # Anything else in the request would be left out.
    fields = {key: value.value for key, value in {**node.values, **body.values}.items() if isinstance(value, Scalar)}
    headers = node.get("headers")
    given = (
        [one.value for one in headers.values.values() if isinstance(one, Scalar)]
        if isinstance(headers, Mapping)
        else []
    )
    if fields.get("method", "POST") != "POST" or fields.get("grant_type", "client_credentials") != "client_credentials":
        return node
    if any(value != _FORM for value in given):
        return node
    rewriting.note(node.keys[word], f'"{word}" and "{data}" of oauth2', "token_url, client_id, client_secret")
    rest = model.without_keys(model.with_key(node, word, "token_url"), data, "method", "headers")
    # Beside a request, `scope` says how far the token is shared; the scope of the token itself is in the request.
    rest = model.without_keys(rest, "scope") if fields.get("scope") in _SHARED_BY else rest
    for key, _, value in body.items():
        rest = rest if key == "grant_type" else model.with_value(rest, key, value)
    return rest


def _give_defaults(node: Mapping, key: str, rewriting: Rewriting) -> Mapping:
    """`inputs: {who: {type: string, default: Ada}}`, and a list of such, as `{who: Ada}`."""
    block = node.get(key)
    entries: list[tuple[str, Scalar, Node]] = []
    if isinstance(block, Mapping):
        entries = list(block.items())
    elif isinstance(block, Sequence):
        for one in block:
            word = next((each for each in _NAMING if isinstance(one, Mapping) and each in one), None)
            name = one.values[word] if word is not None and isinstance(one, Mapping) else one
            if not isinstance(name, Scalar) or not isinstance(name.value, str):
                return node
            entries.append((name.value, name, one if word is not None else model.made_text(None, name)))
    if block is None or not (isinstance(block, Sequence) or any(_is_declaration(held) for _, _, held in entries)):
        return node
    rewriting.note(node.keys[key], f'a declaration under "{key}", of a type that is not checked,', "name: default")
    keys = {name: place if isinstance(block, Mapping) else model.made_text(name, place) for name, place, _ in entries}
    values = {name: _default(held, place, isinstance(block, Sequence)) for name, place, held in entries}
    return model.with_value(node, key, Mapping(keys, values, block.span, block.path, made=True))


def _list_required(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`required: true` of a declared input without a default, among the inputs that every start has to bring."""
    for key in ("inputs", "parameters"):
        node = _with_required(node, key, rewriting)
    return node


def _with_required(node: Mapping, key: str, rewriting: Rewriting) -> Mapping:
    names = [name for name, held in _declared_inputs(node.get(key)) if _is_required(held)]
    spec = inner(node, "executor", "spec")
    executor = node.get("executor")
    if not names or (executor is not None and not isinstance(executor, Mapping)):
        return node
    if isinstance(spec, Mapping) and "required_inputs" in spec:
        return node
    rewriting.note(names[0], f'"required" under "{key}"', "executor.spec.required_inputs: [name]")
    return model.with_path(node, ("executor", "spec", "required_inputs"), model.made_list(names, names[0]), names[0])


def _declared_inputs(block: Node | None) -> Iterator[tuple[Scalar, Mapping]]:
    """Declared inputs with their names."""
    if isinstance(block, Mapping):
        yield from ((name, held) for _, name, held in block.items() if isinstance(held, Mapping))
    for one in block if isinstance(block, Sequence) else ():
        word = next((each for each in _NAMING if isinstance(one, Mapping) and each in one), None)
        name = one.values[word] if word is not None and isinstance(one, Mapping) else None
        if isinstance(one, Mapping) and isinstance(name, Scalar) and isinstance(name.value, str):
            yield name, one


def _is_required(held: Mapping) -> bool:
    flag = held.get("required")
    given = isinstance(flag, Scalar) and flag.value in (True, "true", "True", "yes")
    values = [held.get(word) for word in _DEFAULTS]
    return given and _is_input(held) and not any(one is not None and data(one) is not None for one in values)


def _is_input(held: Mapping) -> bool:
    return bool(held.values.keys() & set(_NAMING)) or _is_declaration(held)


def _is_declaration(node: Node) -> bool:
    """Data may have a key `default` as well; a key for the type or the presence of a value makes a declaration."""
    is_about = isinstance(node, Mapping) and node.values.keys() <= _ABOUT_INPUT
    return is_about and isinstance(node, Mapping) and ("type" in node or "required" in node or "description" in node)


def _default(held: Node, place: Scalar, listed: bool) -> Node:
    if not isinstance(held, Mapping) or not (listed or _is_declaration(held)):
        return held
    return next((held.values[word] for word in _DEFAULTS if word in held), model.made_text(None, place))


def with_listed_steps(root: Mapping) -> Mapping:
    """`root` with its steps where every dialect has them, so that their shapes can tell which one it is."""
    # The notes are dropped: the same rows are applied again, with notes, once the dialect is known.
    quiet = Rewriting(dialect=Dialect.V10, findings=Findings())
    root = _list_steps(renames("a playbook", {"steps": "workflow"})(root, quiet), quiet)
    steps = root.get("workflow")
    if not isinstance(steps, Sequence):
        return root
    listed = [_plain_step(step, quiet) if isinstance(step, Mapping) else step for step in steps]
    return model.with_value(root, "workflow", model.with_items(steps, listed))


def _plain_step(step: Mapping, quiet: Rewriting) -> Mapping:
    step = name_tool(with_snake_keys(step, quiet), quiet)
    tool = step.get("tool")
    if isinstance(tool, Sequence):
        tasks = [name_kind(task, quiet) if isinstance(task, Mapping) else task for task in tool]
        step = model.with_value(step, "tool", model.with_items(tool, tasks))
    # A `next` of no dialect says nothing about which one it is.
    return model.without_keys(step, "next") if read_next(step, quiet) is not step else step


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
    """Keys about the playbook itself, next to its name or its metadata."""
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
    # Before the row that reduces a declaration to its default.
    Spelling(
        id="root-required",
        where=Where.DOCUMENT,
        older="`inputs: {name: {required: true}}` without a default",
        canonical="`executor.spec.required_inputs: [name]`, and `workload: {name: null}`",
        dialects=EVERYWHERE,
        refused_by_v10=True,
        rewrite=_list_required,
    ),
    Spelling(
        id="root-words",
        where=Where.DOCUMENT,
        older="`steps`, `workflow: {steps: […]}`, `workflow: {name: {…}}`; `inputs`, `parameters`, as "
        "`{name: {type, default}}` or `[{name, default}]` too; `credentials`",
        canonical="`workflow: [{step: …}]`; `workload: {name: default}`; `keychain`",
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
        id="keychain-token-request",
        where=Where.KEYCHAIN,
        older="`{kind: oauth2, endpoint: …, data: {grant_type, client_id, client_secret}}`",
        canonical="`{kind: oauth2, token_url: …, client_id: …, client_secret: …}`",
        dialects=EVERYWHERE,
        rewrite=_name_token_request,
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
