"""Other keys for the tool of a step: `call`, `task`, `action`, `tasks`, `pipeline` or `uses` for `tool`; `run` with a
command line; and within a task `tool`, `action` or `uses` for its `kind`, and code or SQL in base64."""

from __future__ import annotations

import binascii
from base64 import b64decode

from noetl.base.diagnostics import is_template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, inner
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where
from noetl.language.reading.spellings.steps import OWN_KINDS

_TOOL_WORDS = ("call", "task", "action", "uses", "tools", "tasks", "pipeline", "workbook")
_KIND_WORDS = ("tool", "action", "uses", "call")
# A reference has nothing else; a call of a tool has inputs of its own.
_OF_REFERENCE = frozenset({"kind", "name", "desc", "args", "spec", "retry", "eval"})
# Keys of which a task has at least one.
_OF_TASKS = frozenset({"kind", "type", "tool", "action", "uses", "task"})
# All keys for the tool of a step: if a step has two of them, the reader refuses it.
_RUNNING = frozenset({"tool", "type", "kind", "case", *_TOOL_WORDS, "run"})


def name_tool(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The tasks of a step under another key, if nothing else says what the step runs."""
    running = _RUNNING & node.values.keys()
    if len(running) != 1:
        return node
    (word,) = running
    value, key = node.values[word], node.keys[word]
    if word == "run":
        return _read_command(node, rewriting)
    if word not in _TOOL_WORDS:
        return node
    if not (_holds_tasks(value) or (word != "tasks" and _is_word(value))):
        return node
    if word == "workbook" and not _is_word(value):
        return node
    if word in ("task", "workbook") and _is_word(value):
        rewriting.note(key, f'"{word}" of a step', "tool: {kind: workbook, task: …}")
        return model.with_value(model.with_key(node, word, "tool"), "tool", _reference(value))
    rewriting.note(key, f'"{word}" of a step', '"tool"')
    return model.with_key(node, word, "tool")


def _read_command(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`run: make test` of a step, a command line."""
    value, key = node.values["run"], node.keys["run"]
    if not isinstance(value, Scalar) or not isinstance(value.value, str) or not value.value.strip():
        return node
    rewriting.note(key, '"run" of a step', "tool: {kind: shell, cmds: …}")
    tool = model.made_mapping([("kind", model.made_text("shell", key)), ("cmds", value)], value)
    return model.with_value(model.with_key(node, "run", "tool"), "tool", tool)


def _holds_tasks(node: Node) -> bool:
    match node:
        case Mapping():
            return bool(_OF_TASKS & node.values.keys()) or (len(node) > 0 and all(map(_is_task, node.values.values())))
        case Sequence():
            return len(node) > 0 and all(isinstance(item, Mapping) and _holds_tasks(item) for item in node)
    return False


def _is_task(node: Node) -> bool:
    return isinstance(node, Mapping) and bool({"kind", "type", "tool"} & node.values.keys())


def _is_word(node: Node | None) -> bool:
    """The name of a kind or of a task: text in one line, and no template."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return False
    return bool(node.value.strip()) and len(node.value.split()) == 1 and not is_template(node.value)


def _reference(value: Node) -> Mapping:
    """A reference to a task of the workbook."""
    return model.made_mapping([("kind", model.made_text("workbook", value)), ("task", value)], value)


def name_kind(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`tool: python` within a task, and `task: name` without a kind."""
    if {"kind", "type"} & node.values.keys():
        return node
    for word in _KIND_WORDS:
        if _is_word(node.get(word)):
            return model.renames("a task", {word: "kind"})(node, rewriting)
    if _is_word(node.get("workbook")) and "task" not in node:
        node = model.renames("a task", {"workbook": "task"})(node, rewriting)
    named = node.get("task")
    if _is_word(named) and named is not None:
        rewriting.note(node.keys["task"], '"task" without kind', "kind: workbook")
        return model.with_value(node, "kind", model.made_text("workbook", named), node.keys["task"])
    return node


# What a task runs, in base64, as servers of an older generation sent it to their workers.
_ENCODED = {f"{name}_b64": name for name in ("code", "command", "commands", "query", "script")}


def _decode_texts(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`code_b64` as `code`, where what it holds can be read."""
    for key, name in _ENCODED.items():
        text = _decoded(node.get(key))
        if text is None or name in node:
            continue
        rewriting.note(node.keys[key], f'"{key}" of a task', f'"{name}" with its text')
        node = model.with_value(model.with_key(node, key, name), name, model.made_text(text, node.values[key]))
    return node


def _decoded(node: Node | None) -> str | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or is_template(node.value):
        return None
    try:
        return b64decode("".join(node.value.split()), validate=True).decode() or None
    except (binascii.Error, UnicodeDecodeError):
        return None


def workbook_names(root: Mapping) -> frozenset[str]:
    """The tasks of the workbook that a task may name in place of a kind."""
    book = root.get("workbook")
    held = (
        book.get("tasks") if isinstance(book, Mapping) and isinstance(book.get("tasks"), Mapping | Sequence) else book
    )
    named: list[tuple[str, Node]] = []
    if isinstance(held, Mapping):
        named = list(held.values.items())
    elif isinstance(held, Sequence):
        listed = ((inner(one, "name"), one) for one in held)
        named = [(str(name.value), one) for name, one in listed if isinstance(name, Scalar)]
    # A task that is called as its own kind shows that there is such a kind.
    kinds = {name: inner(one, "kind") for name, one in named}
    own = {name for name, kind in kinds.items() if isinstance(kind, Scalar) and kind.value == name}
    return frozenset(kinds) - own - OWN_KINDS


def _name_reference(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`kind: double`, where the workbook has a task of that name: a task without inputs."""
    kind = node.get("kind")
    if not isinstance(kind, Scalar) or kind.value not in rewriting.workbook_names:
        return node
    if node.values.keys() - _OF_REFERENCE:
        return node
    rewriting.note(kind, f'"{kind.value}", which is a task of the workbook,', "kind: workbook, task: …")
    node = model.with_value(node, "kind", model.made_text("workbook", kind))
    return model.with_value(node, "task", kind, kind)


REFERENCE_SPELLINGS = (
    Spelling(
        id="task-workbook-name",
        where=Where.TASK,
        older="`tool: name`, `kind: name` with the name of a task in the workbook, and no inputs",
        canonical="`{kind: workbook, task: name}`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=_name_reference,
    ),
)

SPELLINGS = (
    Spelling(
        id="step-tool-synonyms",
        where=Where.STEP,
        older="`call`, `task`, `action`, `uses`, `tasks`, `pipeline`, `workbook` of a step, alone; `run: make test`",
        canonical="`tool`; `tool: {kind: shell, cmds: make test}`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=name_tool,
    ),
    Spelling(
        id="task-kind-synonyms",
        where=Where.TASK,
        older="`tool: python`, `action: python`, `uses: python` within a task; `task: name`, `workbook: name` alone",
        canonical="`kind: python`; `kind: workbook, task: name`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=name_kind,
    ),
    Spelling(
        id="task-base64",
        where=Where.TASK,
        older="`code_b64`, `command_b64`, `query_b64` of a task",
        canonical="`code`, `command`, `query` with the text itself",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=_decode_texts,
    ),
)
