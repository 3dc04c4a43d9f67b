"""Guards: from a syntax tree to the boolean shape and the comparisons the analyser reads (templates.logic)."""

from __future__ import annotations

from typing import Any

from noetl.templates.logic import And, Compare, Comparison, Const, Not, Opaque, Operator, Or, Shape, truth
from noetl.templates.references import chain
from noetl.templates.syntax import Tree, children

UNKNOWN: Any = object()

_OPERATORS: dict[str, Operator] = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "lteq": "<=",
    "gt": ">",
    "gteq": ">=",
    "in": "in",
    "notin": "not in",
}
_FLIPPED: dict[str, str] = {"eq": "eq", "ne": "ne", "lt": "gt", "lteq": "gteq", "gt": "lt", "gteq": "lteq"}
_ORDERS = frozenset({"<", "<=", ">", ">="})


def constant(node: Any) -> Any:
    """The value of a literal, lists and signs included, or UNKNOWN."""
    match type(node).__name__:
        case "Const":
            return node.value
        case "TemplateData":
            return node.data
        case "List" | "Tuple":
            items = [constant(item) for item in node.items]
            return UNKNOWN if any(item is UNKNOWN for item in items) else items
        case "Neg":
            value = constant(node.node)
            return -value if isinstance(value, int | float) else UNKNOWN
        case _:
            return UNKNOWN


def shape(node: Any) -> Shape:
    """The boolean shape of an expression used as a guard."""
    value = constant(node)
    if value is not UNKNOWN:
        return Const(truth(value))
    match type(node).__name__:
        case "And":
            return And((*_parts(And, shape(node.left)), *_parts(And, shape(node.right))))
        case "Or":
            return Or((*_parts(Or, shape(node.left)), *_parts(Or, shape(node.right))))
        case "Not":
            return Not(shape(node.node))
        case "Compare":
            return _comparison(node)
        case "CondExpr" if node.expr2 is not None:
            return _choice(node)
        case "Test":
            return _test(node)
        case "Filter" if node.name in ("default", "d") and len(node.args) == 1 and not node.kwargs:
            return _defaulted(node)
    return _truthy(node)


def _parts(kind: Any, part: Shape) -> tuple[Shape, ...]:
    return part.parts if isinstance(part, And | Or) and isinstance(part, kind) else (part,)


def _truthy(node: Any) -> Shape:
    read = chain(node)
    return Compare(*read, "truthy") if read is not None else Opaque(repr(node))


def _choice(node: Any) -> Shape:
    test = shape(node.test)
    return Or((And((test, shape(node.expr1))), And((Not(test), shape(node.expr2)))))


def _defaulted(node: Any) -> Shape:
    """`x | default(false)` is true exactly when x is: undefined is false anyway."""
    fallback = constant(node.args[0])
    return _truthy(node.node) if fallback is not UNKNOWN and not truth(fallback) else Opaque(repr(node))


def _test(node: Any) -> Shape:
    read = chain(node.node)
    if read is None or node.args or node.kwargs:
        return Opaque(repr(node))
    match node.name:
        case "defined":
            return Compare(*read, "defined")
        case "undefined":
            return Not(Compare(*read, "defined"))
        case "none":
            return Compare(*read, "==", (None,))
    return Opaque(repr(node))


def _comparison(node: Any) -> Shape:
    """A comparison, chained ones as the conjunction they mean."""
    tests: list[Shape] = []
    left = node.expr
    for operand in node.ops:
        tests.append(_compare(left, operand.op, operand.expr))
        left = operand.expr
    return tests[0] if len(tests) == 1 else And(tuple(tests))


def _compare(left: Any, op: str, right: Any) -> Shape:
    read, value = chain(left), constant(right)
    if read is None and op in _FLIPPED:
        read, value, op = chain(right), constant(left), _FLIPPED[op]
    operator = _OPERATORS[op]
    if read is None or value is UNKNOWN:
        return Opaque(f"{left!r} {op} {right!r}")
    if operator in ("in", "not in"):
        values = _members(value)
        return Compare(*read, operator, values) if values is not None else Opaque(f"{left!r} {op} {right!r}")
    if not (_is_number(value) if operator in _ORDERS else _is_scalar(value)):
        return Opaque(f"{left!r} {op} {right!r}")
    return Compare(*read, operator, (value,))


def _members(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, list) and all(_is_scalar(item) for item in value):
        return tuple(value)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def comparisons(tree: Tree) -> tuple[Comparison, ...]:
    """Every equality and membership test of a chain against constants, in the order written."""
    found: list[Comparison] = []
    _collect(tree, found)
    return tuple(dict.fromkeys(found))


def _collect(node: Any, found: list[Comparison]) -> None:
    if type(node).__name__ == "Compare":
        told = _comparison(node)
        for test in told.parts if isinstance(told, And) else (told,):
            match test:
                case Compare(op="==" | "!=" | "in" | "not in") as compare:
                    found.append(Comparison(compare.root, compare.path, compare.op, compare.values))  # type: ignore[arg-type]
    for child in children(node):
        _collect(child, found)


def choices(node: Any) -> tuple[Any, ...]:
    """The constants an expression can give when it is one, or a choice between some (C-27); empty when unknown."""
    value = constant(node)
    if value is not UNKNOWN:
        return (value,)
    if type(node).__name__ == "CondExpr" and node.expr2 is not None:
        one, other = choices(node.expr1), choices(node.expr2)
        return (*one, *other) if one and other else ()
    return ()
