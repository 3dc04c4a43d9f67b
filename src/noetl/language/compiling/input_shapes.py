"""Input shapes: a value that is written out has a shape that its tool reads (TOOL-01).

What no tool would read fails every run, so it is an error here. Templates may give anything and are left to the tool.
Other spellings of a key inside a value (`aliases` in its schema) are renamed with a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from noetl.base.source import is_template
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import Pipeline, rewrite_tasks
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.language.reading.shared_checks import distance

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_WORDS = {"string": "text", "boolean": "true or false", "integer": "a number", "number": "a number"}
_NESTED = {"object": "a mapping", "array": "a list"}

Misfit = tuple[Node, str, str]  # where, what is wrong, what is allowed


def check_input_shapes(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_INPUT_SHAPE, and I_ALIAS for keys inside a value."""

    def checked(task: TaskSyntax, pipeline: Pipeline) -> TaskSyntax:
        kind = compilation.kinds.get(task.kind)
        inputs = dict(task.inputs)
        for known in kind.inputs if kind is not None and not task.generated else ():
            node = inputs.get(known.name)
            if node is None or not (known.read_strictly or "enum" in known.schema):
                continue
            inputs[known.name] = node = _renamed(node, known.schema, compilation)
            if (found := _misfit(node, known.schema)) is not None:
                place, wrong, allowed = found
                compilation.note("E_INPUT_SHAPE", place, f"{known.name} of kind {task.kind}: {wrong}", allowed)
        return replace(task, inputs=inputs) if inputs != task.inputs else task

    return rewrite_tasks(playbook, checked)


def _renamed(node: Node, schema: dict[str, Any], compilation: Compilation) -> Node:
    """The value with the keys that its schema has other spellings for."""
    aliases: dict[str, str] = schema.get("aliases", {})
    if not isinstance(node, Mapping):
        return node
    found = {key: name for key, name in aliases.items() if key in node and name not in node}
    for key, name in found.items():
        compilation.note("I_ALIAS", node.keys[key], f'"{key}" is read as "{name}"', f'write "{name}"')
    if not found:
        return node
    keys = {found.get(key, key): place for key, place in node.keys.items()}
    return replace(node, keys=keys, values={found.get(key, key): value for key, value in node.values.items()})


def _misfit(node: Node, schema: dict[str, Any]) -> Misfit | None:
    """The first place in a value that its schema does not take; None where all of it fits."""
    if isinstance(node, Scalar) and (node.value is None or (isinstance(node.value, str) and is_template(node.value))):
        return None
    if "anyOf" in schema:
        found = [_misfit(node, each) for each in schema["anyOf"]]
        if None in found:
            return None
        # the choice of the same kind says most; else all of them are the answer
        alike = [each for each, one in zip(found, schema["anyOf"], strict=True) if each and _is_alike(node, one)]
        return alike[0] if alike else (node, _misfit_text(node), f"write {_allowed(schema)}")
    if not _is_alike(node, schema):
        return node, _misfit_text(node), f"write {_allowed(schema)}"
    return next(_inside(node, schema), None)


def _inside(node: Node, schema: dict[str, Any]) -> Iterator[Misfit]:
    match node:
        case Scalar(value=value) if "enum" in schema and not _is_one_of(value, schema["enum"]):
            guess = _slip(str(value), schema["enum"])
            allowed = f"write {' or '.join(_without_cases(schema['enum']))}"
            yield node, f'"{value}" is not known', f'did you mean "{guess}"? {allowed}' if guess else allowed
        case Mapping():
            for name in schema.get("required", ()):
                if name not in node:
                    yield node, f'it has no "{name}"', f"add {name}: …"
            for name, _, below in node.items():
                inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
                found = _misfit(below, inner) if isinstance(inner, dict) else None
                if found is not None:
                    yield found
        case Sequence():
            for item in node:
                if (found := _misfit(item, schema.get("items", {}))) is not None:
                    yield found


def _is_one_of(value: object, words: list[str]) -> bool:
    """Words that are listed in capitals and in small letters may be written in any mixture."""
    return value in words or (isinstance(value, str) and value.upper() in words and value.lower() in words)


def _slip(written: str, words: list[str]) -> str | None:
    """The word that is one letter away, or two of a long one: FETCH is not PATCH misspelt."""
    reach = 2 if len(written) > 5 else 1
    return next((word for word in words if distance(written.lower(), word.lower()) <= reach), None)


def _without_cases(words: list[str]) -> list[str]:
    return [word for word in words if word.isupper() or word.upper() not in words]


def _is_alike(node: Node, schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    match node:
        case Mapping():
            return kind in (None, "object") and len(node) >= schema.get("minProperties", 0)
        case Sequence():
            return kind in (None, "array")
        case _:
            return kind is None or type(node.value) in _TYPES.get(kind, ())


def _misfit_text(node: Node) -> str:
    match node:
        case Mapping():
            return "it cannot be a mapping" if len(node.values) else "it cannot be empty"
        case Sequence():
            return "it cannot be a list"
        case _:
            return f'"{node.value}" is not known'


def _allowed(schema: dict[str, Any]) -> str:
    if "description" in schema:
        return str(schema["description"])
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(_allowed(each) for each in schema["anyOf"]))
    kind = str(schema.get("type", ""))
    return " or ".join(schema["enum"]) if "enum" in schema else _WORDS.get(kind) or _NESTED.get(kind, "another value")
