"""`auth` in words of other systems: a credential under `name` or `ref`, or under an alias of its own.

`key` is a field of credentials, the secret itself: it is a name only where the keychain has it.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl.base.diagnostics import is_template
from noetl.language.compiling.passes import Compilation, Pipeline, rewrite_tasks
from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.language.reading.spellings import model

_INPUTS = ("auth", "storage_auth")
_CREDENTIAL = "credential"
_WORDS = ("ref", "credential_name", "name")
# What may stand beside the name of a credential without being a field of it.
_BESIDE = frozenset(("type", "scheme", "kind"))
# Fields of a credential that hold a mapping: none of them is an alias.
_HOLDING = frozenset(("data", "headers", "tls", "ssl", "options", "params", "query", "value", "fields", "map", "scope"))


def read_credentials(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every `auth` in its canonical words; I_ALIAS, E_INPUT_SHAPE and W_KEYCHAIN."""
    declared = frozenset(entry.name for entry in playbook.keychain)

    def checked(task: TaskSyntax, pipeline: Pipeline) -> TaskSyntax:
        kind = compilation.kinds.get(task.kind)
        if kind is None or task.generated:
            return task
        inputs = dict(task.inputs)
        for name in _INPUTS:
            held = inputs.get(name) if kind.input(name) is not None else None
            if isinstance(held, Mapping):
                inputs[name] = _read(held, declared, compilation)
        return replace(task, inputs=inputs) if inputs != task.inputs else task

    return rewrite_tasks(playbook, checked)


def _read(held: Mapping, declared: frozenset[str], compilation: Compilation) -> Mapping:
    aliases = [key for key, _, one in held.items() if key not in _HOLDING and _is_reference(one)]
    if len(aliases) > 1 and len(aliases) == len(held):
        message = f"auth names {len(aliases)} credentials, and a task takes one"
        compilation.note("E_INPUT_SHAPE", held.keys[aliases[1]], message, "write auth: {credential: NAME}")
        return held
    inner = held.get(aliases[0]) if len(aliases) == len(held) == 1 else None
    if isinstance(inner, Mapping):
        word = next(key for key in (_CREDENTIAL, "key", *_WORDS) if key in inner)
        _note(held.keys[aliases[0]], f'the alias "{aliases[0]}" of auth', compilation)
        return inner if word == _CREDENTIAL else model.with_key(inner, word, _CREDENTIAL)
    return _named(held, declared, compilation)


def _is_reference(node: Node) -> bool:
    """`{type: postgres, key: NAME}`: a credential by its name, under an alias."""
    return isinstance(node, Mapping) and any(_is_text(node.get(key)) for key in (_CREDENTIAL, "key", *_WORDS))


def _named(held: Mapping, declared: frozenset[str], compilation: Compilation) -> Mapping:
    word = next((key for key in (*_WORDS, "key") if _is_text(held.get(key))), None)
    value = held.get(word) if word is not None else None
    if word is None or not isinstance(value, Scalar) or held.values.keys() - {word} - _BESIDE:
        return held
    if word == "key" and value.value not in declared:
        if not is_template(str(value.value)) and len(held) == 1:
            # Never shown: it may be the secret.
            message = "what stands under key is sent as the secret itself: the keychain has no entry of that name"
            compilation.note("W_KEYCHAIN", held.keys[word], message, "write auth: {credential: NAME}")
        return held
    _note(held.keys[word], f'"{word}" of auth', compilation)
    return model.with_key(held, word, _CREDENTIAL)


def _is_text(node: Node | None) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, str) and bool(node.value.strip())


def _note(place: Scalar, found: str, compilation: Compilation) -> None:
    compilation.note("I_ALIAS", place, f"{found} is read as the name of a credential", "write auth: {credential: NAME}")
