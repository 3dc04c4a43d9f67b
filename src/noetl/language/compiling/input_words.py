"""Inputs in shapes of other systems: under `with` or `config`, a script as its own text, lists of names and values,
values of placeholders under `args`."""

from __future__ import annotations

import re
from collections.abc import Mapping as Table

from noetl.base.diagnostics import is_template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, scalars
from noetl.language.reading.spellings import model
from noetl.net.kinds import ToolKind

# Keys under which other systems put the inputs of a task; `with` and `inputs` have become `args` by now.
_HOLDERS = ("args", "config", "configuration", "properties", "arguments", "input", "parameters", "params")
_TEXTS = ("code", "command")
_FILES = (".py", ".sql", ".txt")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def holder(kind: ToolKind, inputs: Table[str, Node]) -> str | None:
    """The key whose value holds inputs of the kind and nothing else, where the kind has no input of that name."""
    for key in _HOLDERS:
        held = inputs.get(key)
        if not isinstance(held, Mapping) or not len(held) or kind.takes_anything or kind.input(key) is not None:
            continue
        if key == "args" and _reads_args(inputs):
            continue
        names = [kind.input(name) for name in held.values]
        if all(one is not None and one.name not in inputs for one in names) and not held.values.keys() & inputs.keys():
            return key
    return None


def _reads_args(inputs: Table[str, Node]) -> bool:
    texts = (text.value for key, node in inputs.items() if key != "args" for text in scalars(node))
    return any(isinstance(text, str) and is_template(text) and "args" in text for text in texts)


def inline(kind: ToolKind, inputs: Table[str, Node], node: Node) -> str | None:
    """The input for a `script` that is no name of a file, but the text to run."""
    text = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    if is_template(text) or text.strip().endswith(_FILES) or not any(one.isspace() for one in text.strip()):
        return None
    return next((word for word in _TEXTS if kind.input(word) is not None and word not in inputs), None)


# `:name` (no cast), `%(name)s` and `$name`; `$1`, `%s` and `?`.
_NAMED = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)|%\(([A-Za-z_]\w*)\)s|\$([A-Za-z_]\w*)")
_NUMBERED = re.compile(r"\$\d|%s|\?")


def placeholders(kind: ToolKind, inputs: Table[str, Node]) -> bool:
    """Whether `args` hold the values of placeholders in the SQL: there is no table, and there are no `params`."""
    args, texts = inputs.get("args"), _sql_texts(kind, inputs)
    if kind.input("params") is None or "params" in inputs or "table" in inputs or not texts:
        return False
    if isinstance(args, Sequence):
        return len(args) > 0 and any(_NUMBERED.search(text) for text in texts)
    names = {name for text in texts for found in _NAMED.findall(text) for name in found if name}
    return isinstance(args, Mapping) and bool(names & args.values.keys())


def may_read_args(inputs: Table[str, Node]) -> bool:
    """Whether a template of the task stands where it may read `args`."""
    texts = (text.value for key, node in inputs.items() if key != "args" for text in scalars(node))
    return any(isinstance(text, str) and is_template(text) for text in texts)


def _sql_texts(kind: ToolKind, inputs: Table[str, Node]) -> list[str]:
    nodes = (inputs.get(one.name) for one in kind.inputs if one.sql)
    return [str(text.value) for node in nodes if node is not None for text in scalars(node)]


def lines(node: Node | None) -> Mapping | None:
    """A list of texts such as `Accept: text/csv` as a mapping; None for anything else."""
    texts = [one for one in node if isinstance(one, Scalar)] if isinstance(node, Sequence) else []
    found: list[tuple[str, Node]] = []
    for text in texts:
        name, colon, value = str(text.value).partition(":")
        if not colon or not _HEADER.fullmatch(name.strip()):
            return None
        found.append((name.strip(), model.made_text(value.strip(), text)))
    if not isinstance(node, Sequence) or not found or len(dict(found)) != len(node):
        return None
    return model.made_mapping(found, node)


def pairs(node: Node | None) -> Mapping | None:
    """A list of `{name, value}` as a mapping; None for anything else."""
    if not isinstance(node, Sequence) or not len(node):
        return None
    found: list[tuple[str, Node]] = []
    for item in node:
        word = next((key for key in ("name", "key") if isinstance(item, Mapping) and key in item), None)
        name = item.get(word) if word is not None and isinstance(item, Mapping) else None
        if not isinstance(item, Mapping) or len(item) != 2 or "value" not in item or not isinstance(name, Scalar):
            return None
        found.append((str(name.value), item.values["value"]))
    return model.made_mapping(found, node) if len(dict(found)) == len(found) else None
