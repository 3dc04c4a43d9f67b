"""References: which names a template reads from its scope, found in its syntax tree (TPL-05, beyond.md §2).

Names that the template itself binds (`for`, `set`, `with`) are its own and left out.
"""

from __future__ import annotations

from typing import Any

from noetl.templates.logic import GuardReference, Path
from noetl.templates.syntax import Tree, children

_DEFAULTING_FILTERS = frozenset({"default", "d"})
_DEFAULTING_TESTS = frozenset({"defined", "undefined"})

Chain = tuple[str, Path]


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


def references(tree: Tree) -> tuple[GuardReference, ...]:
    """Every read of a name of the scope, in the order written, without repetition."""
    search = _Search()
    search.block(tree.body, frozenset(), frozenset())
    return tuple(dict.fromkeys(search.found))


class _Search:
    """Walks a tree with the names bound so far (`own`) and the chains tested so far (`tested`)."""

    def __init__(self) -> None:
        self.found: list[GuardReference] = []

    def block(self, body: list[Any], own: frozenset[str], tested: frozenset[Chain]) -> frozenset[str]:
        """The statements of a block in order; gives the names bound after it."""
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
                # `a and a.b`: what was read on the left may be undefined on the right without being a mistake.
                self.visit(node.right, own, tested | _chains(node.left))
                return
            case "Or":
                # `workload.a or 1`: a key that is not there is null, and the right side stands in for it. A bare name
                # that is not there fails the template all the same.
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
                path.clear()
            else:
                path.append(key)
            node = node.node
        if kind != "Name":
            self.visit(node, own, tested, defaulted)
        elif node.name not in own:
            read = (node.name, tuple(reversed(path)))
            self.found.append(GuardReference(*read, defaulted or _is_tested(read, tested)))

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
    """Every chain read within a test: what its branches may rely on."""
    found = chain(node)
    if found is not None:
        return frozenset({found})
    return frozenset().union(*(_chains(child) for child in children(node)))


def _is_tested(read: Chain, tested: frozenset[Chain]) -> bool:
    root, path = read
    return any(root == guard and path[: len(before)] == before for guard, before in tested)
