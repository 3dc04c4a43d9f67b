"""Steps and tasks in other shapes, and steps that name the one before them.

Shapes: `tool: python` with its inputs beside it, `type` for `kind`, `with` for `args`; a loop as a kind of tool, and
what is saved beside the tool. Dependencies: a workflow in which every step names its predecessor, and none names its
successor. A step that waits for several others is left as it is: what a join does when one of them ends early is for
its author to say.
"""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, inner
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where

_START = "start"
_WORDS = ("depends_on", "needs", "after")
_LEADING = ("next", "case", "arcs", "transitions", "on_success", "on_failure", "on_error", *_WORDS)


def _turn_round(node: Mapping, rewriting: Rewriting) -> Mapping:
    workflow = node.get("workflow")
    steps = [step for step in workflow if isinstance(step, Mapping)] if isinstance(workflow, Sequence) else []
    before = {str(name.value): _predecessor(step) for step in steps if (name := _name(step)) is not None}
    if not isinstance(workflow, Sequence) or len(before) != len(workflow) or not _is_tree(before):
        return node
    if any(key in step for step in steps for key in _LEADING if key not in _WORDS):
        return node
    after: dict[str, list[Scalar]] = {}
    for step in steps:
        name, word = _name(step), _word(step)
        if word is not None and name is not None:
            rewriting.note(step.keys[word], f'"{word}" of a step', "next of the step before it")
            after.setdefault(before[str(name.value)] or "", []).append(name)
    turned = [_leading(step, after, rewriting) for step in steps]
    node = model.with_value(node, "workflow", model.with_items(workflow, turned))
    return _with_entry(node, next(step for step in steps if _word(step) is None), rewriting)


def _with_entry(node: Mapping, first: Mapping, rewriting: Rewriting) -> Mapping:
    """A first step of another name than `start` is where the playbook begins, if nothing else says so."""
    workflow, executor = node.get("workflow"), node.get("executor")
    steps = [step for step in workflow if isinstance(step, Mapping)] if isinstance(workflow, Sequence) else []
    names = {str(name.value) for step in steps if (name := _name(step)) is not None}
    is_other = executor is not None and not isinstance(executor, Mapping)
    if _START in names or is_other or inner(node, "executor", "spec", "entry_step") is not None:
        return node
    name = _name(first)
    assert name is not None
    rewriting.note(name, "the one step without dependencies", "executor.spec.entry_step")
    return model.with_path(node, ("executor", "spec", "entry_step"), name, name)


def _name(step: Mapping) -> Scalar | None:
    """The name of a step, also under the words of other systems, which are read as `step` later."""
    named = (step.get(key) for key in ("step", "name", "id") if key in step)
    return next((name for name in named if isinstance(name, Scalar) and isinstance(name.value, str)), None)


def _word(step: Mapping) -> str | None:
    return next((key for key in _WORDS if key in step), None)


def _predecessor(step: Mapping) -> str | None:
    """The predecessor of the step; "" if it is not a single name, None if the step names none."""
    word = _word(step)
    given = step.get(word) if word is not None else None
    if isinstance(given, Sequence) and len(given) == 1:
        given = given.items[0]
    if word is None:
        return None
    return given.value if isinstance(given, Scalar) and isinstance(given.value, str) else ""


def _is_tree(before: dict[str, str | None]) -> bool:
    """Whether all steps follow from one first step, and at least one names a predecessor."""
    if len(before) < 2 or list(before.values()).count(None) != 1:
        return False
    for name in before:
        at: str | None = name
        # Each round settles at least one step, so more rounds than steps means a cycle.
        for _ in before:
            at = before.get(at, "") if at is not None else None
        if at is not None:
            return False
    return True


def _leading(step: Mapping, after: dict[str, list[Scalar]], rewriting: Rewriting) -> Mapping:
    name = _name(step)
    targets = after.get(str(name.value), []) if name is not None else []
    step = model.without_keys(step, *(key for key in _WORDS if key in step)) if _word(step) is not None else step
    if not targets:
        return step
    arcs: Node = model.made_list([model.made_mapping([("step", target)], target) for target in targets], targets[0])
    if rewriting.dialect is model.V2_CASE:
        return model.with_value(step, "next", arcs)
    router: list[tuple[str, Node]] = [("arcs", arcs)]
    mode = model.made_text("inclusive", targets[0])
    if rewriting.dialect.rules is model.V10:
        spec = [("spec", model.made_mapping([("mode", mode)], targets[0]))] if len(targets) > 1 else []
        return model.with_value(step, "next", model.made_mapping([*spec, *router], targets[0]))
    if len(targets) > 1:
        held = step.get("spec")
        block = held if isinstance(held, Mapping) else model.made_mapping((), targets[0])
        step = model.with_value(step, "spec", model.with_value(block, "next_mode", mode))
    return model.with_value(step, "next", arcs)


