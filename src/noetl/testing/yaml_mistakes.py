"""Mistakes of a test file: all of them at once, each with its place, what was found there and what is allowed.

The shapes of `yaml_tests` say what a file may hold. Decoding by them stops at the first mistake and knows no lines, so
the tree of the reader, which does, is compared with the same shapes here. What a shape cannot say is added: kinds that
do not exist, and expectations about tools that the test does not fake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches

import msgspec

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe

STATUSES = ("completed", "failed", "cancelled")
# What each type of a shape is called in a message, and the nodes that it takes.
_SCALARS: dict[type, tuple[str, tuple[type, ...]]] = {
    msgspec.inspect.StrType: ("text", (str,)),
    msgspec.inspect.BoolType: ("true or false", (bool,)),
    msgspec.inspect.IntType: ("a whole number", (int,)),
}


class Mistake(msgspec.Struct, frozen=True):
    """One mistake, and the node it is about."""

    node: Node
    text: str


def shape_mistakes(node: Node, shape: object) -> list[Mistake]:
    """Where the tree does not have the shape, in the order of the text."""
    return list(_mistakes(node, msgspec.inspect.type_info(shape)))


def _mistakes(node: Node, wanted: msgspec.inspect.Type) -> Iterator[Mistake]:
    match wanted:
        case msgspec.inspect.UnionType():
            yield from _mistakes(node, _fitting(node, wanted))
        case msgspec.inspect.StructType() if isinstance(node, Mapping):
            yield from _struct_mistakes(node, wanted)
        case msgspec.inspect.ListType(item_type=item) if isinstance(node, Sequence):
            for one in node:
                yield from _mistakes(one, item)
        case msgspec.inspect.DictType(value_type=value) if isinstance(node, Mapping):
            for one in node.values.values():
                yield from _mistakes(one, value)
        case msgspec.inspect.AnyType():
            return
        case _ if not _is(node, wanted):
            yield Mistake(node, f"{_name(node)} is {_words(wanted)}, and this is {describe(node)}")


def _fitting(node: Node, union: msgspec.inspect.UnionType) -> msgspec.inspect.Type:
    """The part of a union that a node like this is meant for; its first where none is."""
    return next((one for one in union.types if _is(node, one)), union.types[0])


def _is(node: Node, wanted: msgspec.inspect.Type) -> bool:
    match wanted:
        case msgspec.inspect.AnyType():
            return True
        case msgspec.inspect.StructType() | msgspec.inspect.DictType():
            return isinstance(node, Mapping)
        case msgspec.inspect.ListType():
            return isinstance(node, Sequence)
        case msgspec.inspect.NoneType():
            return isinstance(node, Scalar) and node.value is None
        case _:
            _, types = _SCALARS.get(type(wanted), ("", ()))
            return isinstance(node, Scalar) and type(node.value) in types


def _words(wanted: msgspec.inspect.Type) -> str:
    match wanted:
        case msgspec.inspect.StructType() | msgspec.inspect.DictType():
            return "a mapping"
        case msgspec.inspect.ListType():
            return "a list"
        case _:
            return _SCALARS.get(type(wanted), ("a value", ()))[0]


def _struct_mistakes(node: Mapping, wanted: msgspec.inspect.StructType) -> Iterator[Mistake]:
    known = {field.name: field for field in wanted.fields}
    for name, key, value in node.items():
        if name in known:
            yield from _mistakes(value, known[name].type)
        else:
            yield Mistake(key, f'"{name}" is not a key of {_name(node)}; {allowed(name, known)}')
    for field in wanted.fields:
        if field.required and field.name not in node:
            yield Mistake(node, f'{_name(node)} needs the key "{field.name}"')


def allowed(found: str, known: Collection[str]) -> str:
    """What is allowed instead: the name that was probably meant, and all there are."""
    near = get_close_matches(found, known, n=1)
    return (f'did you mean "{near[0]}"? ' if near else "") + f"allowed: {', '.join(known)}"


def _name(node: Node) -> str:
    return node.path or "this file"


def meaning_mistakes(node: Mapping, kinds: Collection[str]) -> Iterator[Mistake]:
    """What the shapes cannot say, for each test of a file that has them."""
    tests = node.get("tests")
    for test in tests if isinstance(tests, Sequence) else ():
        if isinstance(test, Mapping):
            tools, expect = test.get("tools"), test.get("expect")
            yield from _tool_mistakes(tools, kinds)
            yield from _expect_mistakes(expect, tools)


def _tool_mistakes(tools: Node | None, kinds: Collection[str]) -> Iterator[Mistake]:
    for name, key, given in tools.items() if isinstance(tools, Mapping) else ():
        # The misspelt fake would never be asked, and the real tool would run instead.
        if name not in kinds:
            yield Mistake(key, f'"{name}" is not a kind of tool; {allowed(name, sorted(kinds))}')
        if isinstance(given, Sequence) and not given.items:
            yield Mistake(given, f"{_name(given)} has no answer; write result: or error:")
        for answer in given if isinstance(given, Sequence) else (given,):
            if isinstance(answer, Mapping) and ("result" in answer) == ("error" in answer):
                both = "both" if "result" in answer else "neither"
                yield Mistake(answer, f"{_name(answer)} has {both} of result and error; an answer has one of them")


def _expect_mistakes(expect: Node | None, tools: Node | None) -> Iterator[Mistake]:
    if not isinstance(expect, Mapping):
        return
    status, calls = expect.get("status"), expect.get("calls")
    if isinstance(status, Scalar) and isinstance(status.value, str) and status.value not in STATUSES:
        yield Mistake(status, f'"{status.value}" is not how an execution ends; {allowed(status.value, STATUSES)}')
    faked = list(tools.keys) if isinstance(tools, Mapping) else []
    for name, key, _ in calls.items() if isinstance(calls, Mapping) else ():
        if name not in faked:
            yield Mistake(key, f'calls of "{name}" are not counted, since this test does not fake it under tools')
