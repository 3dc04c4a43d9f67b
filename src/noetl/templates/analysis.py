"""Properties of a template from its syntax tree, without running it, for the checker and the analyser (TPL-05,
beyond.md §2).

References: which names a template reads from its scope; names that it binds itself (`for`, `set`, `with`) are left
out. Guards: its boolean shape and its comparisons (templates.logic).
"""

from __future__ import annotations

from typing import Any

from noetl.templates import logic
from noetl.templates.syntax import Tree, children

_DEFAULTING_FILTERS = frozenset({"default", "d"})
_DEFAULTING_TESTS = frozenset({"defined", "undefined"})

Chain = tuple[str, logic.Path]


def chain(node: Any) -> Chain | None:
    """The root and constant path of a lookup chain, or None when `node` is no such chain."""
    path: list[str | int] = []
    while True:
        kind = type(node).__name__
        if kind == "Name":
            return node.name, tuple(reversed(path))
        key = _key(node, kind)
        if key is None:
            return None
        path.append(key)
        node = node.node


def _key(node: Any, kind: str) -> str | int | None:
    if kind == "Getattr":
        return str(node.attr)
    if kind == "Getitem" and type(node.arg).__name__ == "Const" and isinstance(node.arg.value, str | int):
        return node.arg.value
    return None


def references(tree: Tree) -> tuple[logic.GuardReference, ...]:
    """Every read of a name of the scope, in the order written, without repetition."""
    search = _Search()
    search.block(tree.body, frozenset(), frozenset())
    return tuple(dict.fromkeys(search.found))


class _Search:
    """Walks a tree with the names bound so far (`own`) and the chains tested so far (`tested`)."""

    def __init__(self) -> None:
        self.found: list[logic.GuardReference] = []

    def block(self, body: list[Any], own: frozenset[str], tested: frozenset[Chain]) -> frozenset[str]:
        """The statements of a block in order; returns the names bound after it."""
        for node in body:
            own = self.statement(node, own, tested)
        return own

    def statement(self, node: Any, own: frozenset[str], tested: frozenset[Chain]) -> frozenset[str]:
        match type(node).__name__:
            case "Assign":
                self.visit(node.node, own, tested)
                return own | _bound(node.target)
            case "AssignBlock":
                self.block(node.body, own, tested)
                return own | _bound(node.target)
            case "With":
                for value in node.values:
                    self.visit(value, own, tested)
                self.block(node.body, own | _bound(*node.targets), tested)
            case "For":
                self._loop(node, own, tested)
            case "If":
                return self._branches(node, own, tested)
            case "FilterBlock":
                self.visit(node.filter, own, tested)
                self.block(node.body, own, tested)
            case _:
                self.visit(node, own, tested)
        return own

    def visit(self, node: Any, own: frozenset[str], tested: frozenset[Chain], defaulted: bool = False) -> None:
        match type(node).__name__:
            case "Name" | "Getattr" | "Getitem":
                self._read(node, own, tested, defaulted)
                return
            case "Call" if type(node.node).__name__ == "Name":
                for argument in [*node.args, *node.kwargs]:
                    self.visit(argument, own, tested)
                return
            case "Call":
                self.visit(node.node.node, own, tested, defaulted)
                for argument in node.args:
                    self.visit(argument, own, tested)
                return
            case "Filter" | "Test":
                self._applied(node, own, tested)
                return
            case "And":
                self.visit(node.left, own, tested)
                # `a and a.b`: a chain read on the left may be undefined on the right without being a mistake.
                self.visit(node.right, own, tested | _chains(node.left))
                return
            case "Or":
                # `workload.a or 1`: a missing key is null, and the right side is the default. A missing bare name fails
                # the template nevertheless.
                keyed = frozenset(read for read in _chains(node.left) if read[1])
                self.visit(node.left, own, tested | keyed)
                self.visit(node.right, own, tested)
                return
            case "CondExpr":
                self.visit(node.test, own, tested)
                within = tested | _chains(node.test)
                for branch in (node.expr1, node.expr2):
                    if branch is not None:
                        self.visit(branch, own, within)
                return
        for child in children(node):
            self.visit(child, own, tested)

    def _applied(self, node: Any, own: frozenset[str], tested: frozenset[Chain]) -> None:
        names = _DEFAULTING_FILTERS if type(node).__name__ == "Filter" else _DEFAULTING_TESTS
        if node.node is not None:
            self.visit(node.node, own, tested, defaulted=node.name in names)
        for argument in [*node.args, *node.kwargs]:
            self.visit(argument, own, tested)

    def _read(self, node: Any, own: frozenset[str], tested: frozenset[Chain], defaulted: bool) -> None:
        """One lookup chain; computed keys on the way are reads of their own."""
        path: list[str | int] = []
        while (kind := type(node).__name__) in ("Getattr", "Getitem"):
            key = _key(node, kind)
            if key is None:
                self.visit(node.arg, own, tested)
                # The part after a computed key is unknown: the read counts as one of the part before it.
                path.clear()
            else:
                path.append(key)
            node = node.node
        if kind != "Name":
            self.visit(node, own, tested, defaulted)
        elif node.name not in own:
            read = (node.name, tuple(reversed(path)))
            self.found.append(logic.GuardReference(*read, defaulted or _is_tested(read, tested)))

    def _loop(self, node: Any, own: frozenset[str], tested: frozenset[Chain]) -> None:
        self.visit(node.iter, own, tested)
        # `loop` inside a `for` of the template is the template's own, not the step's.
        inside = own | _bound(node.target) | {"loop"}
        if node.test is not None:
            self.visit(node.test, inside, tested)
        self.block(node.body, inside, tested)
        self.block(node.else_, own, tested)

    def _branches(self, node: Any, own: frozenset[str], tested: frozenset[Chain]) -> frozenset[str]:
        self.visit(node.test, own, tested)
        tested = tested | _chains(node.test)
        after = self.block(node.body, own, tested)
        for branch in node.elif_:
            # A name that any branch binds counts as bound afterwards: which branch runs is not known here.
            after |= self.statement(branch, own, tested)
        return after | self.block(node.else_, own, tested)


