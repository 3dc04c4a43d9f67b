"""Program: expressions of a syntax tree as functions of a run.

Each node becomes one small closure, built on the first evaluation and kept. Evaluating is calling it: no Python code is
generated, and only what is written here can happen. `lenient` marks reads that provide for being undefined themselves
(the operand of `default(…)` or `is defined`), which strictness leaves alone (TPL-04).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates import budget
from noetl.templates.analysis import chain
from noetl.templates.arithmetic import affirmed, negated, operator
from noetl.templates.attribute_access import ABSENT, checked_key, member, sliced
from noetl.templates.budget import Evaluation
from noetl.templates.comparisons import contains, equal, ordered
from noetl.templates.filters import LIST_FILTERS, find
from noetl.templates.functions import FUNCTIONS, predicate
from noetl.templates.methods import call_method
from noetl.templates.output import written
from noetl.templates.values import Missing, UndefinedNameError, settled, walkable, walked

Code = Callable[[Evaluation], Any]

# Their operand may be undefined: that is what they ask.
_DEFAULTING = frozenset({"default", "d", "defined", "undefined"})


def expression(node: Any, lenient: bool = False) -> Code:
    """The function that evaluates `node`."""
    kind = type(node).__name__
    if kind in _LOOKUPS:
        return _LOOKUPS[kind](node, lenient)
    if kind in ("Filter", "Test"):
        return _applied(node, kind)
    return _EXPRESSIONS[kind](node)


def label(node: Any) -> str:
    """The name of a lookup in messages: as written, as far as it is constant."""
    read = chain(node)
    if read is None:
        return str(getattr(node, "attr", "value"))
    return ".".join(map(str, (read[0], *read[1])))


def _name(node: Any, lenient: bool) -> Code:
    name = node.name

    def read(run: Evaluation) -> Any:
        # Names that the template itself binds come before those of the scope, as in Jinja2.
        if name in run.locals:
            return run.locals[name]
        try:
            return run.lookup(name)
        except UndefinedNameError as problem:
            if lenient:
                return Missing(name)
            raise TemplateError(problem.message) from None
        except KeyError:
            return Missing(name) if lenient else run.missing(name)

    return read


def _subscript(node: Any, lenient: bool) -> Code:
    kind = type(node.arg).__name__
    if kind == "Slice":
        return _slice(node, lenient)
    if kind == "Const" and isinstance(node.arg.value, str | int):
        return _lookup(node, node.arg.value, lenient)
    base, argument, known = expression(node.node, lenient), expression(node.arg), label(node.node)

    def read(run: Evaluation) -> Any:
        key = _priced_key(run, argument(run))
        found = member(base(run), key)
        if found is ABSENT:
            return Missing(f"{known}[{key}]") if lenient else run.missing(f"{known}[{key}]")
        return found

    return read


def _lookup(node: Any, key: str | int, lenient: bool) -> Code:
    base, known = expression(node.node, lenient), label(node)

    def read(run: Evaluation) -> Any:
        found = member(base(run), key)
        if found is ABSENT:
            return Missing(known) if lenient else run.missing(known)
        return found

    return read


def _slice(node: Any, lenient: bool) -> Code:
    base, known = expression(node.node, lenient), label(node.node)
    bounds = [
        expression(part) if part is not None else _no_text for part in (node.arg.start, node.arg.stop, node.arg.step)
    ]

    def cut(run: Evaluation) -> Any:
        found = sliced(run, base(run), *(bound(run) for bound in bounds))
        if found is ABSENT:
            return Missing(known) if lenient else run.missing(known)
        return found

    return cut


def _no_text(run: Evaluation) -> None:
    return None


def _constant(node: Any) -> Code:
    value = node.data if type(node).__name__ == "TemplateData" else node.value
    return lambda run: value


def _list(node: Any) -> Code:
    items = [expression(item) for item in node.items]

    def build(run: Evaluation) -> Any:
        run.reserve(len(items))
        return run.own([item(run) for item in items])

    return build


def _tuple(node: Any) -> Code:
    items = [expression(item) for item in node.items]

    def build(run: Evaluation) -> Any:
        run.reserve(len(items))
        return tuple(item(run) for item in items)

    return build


def _mapping(node: Any) -> Code:
    pairs = [(expression(pair.key), expression(pair.value)) for pair in node.items]

    def build(run: Evaluation) -> Any:
        run.reserve(2 * len(pairs))
        return run.own({_priced_key(run, key(run)): value(run) for key, value in pairs})

    return build


def _priced_key(run: Evaluation, key: Any) -> Any:
    key = checked_key(key)
    run.spend(budget.key(key))
    return key


def _binary(node: Any) -> Code:
    left, right, apply = expression(node.left), expression(node.right), operator(type(node).__name__)
    return lambda run: apply(run, left(run), right(run))


def _signed(node: Any) -> Code:
    operand, apply = expression(node.node), negated if type(node).__name__ == "Neg" else affirmed
    return lambda run: apply(run, operand(run))


def _and_code(node: Any) -> Code:
    left, right = expression(node.left), expression(node.right)
    # As in Python, `and` and `or` give one of their operands, not a boolean; the right one is evaluated only when
    # needed.
    return lambda run: right(run) if walked(value := left(run)) else value


def _or_code(node: Any) -> Code:
    left, right = expression(node.left), expression(node.right)
    return lambda run: value if walked(value := left(run)) else right(run)


def _not_code(node: Any) -> Code:
    operand = expression(node.node)
    return lambda run: not walked(operand(run))


def _choice(node: Any) -> Code:
    test, then = expression(node.test), expression(node.expr1)
    otherwise = expression(node.expr2) if node.expr2 is not None else lambda run: run.missing("if without else")
    return lambda run: then(run) if walked(test(run)) else otherwise(run)


def _joined(node: Any) -> Code:
    parts = [expression(part) for part in node.nodes]

    def join(run: Evaluation) -> str:
        texts = [written(run, part(run)) for part in parts]
        run.fits(sum(map(len, texts)))
        return run.text("".join(texts))

    return join


_Test = Callable[[Evaluation, Any, Any], bool]
_COMPARISONS: dict[str, _Test] = {
    "eq": equal,
    "ne": lambda run, left, right: not equal(run, left, right),
    "in": contains,
    "notin": lambda run, left, right: not contains(run, left, right),
    "lt": lambda run, left, right: ordered(run, "lt", left, right),
    "lteq": lambda run, left, right: ordered(run, "lteq", left, right),
    "gt": lambda run, left, right: ordered(run, "gt", left, right),
    "gteq": lambda run, left, right: ordered(run, "gteq", left, right),
}


def _comparison(node: Any) -> Code:
    first = expression(node.expr)
    # `a < b < c` evaluates `b` once, as in Python.
    tests = [(_COMPARISONS[operand.op], expression(operand.expr)) for operand in node.ops]
    if len(tests) == 1:
        test, second = tests[0]
        return lambda run: test(run, first(run), second(run))

    def chained(run: Evaluation) -> bool:
        left = first(run)
        for test, operand in tests:
            right = operand(run)
            if not test(run, left, right):
                return False
            left = right
        return True

    return chained


def _operand_of(name: str) -> Callable[[Any], Any]:
    """How a filter takes a result proxy: for the list that it stands for, or for its whole value. What has a default
    stays the proxy, since the next filter may be one of lists."""
    if name in LIST_FILTERS:
        return walkable
    return unchanged if name in _DEFAULTING else settled


def unchanged(value: Any) -> Any:
    return value


def _applied(node: Any, kind: str) -> Code:
    """A filter or a test on its operand."""
    apply = find(node.name) if kind == "Filter" else predicate(node.name)
    word = f'{"filter" if kind == "Filter" else "test"} "{node.name}"'
    operand = expression(node.node, node.name in _DEFAULTING)
    args, options = _arguments(node)
    whole = _operand_of(node.name) if kind == "Filter" else settled

    def run_filter(run: Evaluation) -> Any:
        run.spend(2)
        return guarded(apply, word, run, whole(operand(run)), args, options)

    return run_filter


def guarded(
    apply: Callable[..., Any], word: str, run: Evaluation, value: Any, args: list[Code], options: dict[str, Code]
) -> Any:
    """Call a filter, a test or a function; Python's message on wrong arguments becomes a plain sentence."""
    given = [settled(arg(run)) for arg in args]
    named = {key: settled(option(run)) for key, option in options.items()}
    before = () if value is ABSENT else (value,)
    try:
        return apply(run, *before, *given, **named)
    # Python's own words are left out: they name internals, and may hold the value.
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError):
        raise TemplateError(f"the {word} does not take these values") from None


