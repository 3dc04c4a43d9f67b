"""The result of Python code, as far as it follows from the text: the fields of a mapping that is written out.

Also code that gives no result although its last line looks as if it did.
"""

from __future__ import annotations

# `_ast` has the same classes; importing `ast` would slow down every check.
from _ast import (
    AnnAssign,
    Assign,
    AsyncFor,
    AsyncFunctionDef,
    Attribute,
    AugAssign,
    Call,
    ClassDef,
    Constant,
    Dict,
    For,
    FunctionDef,
    Lambda,
    List,
    Load,
    Name,
    Return,
    Slice,
    Subscript,
    comprehension,
)
from collections.abc import Iterator
from typing import Any

# Names in other systems for the variable that a task returns.
_OTHER_WORDS = frozenset(("output", "outputs", "results", "response", "return_value", "ret", "retval"))
_RESULT = "result"
_OWN_SCOPE = (FunctionDef, AsyncFunctionDef, Lambda, ClassDef)


def lost_result(tree: Any) -> str | None:
    """The variable that the last line sets, if the code has no result and this was probably meant as one."""
    word = _set_by(tree.body[-1]) if tree.body else None
    if word not in _OTHER_WORDS or _may_have_result(tree):
        return None
    return word


def _may_have_result(tree: Any) -> bool:
    """Whether the code has a result, or may have one: `result`, a `main`, or a return at its top."""
    names = {getattr(one, key, None) for one in _nodes(tree) for key in ("id", "name", "asname")}
    return bool(names & {_RESULT, "main"}) or any(isinstance(one, Return) for one in _of_scope(tree))


def _set_by(statement: Any) -> str | None:
    target: Any
    if isinstance(statement, Assign):
        target = statement.targets[-1]
    elif isinstance(statement, AnnAssign | AugAssign):
        target = statement.target
    else:
        return None
    while isinstance(target, Subscript | Attribute):
        target = target.value
    return target.id if isinstance(target, Name) else None


def result_fields(tree: Any) -> frozenset[str] | None:
    """The fields of the result; none where it is a plain value; None where the text does not tell."""
    values = _results(tree)
    found = {_fields(value) for value in values} if values else {None}
    return None if None in found else frozenset().union(*(fields for fields in found if fields is not None))


def _results(tree: Any) -> list[Any]:
    """Every value that the result may have; none if it may also be set in another way."""
    main = [one for one in tree.body if isinstance(one, FunctionDef | AsyncFunctionDef) and one.name == "main"]
    names = [one for one in _nodes(tree) if isinstance(one, Name) and one.id == _RESULT]
    top = [one for one in _of_scope(tree) if isinstance(one, Return)]
    if len(main) == 1 and not names and not top:
        return [one.value for one in _of_scope(main[0]) if isinstance(one, Return)]
    if main or (top and names):
        return []
    if top:
        return [one.value for one in top]
    given = [one for one in tree.body if isinstance(one, Assign) and _is_result(one.targets)]
    # A further read or write of the name may change the value.
    is_plain = len(given) == len(names) and not any(isinstance(one.ctx, Load) for one in names)
    return [one.value for one in given[-1:]] if is_plain else []


def _is_result(targets: list[Any]) -> bool:
    return len(targets) == 1 and isinstance(targets[0], Name) and targets[0].id == _RESULT


def _fields(value: Any) -> frozenset[str] | None:
    match value:
        case None | Constant():
            return frozenset()
        case List(elts=items) if all(isinstance(item, Constant) for item in items):
            return frozenset()
        case Dict(keys=keys) if all(isinstance(key, Constant) and isinstance(key.value, str) for key in keys):
            return frozenset(str(key.value) for key in keys if isinstance(key, Constant))
    return None


def _nodes(tree: Any, *, within: bool = True) -> Iterator[Any]:
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if not within and node is not tree and isinstance(node, _OWN_SCOPE):
            continue
        for key in getattr(node, "_fields", ()):
            value = getattr(node, key, None)
            pending.extend(value if isinstance(value, list) else [value] if hasattr(value, "_fields") else [])


def _of_scope(tree: Any) -> Iterator[Any]:
    """The statements of the code itself, without its functions."""
    return _nodes(tree, within=False)


def needed_parameters(tree: Any) -> frozenset[str]:
    """The parameters of `main` that have no default, besides those that gather the rest."""
    main = [one for one in tree.body if isinstance(one, FunctionDef | AsyncFunctionDef) and one.name == "main"]
    assigned = {one.id for one in _nodes(tree) if isinstance(one, Name) and not isinstance(one.ctx, Load)}
    if len(main) != 1:
        return frozenset()
    given = main[0].args
    plain = [*given.posonlyargs, *given.args]
    needed = plain[: len(plain) - len(given.defaults)]
    needed += [one for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    # The code may set a variable of that name itself.
    return frozenset(one.arg for one in needed) - assigned


_OF_LISTS = frozenset(
    ("len", "list", "tuple", "set", "sum", "sorted", "enumerate", "reversed", "min", "max", "DataFrame")
)


def list_names(tree: Any) -> frozenset[str]:
    """The variables that the code takes for lists, and never sets or uses in another way."""
    nodes = list(_nodes(tree))
    taken = {name for node in nodes if (name := _taken_for_list(node)) is not None}
    other = {one.id for one in nodes if isinstance(one, Name) and not isinstance(one.ctx, Load)}
    for node in nodes:
        value = getattr(node, "value", None)
        if isinstance(node, Attribute) and isinstance(value, Name):
            other.add(value.id)
        if isinstance(node, Subscript) and isinstance(value, Name) and not _is_position(node.slice):
            other.add(value.id)
        # A variable whose class is tested may be a list or something else.
        if isinstance(node, Call) and isinstance(node.func, Name) and node.func.id in ("isinstance", "type"):
            other |= {one.id for one in node.args if isinstance(one, Name)}
    return frozenset(taken - other)


def _taken_for_list(node: Any) -> str | None:
    if isinstance(node, For | AsyncFor | comprehension):
        return node.iter.id if isinstance(node.iter, Name) else None
    if isinstance(node, Call) and node.args and isinstance(node.args[0], Name):
        word = node.func.attr if isinstance(node.func, Attribute) else getattr(node.func, "id", None)
        return node.args[0].id if word in _OF_LISTS else None
    if isinstance(node, Subscript) and isinstance(node.value, Name) and _is_position(node.slice):
        return node.value.id
    return None


def _is_position(index: Any) -> bool:
    return isinstance(index, Slice) or (isinstance(index, Constant) and type(index.value) is int)
