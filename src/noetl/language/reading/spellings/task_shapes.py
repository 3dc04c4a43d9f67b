"""Steps and tasks in other shapes: `tool: python` with its inputs beside it, `type` for `kind`, `with` for `args`;
a loop as a kind of tool, and what is saved beside the tool."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import (
    EVERYWHERE,
    V2_CASE,
    V2_EVAL,
    V10,
    Rewriting,
    Spelling,
    Where,
    made_list,
    made_mapping,
    renames,
    with_key,
    with_value,
    without_keys,
)

# Inputs of tasks that no step has a key of the same name for.
TASK_INPUTS = frozenset(
    {"kind", "code", "url", "endpoint", "method", "headers", "params", "payload", "json", "body", "form", "data"}
    | {"command", "commands", "query", "database", "table", "auth", "credential", "libs", "script", "cmds"}
    | {"path", "task", "provider"}
)
_ARGS_WORDS = dict.fromkeys(("with", "inputs"), "args")


def _name_step(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step named by `name` or `id`, and its arguments under another word."""
    if "step" not in node:
        for key in ("name", "id"):
            if key in node and "step" not in node:
                rewriting.note(node.keys[key], f'"{key}" of a step', '"step"')
                node = with_key(node, key, "step")
    return _name_args(node, rewriting)


def _name_args(node: Mapping, rewriting: Rewriting) -> Mapping:
    words = {key: new for key, new in _ARGS_WORDS.items() if isinstance(node.get(key), Mapping)}
    return renames("a step or task", words)(node, rewriting)