def _arguments(node: Any) -> tuple[list[Code], dict[str, Code]]:
    return [expression(arg) for arg in node.args], {option.key: expression(option.value) for option in node.kwargs}


def _call(node: Any) -> Code:
    args, options = _arguments(node)
    if type(node.node).__name__ == "Name":
        name = node.node.name
        function = FUNCTIONS[name]
        return lambda run: guarded(function, f'function "{name}"', run, ABSENT, args, options)
    base, method = expression(node.node.node), node.node.attr

    def call(run: Evaluation) -> Any:
        run.spend(1)
        return call_method(run, base(run), method, [arg(run) for arg in args])

    return call


_LOOKUPS: dict[str, Callable[[Any, bool], Code]] = {
    "Name": _name,
    "Getattr": lambda node, lenient: _lookup(node, node.attr, lenient),
    "Getitem": _subscript,
}
_EXPRESSIONS: dict[str, Callable[[Any], Code]] = {
    "Const": _constant,
    "TemplateData": _constant,
    "List": _list,
    "Tuple": _tuple,
    "Dict": _mapping,
    "And": _and_code,
    "Or": _or_code,
    "Not": _not_code,
    "Neg": _signed,
    "Pos": _signed,
    "CondExpr": _choice,
    "Concat": _joined,
    "Compare": _comparison,
    "Call": _call,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"), _binary),
}
