"""Other words for what a step runs: `call`, `task`, `action`, `tasks`, `pipeline` or `uses` for `tool`; `run` with a
command line; and within a task `tool`, `action` or `uses` for its `kind`."""

from __future__ import annotations

from noetl.base.diagnostics import is_template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where

_TOOL_WORDS = ("call", "task", "action", "uses", "tools", "tasks", "pipeline")
_KIND_WORDS = ("tool", "action", "uses", "call")
# Keys of which a task has at least one.
_OF_TASKS = frozenset({"kind", "type", "tool", "action", "uses", "task"})
# What a step runs, in any words: two of them are left for the reader to refuse.
_RUNNING = frozenset({"tool", "type", "kind", "case", *_TOOL_WORDS, "run"})


def name_tool(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step's tasks under another word, where nothing else says what the step runs."""
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
    if word == "task" and _is_word(value):
        rewriting.note(key, '"task" of a step', "tool: {kind: workbook, task: …}")
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
    named = node.get("task")
    if _is_word(named) and named is not None:
        rewriting.note(node.keys["task"], '"task" without kind', "kind: workbook")
        return model.with_value(node, "kind", model.made_text("workbook", named), node.keys["task"])
    return node


SPELLINGS = (
    Spelling(
        id="step-tool-synonyms",
        where=Where.STEP,
        older="`call`, `task`, `action`, `uses`, `tasks`, `pipeline` of a step, alone; `run: make test`",
        canonical="`tool`; `tool: {kind: shell, cmds: make test}`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=name_tool,
    ),
    Spelling(
        id="task-kind-synonyms",
        where=Where.TASK,
        older="`tool: python`, `action: python`, `uses: python` within a task; `task: name` alone",
        canonical="`kind: python`; `kind: workbook, task: name`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=name_kind,
    ),
)