def _gather_tool(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`tool: python`, `type: python` or `kind: python` on a step, with the inputs of the task beside it."""
    word = next((key for key in ("tool", "type", "kind") if key in node), None)
    kind = node.get(word) if word is not None else None
    if word is None or not isinstance(kind, Scalar) or not isinstance(kind.value, str) or not kind.value.strip():
        return node
    moved = [key for key in node.values if key in TASK_INPUTS and key != "kind"]
    rewriting.note(node.keys[word], f'"{word}: {kind.value}" on a step', f"tool: {{kind: {kind.value}, …}}")
    tool = made_mapping([("kind", kind)], kind)
    for key in moved:
        tool = with_value(tool, key, node.values[key], node.keys[key])
    return with_value(without_keys(node, word, *moved), "tool", tool, node.keys[word])


def _list_labels(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`tool` as a mapping from labels to tasks."""
    tool = node.get("tool")
    if not isinstance(tool, Mapping) or "kind" in tool or not all(_is_task(one) for one in tool.values.values()):
        return node
    rewriting.note(node.keys["tool"], "tool as a mapping of tasks", "a list of tasks")
    items = [Mapping({label: key}, {label: task}, task.span, task.path, made=True) for label, key, task in tool.items()]
    return with_value(node, "tool", made_list(items, tool))


def _is_task(node: Node) -> bool:
    return isinstance(node, Mapping) and isinstance(node.get("kind"), Scalar)


def _flatten_task(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A task whose kind stands under `type`, or with its inputs under a `tool` of its own."""
    if "kind" in node:
        return _name_args(node, rewriting)
    inner = node.get("tool") if rewriting.dialect is not V2_CASE else None  # which writes tasks of rules so
    if (
        isinstance(inner, Mapping)
        and "kind" in inner
        and not inner.values.keys() & without_keys(node, "tool").keys.keys()
    ):
        rewriting.note(node.keys["tool"], '"tool" within a task', "its keys themselves")
        rest = without_keys(node, "tool")
        return Mapping({**rest.keys, **inner.keys}, {**rest.values, **inner.values}, node.span, node.path, made=True)
    if isinstance(node.get("type"), Scalar):
        return _name_args(renames("a task", {"type": "kind"})(node, rewriting), rewriting)
    if len(node) == 1:
        ((label, _, held),) = node.items()
        if isinstance(held, Mapping):
            return with_value(node, label, _flatten_task(held, rewriting)) if label != "tool" else node
    return node


_COLLECTIONS = ("in", "collection", "items", "over", "each")
_OF_LOOP = (
    *_COLLECTIONS,
    *("iterator", "element", "as", "var", "item"),
    *("mode", "spec", "concurrency", "max_in_flight", "batch_size", "parallel", "until"),
)
_LOOP_WORDS = {"collection": "in", "element": "iterator"}
_BODIES = ("task", "tool", "tasks")
_STORES = ("storage", "type")  # other words for the kind of what is saved to
_SAVED = ("args", "data", "payload", "with", "desc")


def _read_iterator(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`tool: {kind: iterator, in, iterator, task}` as a loop of the step around that task."""
    tool = node.get("tool")
    if isinstance(tool, Sequence) and len(tool) == 1:
        tool = tool.items[0]
    kind = tool.get("kind") if isinstance(tool, Mapping) else None
    if not isinstance(tool, Mapping) or not isinstance(kind, Scalar) or kind.value != "iterator" or "loop" in node:
        return node
    bodies = [key for key in _BODIES if isinstance(tool.get(key), Mapping | Sequence)]
    rest = set(tool.values) - {"kind", "name", "desc", *_OF_LOOP, *bodies}
    if len(bodies) != 1 or rest or not any(key in tool for key in _COLLECTIONS):
        return node
    rewriting.note(kind, "kind: iterator", "loop: {in: …, iterator: …} of the step, with its task as tool")
    loop: list[tuple[str, Node]] = [
        (_LOOP_WORDS.get(key, key), value) for key, value in tool.values.items() if key in _OF_LOOP
    ]
    node = with_value(node, "loop", made_mapping(loop, tool), kind)
    return with_value(node, "tool", tool.values[bodies[0]])


def _read_save(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`save: {storage: postgres, table, data}` as the sink it is."""
    save = node.get("save")
    if not isinstance(save, Mapping) or "sink" in node:
        return node
    word = next((key for key in _STORES if key in save), "kind")
    store = save.get(word)
    held = store if isinstance(store, Mapping) else save.get("tool")
    if isinstance(held, Mapping) and "kind" in held:  # {storage: {kind, auth, table}, data}
        written = with_key(save, word, "tool") if held is store else save
    elif isinstance(store, Scalar) and isinstance(store.value, str):
        flat = with_key(save, word, "kind") if word != "kind" else save
        outside: list[tuple[str, Node]] = [(key, flat.values[key]) for key in flat.values if key in _SAVED]
        inside = without_keys(flat, *(key for key, _ in outside))
        written = made_mapping([("tool", inside), *outside], save)
    else:
        return node
    rewriting.note(node.keys["save"], '"save" of a step', '"sink"')
    return with_value(with_key(node, "save", "sink"), "sink", written)


SPELLINGS = (
    Spelling(
        id="step-iterator",
        where=Where.STEP,
        older="`tool: {kind: iterator, in, iterator, task: {kind: …}}`",
        canonical="`loop: {in, iterator}` beside `tool: {kind: …}`",
        dialects=EVERYWHERE,
        refused_by_v10=True,
        rewrite=_read_iterator,
    ),
    Spelling(
        id="step-save",
        where=Where.STEP,
        older="`save: {storage: postgres, table, data}` of a step",
        canonical="a task that stores",
        dialects=(V2_CASE,),
        rewrite=_read_save,
    ),
    Spelling(
        id="step-name",
        where=Where.STEP,
        older="`name` or `id` of a step; `with`, `inputs` for its `args`",
        canonical="`step`, `args`",
        dialects=EVERYWHERE,
        rewrite=_name_step,
    ),
    Spelling(
        id="step-tool-word",
        where=Where.STEP,
        older="`tool: python`, `type: python` on a step, its inputs beside it",
        canonical="`tool: {kind: python, …}`",
        dialects=EVERYWHERE,
        rewrite=_gather_tool,
    ),
    Spelling(
        id="tool-labels",
        where=Where.STEP,
        older="`tool: {label: {kind: …}, …}`",
        canonical="`tool: [{name: label, kind: …}, …]`",
        dialects=(V10, V2_EVAL),
        refused_by_v10=True,
        rewrite=_list_labels,
    ),
    Spelling(
        id="task-shape",
        where=Where.TASK,
        older="`type` for `kind`, `tool: {kind: …}` within a task, `with` or `inputs` for `args`",
        canonical="`{name, kind, args, …}`",
        dialects=EVERYWHERE,
        rewrite=_flatten_task,
    ),
)
