"""Repairs of the structure of a document.

Ways out of a step: a `case` whose rules only lead on, beside a pipeline of v10; modes that stood on the step. The root:
version and kind, identity under `metadata`, options under `executor.spec`, the first step.
"""

from __future__ import annotations

from noetl.base.template_names import expression, template
from noetl.language.grammar.root import API_V10
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, scalars
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.v2_case.port import with_tasks_of_rules

# Names of case rules, as arcs write them. The events of a call are those of the step (docs/conventions.md).
_NAMES = {
    "response": "event.result",
    "result": "event.result",
    "this.data": "event.result",
    "this": "event",
    "error": "event.error",
    "vars": "ctx",
}
_MODES = ("next_mode", "case_mode")


# `next` of v2-case does not follow failures (V2C-15).
_NOT_FAILED = "event.name != 'step.failed'"


def write_arcs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Each rule is an arc, and what `next` says comes after them. Tasks after every success of a pipeline are its last
    ones; other rules that work are left for `case_steps`."""
    node = with_tasks_of_rules(node, rewriting)
    case, after = node.get("case"), node.get("next")
    if not isinstance(case, Sequence) or (isinstance(after, Mapping) and "arcs" in after):
        return node
    arcs = [_arcs_of_rule(rule) for rule in case]
    last = _guarded_targets(after) if after is not None else []
    if any(arc is None for arc in arcs) or last is None:
        return node
    rewriting.note(node.keys["case"], '"case"', "next.arcs")
    written: list[Node] = [arc for rule in arcs if rule is not None for arc in rule]
    written += last
    router = model.made_mapping([("arcs", model.made_list(written, case))], case)
    return model.with_value(model.without_keys(node, "case", "next"), "next", router, node.keys["case"])


def write_conditions(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`next: [{when, then: […]}, {else: […]}]`, or one such mapping with both, as arcs."""
    written = node.get("next")
    items = [written] if isinstance(written, Mapping) else list(written) if isinstance(written, Sequence) else []
    if written is None or not any(isinstance(item, Mapping) and {"then", "else"} & item.keys.keys() for item in items):
        return node
    arcs: list[Node] = []
    for item in items:
        found = _conditional_arcs(item) if isinstance(item, Mapping) else None
        if found is None:
            return node
        arcs += found
    rewriting.note(node.keys["next"], "next with then", "next.arcs")
    return model.with_value(node, "next", model.made_mapping([("arcs", model.made_list(arcs, written))], written))


def _conditional_arcs(item: Mapping) -> list[Mapping] | None:
    """The arcs of one entry; None when it holds more, or forks under a condition, which an exclusive router cannot."""
    if set(item.values) - {"when", "then", "else", "step", "args"}:
        return None
    arcs = []
    for key, when in (("then", item.get("when")), ("else", None)):
        targets = _targets(item.values[key]) if key in item else []
        if targets is None or len(targets) > 1:
            return None
        guard: list[tuple[str, Node]] = [("when", model.with_names(when, _NAMES))] if when is not None else []
        arcs += [model.made_mapping([("step", target), *guard, *_args(given)], target) for target, given in targets]
    if "step" in item:
        arcs.append(item)
    return arcs


def _arcs_of_rule(rule: Node) -> list[Mapping] | None:
    """The arcs of `{when, then: {next}}` or `{else: {next}}`; None when the rule does more than lead on."""
    if not isinstance(rule, Mapping):
        return None
    when, then = rule.get("when"), rule.get("then") if "when" in rule else rule.get("else")
    if isinstance(then, Sequence) and len(then) == 1:
        then = then.items[0]
    if isinstance(then, Mapping) and "then" in then:
        then = then.get("then")
    if not isinstance(then, Mapping) or set(rule.values) - {"when", "then", "else"}:
        return None
    if not {"next"} <= set(then.values) <= {"next", "set"}:
        return None
    targets = _targets(then.values["next"])
    # Several targets fork, which one exclusive arc cannot express.
    if targets is None or len(targets) != 1:
        return None
    ((target, given),) = targets
    entries: list[tuple[str, Node]] = [("step", target)]
    if when is not None:
        entries.append(("when", model.with_names(when, _NAMES)))
    entries += _args(given)
    if "set" in then:
        entries.append(("set_ctx", model.with_names(then.values["set"], _NAMES)))
    return [model.made_mapping(entries, rule)]


def _guarded_targets(node: Node) -> list[Mapping] | None:
    """The arcs of `next`, of which each may have a condition of its own."""
    items = list(node) if isinstance(node, Sequence) else [node]
    arcs: list[Mapping] = []
    for item in items:
        when = item.get("when") if isinstance(item, Mapping) else None
        targets = _targets(model.without_keys(item, "when") if isinstance(item, Mapping) else item)
        inner = expression(when.value) if isinstance(when, Scalar) and isinstance(when.value, str) else None
        if targets is None or (when is not None and inner is None):
            return None
        guard: list[tuple[str, Node]] = []
        if when is not None:
            text = model.made_text(template(f"{_NOT_FAILED} and ({inner})"), when)
            guard.append(("when", model.with_names(text, _NAMES)))
        arcs += [model.made_mapping([("step", target), *guard, *_args(given)], target) for target, given in targets]
    return arcs