DEPENDENCY_SPELLINGS = (
    Spelling(
        id="step-depends-on",
        where=Where.DOCUMENT,
        older="`depends_on: [name]` of steps, none of which has `next`; the first one called otherwise than `start`",
        canonical="`next: {arcs: [{step: …}]}` of the step before; `executor.spec.entry_step: name`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=_turn_round,
    ),
)


# Inputs of tasks that no step has a key of the same name for.
TASK_INPUTS = frozenset(
    {"kind", "code", "url", "endpoint", "method", "headers", "params", "payload", "json", "body", "form", "data"}
    | {"command", "commands", "query", "database", "table", "auth", "credential", "libs", "script", "cmds"}
    | {"path", "task", "provider", "return_step", "version", "playbook", "secret", "entry"}
    | {"sql", "statement", "statements", "rows", "row", "values", "key", "keys", "conflict_columns", "tables", "schema"}
    | {"op", "operation", "source", "target", "format", "uri", "bucket", "object", "ref", "reference", "value"}
    | {"to", "from", "subject", "text", "html", "cc", "topic", "queue", "stream", "server", "model", "prompt", "system"}
    | {"cmd", "cwd", "env", "stdin", "image", "connection", "credentials", "circuit", "shots", "backend", "job_id"}
)
# Kinds whose tasks name what they refer to by `name`, beside the name of the step.
_NAMING = ("workbook", "secrets")
_ARGS_WORDS = dict.fromkeys(("with", "inputs"), "args")


