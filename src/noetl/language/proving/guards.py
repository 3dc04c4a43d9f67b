"""Guards: properties of conditions without data, found by trying a few significant values for each name they read.

The small abstract domain of beyond.md §2: equality with constants, order against numbers, truth and its negation, and
the event's name. Any other part of a guard is an unknown boolean, the same for the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

from noetl.base.errors import TemplateError
from noetl.language.proving.graph import same_event
from noetl.templates.expression import parse
from noetl.templates.logic import And, Compare, Const, Not, Opaque, Or, Shape
from noetl.templates.logic import truth as truth_of
from noetl.templates.values import Authored

UNDEFINED: Any = object()
# A value that no guard compares with: it represents all unnamed values.
_OTHER = "\0some other value"
# Combinations of values tried before giving up.
_TRIED = 2_000
_EVENT_NAME = ("event", ("name",))
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}

# The name that a comparison reads. An expression that cannot be analysed is a variable of its own.
Variable = tuple[str, tuple[str | int, ...]] | str
Values = Mapping[Variable, Any]


def shape_of(guard: Authored | None) -> Shape:
    """The boolean shape of a guard; None is the guard that is always true."""
    if guard is None:
        return Const(True)
    return _parsed_shape(guard.data) if isinstance(guard.data, str) else Const(truth_of(guard.data))


@lru_cache(maxsize=4096)
def _parsed_shape(text: str) -> Shape:
    try:
        return parse(text).shape
    except TemplateError:
        return Opaque(text)


def truth(guard: Authored | None, event: str | None) -> bool | None:
    """Whether a guard is certainly true or certainly false when the boundary event is `event`."""
    return _shape_value(shape_of(guard), event)


@lru_cache(maxsize=8192)
def _shape_value(shape: Shape, event: str | None) -> bool | None:
    if isinstance(shape, Const):
        return shape.value
    # Untyped: a value may be missing or of any type at run time, and "certainly" has to hold for those as well.
    can_be = _satisfiable((shape,), (), event, typed=False)
    can_fail = _satisfiable((), (shape,), event, typed=False)
    return None if can_be and can_fail else can_be


def covered(guards: Sequence[Authored | None], event: str | None) -> bool:
    """Whether one of `guards` is always true: complementary tests, taking values to be of the type they test for."""
    return bool(guards) and not _satisfiable((), tuple(shape_of(guard) for guard in guards), event, typed=True)


def possible(yes: Sequence[Authored | None], no: Sequence[Authored | None], event: str | None) -> bool:
    """Whether all of `yes` can be true while all of `no` are false."""
    return _satisfiable(tuple(map(shape_of, yes)), tuple(map(shape_of, no)), event, typed=True)


def implied(guard: Authored | None, earlier: Sequence[Authored | None], event: str | None) -> bool:
    """Whether `guard` is never true without one of `earlier` being true too."""
    return not _satisfiable((shape_of(guard),), tuple(map(shape_of, earlier)), event, typed=False)


def related(guards: Sequence[Authored | None], event: str | None) -> bool:
    """Whether two of `guards` read the same thing, so that they may exclude or complete each other."""
    seen: set[Variable] = set()
    for guard in guards:
        read = {variable for variable in _variables(shape_of(guard)) if variable != _EVENT_NAME or event is None}
        if read & seen:
            return True
        seen |= read
    return False


def _variables(shape: Shape) -> set[Variable]:
    match shape:
        case And(parts) | Or(parts):
            return set().union(*map(_variables, parts))
        case Not(part):
            return _variables(part)
        case Compare(root, path):
            return {(root, path)}
        case Opaque(text):
            return {text}
        case _:
            return set()


@lru_cache(maxsize=8192)
def _satisfiable(yes: tuple[Shape, ...], no: tuple[Shape, ...], event: str | None, *, typed: bool) -> bool:
    """Whether some values make all of `yes` true and all of `no` false; True when there are too many to try."""
    tests: dict[Variable, list[Compare]] = {}
    for shape in yes + no:
        for variable in sorted(_variables(shape), key=repr):
            tests.setdefault(variable, [])
        _collect(shape, tests)
    if event is not None:
        tests.pop(_EVENT_NAME, None)
    domains = [_domain(found, typed) for found in tests.values()]
    size = 1
    for domain in domains:
        size *= len(domain)
        # Too many to try: it counts as possible, so that nothing is claimed that was not shown.
        if size > _TRIED:
            return True
    for chosen in product(*domains):
        values = dict(zip(tests, chosen, strict=True))
        if all(_is_true(s, values, event) for s in yes) and not any(_is_true(s, values, event) for s in no):
            return True
    return False


def _collect(shape: Shape, tests: dict[Variable, list[Compare]]) -> None:
    match shape:
        case And(parts) | Or(parts):
            for part in parts:
                _collect(part, tests)
        case Not(part):
            _collect(part, tests)
        case Compare(root, path):
            tests[root, path].append(shape)


def _domain(tests: list[Compare], typed: bool) -> list[Any]:
    """Values that tell the tests of one variable apart. `typed`: only such as the tests are made for."""
    if not tests:  # opaque
        return [True, False]
    constants = list(dict.fromkeys((type(v), v) for test in tests for v in test.values))
    numbers = sorted({v for kind, v in constants if kind in (int, float)})
    values: list[Any] = [v for _, v in constants]
    # One number for each interval is enough: all numbers in it pass and fail the same tests.
    values += _numbers_between(numbers)
    ordered = any(test.op in _ORDERS for test in tests)
    booleans = bool(constants) and all(kind is bool for kind, _ in constants)
    if any(test.op in ("truthy", "defined") for test in tests) or booleans:
        values += [True, False]
    # `x > 5` and `x <= 5` together cover every number, which is what their author means; a text would pass neither.
    if not (typed and (ordered or booleans)):
        values.append(_OTHER)
    if not typed or any(test.op == "defined" for test in tests):
        # Undefined, null and false: `defined`, equality and truth distinguish them.
        values += [UNDEFINED, None, ""]
    return _unique(values)


def _numbers_between(numbers: list[int | float]) -> list[int | float]:
    """A number below, above and between each two."""
    if not numbers:
        return []
    gaps = [(low + high) / 2 for low, high in pairwise(numbers)]
    return [numbers[0] - 1, *gaps, numbers[-1] + 1]


def _unique(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(value is other or (type(value) is type(other) and value == other) for other in found):
            found.append(value)
    return found


def _is_true(shape: Shape, values: Values, event: str | None) -> bool:
    match shape:
        case And(parts):
            return all(_is_true(part, values, event) for part in parts)
        case Or(parts):
            return any(_is_true(part, values, event) for part in parts)
        case Not(part):
            return not _is_true(part, values, event)
        case Const(value):
            return value
        case Opaque(text):
            return bool(values[text])
        case Compare(root, path) if event is not None and (root, path) == _EVENT_NAME:
            return _names(shape, event)
        case Compare(root, path):
            return _test(shape, values[root, path])


def _names(test: Compare, event: str) -> bool:
    """A test of `event.name`, aliases included."""
    if test.op in ("truthy", "defined"):
        return True
    same = any(same_event(value, event) for value in test.values)
    return not same if test.op in ("!=", "not in") else same and test.op in ("==", "in")


def _test(test: Compare, value: Any) -> bool:
    match test.op:
        case "!=" | "not in":
            return value is UNDEFINED or value not in test.values
        case _ if value is UNDEFINED:
            return False
        case "==" | "in":
            return value in test.values
        case "truthy":
            return truth_of(value)
        case "defined":
            return True
        case order:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and _ORDERS[order](value, test.values[0])