def _bound(*targets: Any) -> frozenset[str]:
    """The names that assignment targets bind."""
    names: set[str] = set()
    for target in targets:
        if type(target).__name__ == "Name":
            names.add(target.name)
        else:
            names |= _bound(*target.items)
    return frozenset(names)


def _chains(node: Any) -> frozenset[Chain]:
    """Every chain read within a test: its branches may rely on these."""
    found = chain(node)
    if found is not None:
        return frozenset({found})
    return frozenset().union(*(_chains(child) for child in children(node)))


def _is_tested(read: Chain, tested: frozenset[Chain]) -> bool:
    root, path = read
    return any(root == guard and path[: len(before)] == before for guard, before in tested)


# Guards: the boolean shape of an expression, and what it compares.

UNKNOWN: Any = object()

_OPERATORS: dict[str, logic.Operator] = {
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


def shape(node: Any) -> logic.Shape:
    """The boolean shape of an expression used as a guard."""
    value = constant(node)
    if value is not UNKNOWN:
        return logic.Const(logic.truth(value))
    match type(node).__name__:
        case "And":
            return logic.And((*_parts(logic.And, shape(node.left)), *_parts(logic.And, shape(node.right))))
        case "Or":
            return logic.Or((*_parts(logic.Or, shape(node.left)), *_parts(logic.Or, shape(node.right))))
        case "Not":
            return logic.Not(shape(node.node))
        case "Compare":
            return _comparison(node)
        case "CondExpr" if node.expr2 is not None:
            return _choice(node)
        case "Test":
            return _test(node)
        case "Filter" if node.name in ("default", "d") and len(node.args) == 1 and not node.kwargs:
            return _shape_with_default(node)
    return _truthy(node)


def _parts(kind: Any, part: logic.Shape) -> tuple[logic.Shape, ...]:
    return part.parts if isinstance(part, logic.And | logic.Or) and isinstance(part, kind) else (part,)


def _truthy(node: Any) -> logic.Shape:
    read = chain(node)
    return logic.Compare(*read, "truthy") if read is not None else logic.Opaque(repr(node))


def _choice(node: Any) -> logic.Shape:
    test = shape(node.test)
    return logic.Or((logic.And((test, shape(node.expr1))), logic.And((logic.Not(test), shape(node.expr2)))))


def _shape_with_default(node: Any) -> logic.Shape:
    """`x | default(false)` is true exactly when x is: undefined is false anyway."""
    fallback = constant(node.args[0])
    return _truthy(node.node) if fallback is not UNKNOWN and not logic.truth(fallback) else logic.Opaque(repr(node))


def _test(node: Any) -> logic.Shape:
    read = chain(node.node)
    if read is None or node.args or node.kwargs:
        return logic.Opaque(repr(node))
    match node.name:
        case "defined":
            return logic.Compare(*read, "defined")
        case "undefined":
            return logic.Not(logic.Compare(*read, "defined"))
        case "none":
            return logic.Compare(*read, "==", (None,))
    return logic.Opaque(repr(node))


def _comparison(node: Any) -> logic.Shape:
    """A comparison, chained ones as the conjunction they mean."""
    tests: list[logic.Shape] = []
    left = node.expr
    for operand in node.ops:
        tests.append(_compare(left, operand.op, operand.expr))
        left = operand.expr
    return tests[0] if len(tests) == 1 else logic.And(tuple(tests))


def _compare(left: Any, op: str, right: Any) -> logic.Shape:
    read, value = chain(left), constant(right)
    if read is None and op in _FLIPPED:
        # `5 < ctx.n` is turned into `ctx.n > 5`: the analyser knows only that form.
        read, value, op = chain(right), constant(left), _FLIPPED[op]
    operator = _OPERATORS[op]
    if read is None or value is UNKNOWN:
        return logic.Opaque(f"{left!r} {op} {right!r}")
    if operator in ("in", "not in"):
        values = _members(value)
        return (
            logic.Compare(*read, operator, values) if values is not None else logic.Opaque(f"{left!r} {op} {right!r}")
        )
    # Orders of text depend on their characters, which the analyser does not reason about.
    if not (_is_number(value) if operator in _ORDERS else _is_scalar(value)):
        return logic.Opaque(f"{left!r} {op} {right!r}")
    return logic.Compare(*read, operator, (value,))


def _members(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, list) and all(_is_scalar(item) for item in value):
        return tuple(value)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def comparisons(tree: Tree) -> tuple[logic.Comparison, ...]:
    """Every equality and membership test of a chain against constants, in the order written."""
    found: list[logic.Comparison] = []
    _collect(tree, found)
    return tuple(dict.fromkeys(found))


def _collect(node: Any, found: list[logic.Comparison]) -> None:
    if type(node).__name__ == "Compare":
        compared = _comparison(node)
        for test in compared.parts if isinstance(compared, logic.And) else (compared,):
            match test:
                case logic.Compare(op="==" | "!=" | "in" | "not in") as compare:
                    found.append(logic.Comparison(compare.root, compare.path, compare.op, compare.values))  # type: ignore[arg-type]
    for child in children(node):
        _collect(child, found)


def tested(tree: Tree) -> tuple[Chain, ...]:
    """Every reference that is used as a condition: after `not`, as an operand of `and` and `or`, and in `if`."""
    found: dict[Chain, None] = {}
    pending: list[Any] = [tree]
    while pending:
        node = pending.pop()
        pending += children(node)
        parts: tuple[Any, ...]
        match type(node).__name__:
            case "Not":
                parts = (node.node,)
            case "And" | "Or":
                parts = (node.left, node.right)
            case "CondExpr" | "If":
                parts = (node.test,)
            case _:
                continue
        found |= {read: None for part in parts if (read := chain(part)) is not None}
    return tuple(found)


def choices(node: Any) -> tuple[Any, ...]:
    """The constants that an expression can give, if it is a constant or a choice between constants (C-27); empty if
    unknown."""
    value = constant(node)
    if value is not UNKNOWN:
        return (value,)
    if type(node).__name__ == "CondExpr" and node.expr2 is not None:
        one, other = choices(node.expr1), choices(node.expr2)
        return (*one, *other) if one and other else ()
    return ()