def _name_step(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step named by `name` or `id`, and its arguments under another word."""
    if "step" not in node:
        for key in ("name", "id"):
            if key in node and "step" not in node:
                rewriting.note(node.keys[key], f'"{key}" of a step', '"step"')
                node = model.with_key(node, key, "step")
    return _name_args(node, rewriting)


def _name_args(node: Mapping, rewriting: Rewriting) -> Mapping:
    words = {key: new for key, new in _ARGS_WORDS.items() if isinstance(node.get(key), Mapping)}
    return model.renames("a step or task", words)(node, rewriting)


def _gather_tool(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`tool: python`, `type: python` or `kind: python` on a step, with the inputs of the task beside it."""
    word = next((key for key in ("tool", "type", "kind") if key in node), None)
    kind = node.get(word) if word is not None else None
    if word is None or not isinstance(kind, Scalar) or not isinstance(kind.value, str) or not kind.value.strip():
        return node
    names = {"name"} if "step" in node and kind.value in _NAMING else set()
    moved = [key for key in node.values if key in TASK_INPUTS | names and key != "kind"]
    rewriting.note(node.keys[word], f'"{word}: {kind.value}" on a step', f"tool: {{kind: {kind.value}, …}}")
    tool = model.made_mapping([("kind", kind)], kind)
    for key in moved:
        tool = model.with_value(tool, key, node.values[key], node.keys[key])
    return model.with_value(model.without_keys(node, word, *moved), "tool", tool, node.keys[word])


def _list_labels(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`tool` as a mapping from labels to tasks."""
    tool = node.get("tool")
    if not isinstance(tool, Mapping) or "kind" in tool or not all(_is_task(one) for one in tool.values.values()):
        return node
    rewriting.note(node.keys["tool"], "tool as a mapping of tasks", "a list of tasks")
    items = [Mapping({label: key}, {label: task}, task.span, task.path, made=True) for label, key, task in tool.items()]
    return model.with_value(node, "tool", model.made_list(items, tool))


def _is_task(node: Node) -> bool:
    return isinstance(node, Mapping) and isinstance(node.get("kind"), Scalar)


def _flatten_task(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A task whose kind stands under `type`, or with its inputs under a `tool` of its own."""
    if "kind" in node:
        return _name_args(_name_task(node, rewriting), rewriting)
    # v2-case writes the tasks of rules this way.
    inner = node.get("tool") if rewriting.dialect is not model.V2_CASE else None
    if (
        isinstance(inner, Mapping)
        and "kind" in inner
        and not inner.values.keys() & model.without_keys(node, "tool").keys.keys()
    ):
        rewriting.note(node.keys["tool"], '"tool" within a task', "its keys themselves")
        rest = model.without_keys(node, "tool")
        return model.merged(rest, inner, node)
    if isinstance(node.get("type"), Scalar):
        return _name_args(model.renames("a task", {"type": "kind"})(node, rewriting), rewriting)
    if len(node) == 1:
        ((label, _, held),) = node.items()
        if isinstance(held, Mapping):
            return model.with_value(node, label, _flatten_task(held, rewriting)) if label != "tool" else node
    return node


def _name_task(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`id`, `label` or `task` of a task whose kind has no input of that name."""
    kind = node.get("kind")
    if "name" in node or not isinstance(kind, Scalar) or kind.value in _OPEN_KINDS:
        return node
    words = [key for key in ("id", "label", "task") if isinstance(held := node.get(key), Scalar) and held.value]
    return model.renames("a task", {words[0]: "name"})(node, rewriting) if words else node


_OPEN_KINDS = ("workbook", "log", "secrets")
_COLLECTIONS = ("in", "collection", "items", "over", "each")
_OF_LOOP = (
    *_COLLECTIONS,
    *("iterator", "element", "as", "var", "item"),
    *("mode", "spec", "concurrency", "max_in_flight", "batch_size", "parallel", "until"),
)
_LOOP_WORDS = {"collection": "in", "element": "iterator"}
_BODIES = ("task", "tool", "tasks")
# Other keys for the kind of the store.
_STORES = ("storage", "type")
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
    node = model.with_value(node, "loop", model.made_mapping(loop, tool), kind)
    return model.with_value(node, "tool", tool.values[bodies[0]])


def _read_save(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`save: {storage: postgres, table, data}` as the sink it is."""
    save = node.get("save")
    if not isinstance(save, Mapping) or "sink" in node:
        return node
    word = next((key for key in _STORES if key in save), "kind")
    store = save.get(word)
    held = store if isinstance(store, Mapping) else save.get("tool")
    # The form {storage: {kind, auth, table}, data}.
    if isinstance(held, Mapping) and "kind" in held:
        written = model.with_key(save, word, "tool") if held is store else save
    elif isinstance(store, Scalar) and isinstance(store.value, str):
        flat = model.with_key(save, word, "kind") if word != "kind" else save
        outside: list[tuple[str, Node]] = [(key, flat.values[key]) for key in flat.values if key in _SAVED]
        inside = model.without_keys(flat, *(key for key, _ in outside))
        written = model.made_mapping([("tool", inside), *outside], save)
    else:
        return node
    rewriting.note(node.keys["save"], '"save" of a step', '"sink"')
    return model.with_value(model.with_key(node, "save", "sink"), "sink", written)


SPELLINGS = (
    Spelling(
        id="step-iterator",
        where=Where.STEP,
        older="`tool: {kind: iterator, in, iterator, task: {kind: …}}`",
        canonical="`loop: {in, iterator}` beside `tool: {kind: …}`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=_read_iterator,
    ),
    Spelling(
        id="step-save",
        where=Where.STEP,
        older="`save: {storage: postgres, table, data}` of a step",
        canonical="a task that stores",
        dialects=(model.V2_CASE,),
        rewrite=_read_save,
    ),
    Spelling(
        id="step-name",
        where=Where.STEP,
        older="`name` or `id` of a step; `with`, `inputs` for its `args`",
        canonical="`step`, `args`",
        dialects=model.EVERYWHERE,
        rewrite=_name_step,
    ),
    Spelling(
        id="step-tool-word",
        where=Where.STEP,
        older="`tool: python`, `type: python` on a step, its inputs beside it",
        canonical="`tool: {kind: python, …}`",
        dialects=model.EVERYWHERE,
        rewrite=_gather_tool,
    ),
    Spelling(
        id="tool-labels",
        where=Where.STEP,
        older="`tool: {label: {kind: …}, …}`",
        canonical="`tool: [{name: label, kind: …}, …]`",
        dialects=(model.V10, model.V2_EVAL),
        refused_by_v10=True,
        rewrite=_list_labels,
    ),
    Spelling(
        id="task-shape",
        where=Where.TASK,
        older="`type` for `kind`, `tool: {kind: …}` within a task, `with` or `inputs` for `args`, `id` or `label` for "
        "`name`",
        canonical="`{name, kind, args, …}`",
        dialects=model.EVERYWHERE,
        rewrite=_flatten_task,
    ),
)