def _args(given: Node | None) -> list[tuple[str, Node]]:
    return [("args", model.with_names(given, _NAMES))] if given is not None else []


def _targets(node: Node) -> list[tuple[Scalar, Node | None]] | None:
    """The names that `next` leads to, with their args."""
    match node:
        case Scalar() if isinstance(node.value, str) and "{{" not in node.value:
            return [(node, None)]
        case Mapping() if set(node.values) <= {"step", "args"} and isinstance(node.get("step"), Scalar):
            step = node.values["step"]
            return [(step, node.get("args"))] if isinstance(step, Scalar) else None
        case Mapping() if set(node.values) == {"next"}:
            return _targets(node.values["next"])
        case Sequence():
            found = [_targets(item) for item in node]
            return None if any(one is None for one in found) else [pair for one in found if one for pair in one]
    return None


def move_mode(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The mode of the router, from the step's spec or from the step."""
    spec, router = node.get("spec"), node.get("next")
    for key in _MODES:
        holder = spec if isinstance(spec, Mapping) and key in spec else node
        mode = holder.get(key)
        if mode is None:
            continue
        rewriting.note(holder.keys[key], f'"{key}"', "next.spec.mode")
        # A list has no place for the mode.
        if isinstance(router, Sequence):
            router = model.made_mapping([("arcs", router)], router)
        if holder is node:
            node = model.without_keys(node, key)
        elif isinstance(spec, Mapping):
            spec = model.without_keys(spec, key)
            node = model.with_value(node, "spec", spec) if len(spec) else model.without_keys(node, "spec")
        if isinstance(router, Mapping):
            options = router.get("spec")
            held = options if isinstance(options, Mapping) else model.made_mapping((), mode)
            if "mode" not in held:
                router = model.with_value(router, "spec", model.with_value(held, "mode", _word(mode)))
            node = model.with_value(node, "next", router)
    return node


def _word(mode: Node) -> Node:
    return model.made_text(mode.value, mode) if isinstance(mode, Scalar) else mode


def write_fork(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`next: [a, b]`: names alone are v2-case, where several targets fork (C-09)."""
    names = node.get("next")
    if not isinstance(names, Sequence) or len(names) < 2 or "step" not in node:
        return node
    targets = [name for name in names if isinstance(name, Scalar) and isinstance(name.value, str)]
    if len(targets) != len(names):
        return node
    rewriting.note(node.keys["next"], "next as a list of names", "next: {spec: {mode: inclusive}, arcs: […]}")
    arcs = model.made_list([model.made_mapping([("step", name)], name) for name in targets], names)
    mode = model.made_mapping([("mode", model.made_text("inclusive", names))], names)
    return model.with_value(node, "next", model.made_mapping([("spec", mode), ("arcs", arcs)], names))


# Repairs of the root.

_ABOUT = ("name", "path", "version", "description", "author", "owner", "labels", "tags", "annotations")


def name_version(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`apiVersion` and `kind`, at the beginning; a dialect that metadata named is settled by the version."""
    version, kind = node.get("apiVersion"), node.get("kind")
    first = next(iter(node.keys.values()), None)
    if not (isinstance(version, Scalar) and version.value == API_V10):
        if version is None:
            rewriting.note(first or node, "a playbook without apiVersion", f"apiVersion: {API_V10}")
        node = _with_first_key(node, "apiVersion", API_V10)
    if kind is None:
        rewriting.note(first or node, "a playbook without kind", "kind: Playbook")
        node = _with_first_key(node, "kind", "Playbook")
    metadata = node.get("metadata")
    if isinstance(metadata, Mapping) and "dialect" in metadata:
        node = model.with_value(node, "metadata", model.without_keys(metadata, "dialect"))
    return node


def _with_first_key(node: Mapping, key: str, value: str) -> Mapping:
    """`node` with this value for `key`; a new key goes to the top."""
    place = node.keys.get(key) or next(iter(node.keys.values()), None) or node
    if key in node:
        return model.with_value(node, key, model.made_text(value, node.values[key]))
    keys, values = {key: model.made_text(key, place), **node.keys}, {key: model.made_text(value, place), **node.values}
    return Mapping(keys, values, node.span, node.path, made=True)


def name_workflow(node: Mapping, rewriting: Rewriting) -> Mapping:
    if "steps" in node and "workflow" not in node:
        rewriting.note(node.keys["steps"], '"steps"', '"workflow"')
        node = model.with_key(node, "steps", "workflow")
    return node


def move_identity(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Keys about the playbook itself belong to `metadata`; name and path are derived from each other."""
    for key in _ABOUT:
        metadata = node.get("metadata")
        if key in node and not (isinstance(metadata, Mapping) and key in metadata):
            rewriting.note(node.keys[key], f'"{key}" at the root', f"metadata.{key}")
            node = model.moved_into(node, "metadata", key, key)
    metadata = node.get("metadata")
    if not isinstance(metadata, Mapping):
        return node
    name, path = metadata.get("name"), metadata.get("path")
    if name is None and isinstance(path, Scalar) and path.value:
        rewriting.note(path, "a playbook without metadata.name", "the last part of its path")
        word = model.made_text(str(path.value).rstrip("/").rpartition("/")[2], path)
        return model.with_value(node, "metadata", model.with_value(metadata, "name", word))
    if path is None and isinstance(name, Scalar) and name.value:
        rewriting.note(name, "a playbook without metadata.path", "its name")
        return model.with_value(
            node, "metadata", model.with_value(metadata, "path", model.made_text(str(name.value), name))
        )
    return node


def move_spec(node: Mapping, rewriting: Rewriting) -> Mapping:
    executor, spec = node.get("executor"), node.get("spec")
    if not isinstance(spec, Mapping) or (isinstance(executor, Mapping) and "spec" in executor):
        return node
    rewriting.note(node.keys["spec"], '"spec" at the root', "executor.spec")
    return model.moved_into(node, "executor", "spec", "spec")


def move_vars(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Values that nothing writes are inputs. Where a step writes `vars` too, a person has to say which is meant."""
    values, workload = node.get("vars"), node.get("workload")
    workflow = node.get("workflow")
    if not isinstance(values, Mapping) or _writes_vars(workflow):
        return node
    if isinstance(workload, Mapping) and workload.values.keys() & values.values.keys():
        return node
    rewriting.note(node.keys["vars"], '"vars" at the root', '"workload"')
    held = workload if isinstance(workload, Mapping) else model.made_mapping((), node.keys["vars"])
    for name, key, value in values.items():
        held = model.with_value(held, name, value, key)
    node = model.with_value(model.without_keys(node, "vars"), "workload", held, node.keys["vars"])
    return (
        model.with_value(node, "workflow", model.with_names(workflow, {"vars": "workload"}))
        if workflow is not None
        else node
    )


def _writes_vars(workflow: object) -> bool:
    steps = workflow if isinstance(workflow, Sequence) else ()
    keys = {key for step in steps for key in _keys(step)}
    return bool(keys & {"vars", "set_vars", "case"})


def _keys(node: object) -> set[str]:
    match node:
        case Mapping():
            return set(node.values) | {key for value in node.values.values() for key in _keys(value)}
        case Sequence():
            return {key for item in node for key in _keys(item)}
    return set()


def name_entry(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The first step is the entry, if none is called `start` and no entry is named."""
    workflow, executor = node.get("workflow"), node.get("executor")
    steps = [step for step in workflow if isinstance(step, Mapping)] if isinstance(workflow, Sequence) else []
    names = [name for step in steps if isinstance(name := step.get("step"), Scalar)]
    spec = executor.get("spec") if isinstance(executor, Mapping) else None
    if not names or any(name.value == "start" for name in names):
        return node
    if isinstance(spec, Mapping) and "entry_step" in spec:
        return node
    first = names[0]
    rewriting.note(first, "a playbook without a step start", f"executor.spec.entry_step: {first.value}")
    held = executor if isinstance(executor, Mapping) else model.made_mapping((), node.keys["workflow"])
    options = spec if isinstance(spec, Mapping) else model.made_mapping((), first)
    held = model.with_value(held, "spec", model.with_value(options, "entry_step", model.made_text(first.value, first)))
    if "executor" in node:
        return model.with_value(node, "executor", held)
    return _with_key_before(node, "workflow", "executor", held)


def _with_key_before(node: Mapping, other: str, key: str, value: Mapping) -> Mapping:
    """`node` with one more key in front of another."""
    keys: dict[str, Scalar] = {}
    values: dict[str, Node] = {}
    for name, held in node.values.items():
        if name == other:
            keys[key], values[key] = model.made_text(key, node.keys[other]), value
        keys[name], values[name] = node.keys[name], held
    return Mapping(keys, values, node.span, node.path, made=True)


def add_end(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`end` needs no step in v2-case; in v10 every target is one."""
    workflow = node.get("workflow")
    steps = [step for step in workflow if isinstance(step, Mapping)] if isinstance(workflow, Sequence) else []
    if not isinstance(workflow, Sequence) or not steps or any(_name(step) == "end" for step in steps):
        return node
    if not any(leads_to_end(step) for step in steps):
        return node
    rewriting.note(steps[-1].keys.get("step", steps[-1]), "a way to end without such a step", "step: end")
    end = model.made_mapping([("step", model.made_text("end", steps[-1]))], steps[-1])
    return model.with_value(node, "workflow", model.made_list([*workflow, end], workflow))


def leads_to_end(step: Mapping) -> bool:
    """Whether an exit of the step is written as `end`."""
    ways = [value for key, _, value in step.items() if key in ("next", "case", "timeout")]
    return any(scalar.value == "end" for way in ways for scalar in scalars(way))


def _name(step: Mapping) -> object:
    name = step.get("step")
    return name.value if isinstance(name, Scalar) else None
