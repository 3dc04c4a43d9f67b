"""Repairs of the root: version and kind, identity under `metadata`, options under `executor.spec`, the first step."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, scalars
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting

API_VERSION = "noetl.io/v10"
_ABOUT = ("name", "path", "version", "description", "author", "owner", "labels", "tags", "annotations")


def name_version(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`apiVersion` and `kind`, at the beginning; a dialect that metadata named is settled by the version."""
    version, kind = node.get("apiVersion"), node.get("kind")
    first = next(iter(node.keys.values()), None)
    if not (isinstance(version, Scalar) and version.value == API_VERSION):
        if version is None:
            rewriting.note(first or node, "a playbook without apiVersion", f"apiVersion: {API_VERSION}")
        node = _first(node, "apiVersion", API_VERSION)
    if kind is None:
        rewriting.note(first or node, "a playbook without kind", "kind: Playbook")
        node = _first(node, "kind", "Playbook")
    metadata = node.get("metadata")
    if isinstance(metadata, Mapping) and "dialect" in metadata:
        node = model.with_value(node, "metadata", model.without_keys(metadata, "dialect"))
    return node


def _first(node: Mapping, key: str, value: str) -> Mapping:
    """`node` with this value for `key`; a new key stands at the top."""
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
    """What a playbook says about itself belongs to `metadata`; of name and path, one gives the other."""
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
    """The first step begins, where none is called `start` and nothing else is said."""
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
    return _before(node, "workflow", "executor", held)


def _before(node: Mapping, other: str, key: str, value: Mapping) -> Mapping:
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
    """Whether a way out of the step is written as `end`."""
    ways = [value for key, _, value in step.items() if key in ("next", "case", "timeout")]
    return any(scalar.value == "end" for way in ways for scalar in scalars(way))


def _name(step: Mapping) -> object:
    name = step.get("step")
    return name.value if isinstance(name, Scalar) else None
