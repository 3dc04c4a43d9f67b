"""Guards: what can be told about a condition without running it, given a few facts.

Facts say what a chain of names is known to equal; an event has several names at once (design.md §5). Everything else
may be true or false, and a guard is decided only when that makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from noetl.base.source import is_template
from noetl.language.compiling.parsed_templates import parsed
from noetl.language.reading.nodes import Scalar
from noetl.templates.logic import And, Compare, Const, Not, Opaque, Or, Path, Shape

Facts = Mapping[tuple[str, Path], frozenset[object]]
# What is known about an outcome that is an error.
ERROR_OUTCOME: Facts = {
    ("outcome", ("status",)): frozenset({"error"}),
    ("outcome", ("error",)): frozenset({"an error"}),
    ("outcome", ("result",)): frozenset({None}),
}
_MANY = 8  # atoms: 256 cases are quickly looked at, more are not worth it


def shape_of(when: Scalar | None) -> Shape:
    """The boolean shape of a written guard; absent means always, unreadable means unknown."""
    if when is None:
        return Const(True)
    text = str(when.value)
    if not is_template(text):
        return Const(text.strip().lower() == "true")
    template = parsed(text)
    return template.shape if template is not None else Opaque(text)


def decided(shape: Shape, facts: Facts, assumed: Mapping[Shape, bool] | None = None) -> bool | None:
    """Whether a guard holds under the facts: True, False, or None when that depends on something else."""
    match shape:
        case Const():
            return shape.value
        case Not():
            part = decided(shape.part, facts, assumed)
            return None if part is None else not part
        case And():
            return _all(decided(part, facts, assumed) for part in shape.parts)
        case Or():
            holds = _all(_opposite(decided(part, facts, assumed)) for part in shape.parts)
            return _opposite(holds)
        case Compare():
            known = facts.get((shape.root, shape.path))
            told = _tested(shape, known) if known is not None else None
            return told if told is not None else (assumed or {}).get(shape)
        case Opaque():
            return (assumed or {}).get(shape)


def cover(shapes: Iterable[Shape], facts: Facts) -> bool:
    """Whether in every case that the facts leave open at least one of the guards holds."""
    either = Or(tuple(shapes))
    atoms = list(dict.fromkeys(atom for atom in tests_of(either) if decided(atom, facts) is None))
    if len(atoms) > _MANY:
        return decided(either, facts) is True
    cases = product((True, False), repeat=len(atoms))
    return all(decided(either, facts, dict(zip(atoms, case, strict=True))) is True for case in cases)


def _all(parts: Iterable[bool | None]) -> bool | None:
    told = list(parts)
    if any(part is False for part in told):
        return False
    return None if any(part is None for part in told) else True


def _opposite(value: bool | None) -> bool | None:
    return None if value is None else not value


def _tested(test: Compare, known: frozenset[object]) -> bool | None:
    match test.op:
        case "==" | "in":
            return any(value in known for value in test.values)
        case "!=" | "not in":
            return not any(value in known for value in test.values)
        case "truthy":
            return any(bool(each) for each in known)
        case "defined":
            return True
    return None


def tests_of(shape: Shape) -> Iterator[Compare | Opaque]:
    """The tests that a guard is made of, each where it stands."""
    match shape:
        case And() | Or():
            for part in shape.parts:
                yield from tests_of(part)
        case Not():
            yield from tests_of(shape.part)
        case Compare() | Opaque():
            yield shape
