"""Test files: `NAME.test.yaml` beside a playbook says what to give it and what to expect (docs/testing.md).

Each test runs as those of the pytest plug-in do, in memory and in virtual time, with tools that are faked by kind. A
test file is YAML alone, so an answer of a tool says whether it is a result or an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.diagnostics import TEST_SUFFIX, Findings, Source
from noetl.base.errors import NoetlError, RefusedError, ToolError
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, data, describe
from noetl.language.reading.yaml import read_yaml
from noetl.testing.playbook_runs import Ran, Story, Stuck, run_story
from noetl.tools.kinds import load_kinds

# Mistakes of a test file: all of them at once, each with its place, the found and the allowed value.
#
# The shapes of `yaml_tests` define the contents of a file. Decoding by them stops at the first mistake and knows no
# lines, so the tree of the reader, which does, is compared with the same shapes here. Checks that a shape cannot
# express are added: kinds that do not exist, and expectations about tools that the test does not fake.

STATUSES = ("completed", "failed", "cancelled")
# The name of each type of a shape in messages, and the nodes that it accepts.
_SCALARS: dict[type, tuple[str, tuple[type, ...]]] = {
    msgspec.inspect.StrType: ("text", (str,)),
    msgspec.inspect.BoolType: ("true or false", (bool,)),
    msgspec.inspect.IntType: ("a whole number", (int,)),
}


class Mistake(msgspec.Struct, frozen=True):
    """One mistake, and the node where it is."""

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
        case _ if not _is_of_type(node, wanted):
            yield Mistake(node, f"{_name(node)} is {_type_words(wanted)}, and this is {describe(node)}")


def _fitting(node: Node, union: msgspec.inspect.UnionType) -> msgspec.inspect.Type:
    """The part of a union that a node like this is meant for; the first part if none fits."""
    return next((one for one in union.types if _is_of_type(node, one)), union.types[0])


def _is_of_type(node: Node, wanted: msgspec.inspect.Type) -> bool:
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


def _type_words(wanted: msgspec.inspect.Type) -> str:
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
    """The allowed values: the nearest name, and all names."""
    near = get_close_matches(found, known, n=1)
    return (f'did you mean "{near[0]}"? ' if near else "") + f"allowed: {', '.join(known)}"


def _name(node: Node) -> str:
    return node.path or "this file"


def meaning_mistakes(node: Mapping, kinds: Collection[str]) -> Iterator[Mistake]:
    """Mistakes that the shapes cannot express, for each test of a file."""
    tests = node.get("tests")
    for test in tests if isinstance(tests, Sequence) else ():
        if isinstance(test, Mapping):
            tools, expect = test.get("tools"), test.get("expect")
            yield from _tool_mistakes(tools, kinds)
            yield from _expect_mistakes(expect, tools)


def _tool_mistakes(tools: Node | None, kinds: Collection[str]) -> Iterator[Mistake]:
    for name, key, given in tools.items() if isinstance(tools, Mapping) else ():
        # The misspelt fake would never be called, and the real tool would run instead.
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


_YEAR_S = 366 * 86_400.0


class _Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Refuses unknown keys: a test with a misspelt expectation would expect nothing and pass."""


class FakeError(_Shape, frozen=True, kw_only=True):
    """An error as the tool raises it. `details` are further fields that rules read, such as `{status: 503}`."""

    kind: str
    message: str = ""
    retryable: bool = False
    details: dict[str, Any] = {}


class FakeAnswer(_Shape, frozen=True, kw_only=True):
    """One answer of a faked tool: its result, or its error."""

    result: Any = None
    error: FakeError | None = None

    def as_fake(self) -> Any:
        if self.error is None:
            return self.result
        return ToolError(
            self.error.kind, self.error.message, retryable=self.error.retryable, **dict(self.error.details)
        )


class SentMessage(_Shape, frozen=True, kw_only=True):
    name: str
    correlation: dict[str, Any] = {}
    payload: Any = None


class Expected(_Shape, frozen=True, kw_only=True):
    """The expected end; omitted fields may have any value. Of `ctx`, only the keys that are named are compared. `steps`
    are the steps that ran, in order; `calls` is the number of calls of each faked kind."""

    status: str = "completed"
    result: Any = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET
    ctx: dict[str, Any] = {}
    steps: list[str] | msgspec.UnsetType = msgspec.UNSET
    calls: dict[str, int] = {}


class PlaybookTest(_Shape, frozen=True, kw_only=True):
    name: str
    workload: dict[str, Any] = {}
    tools: dict[str, FakeAnswer | list[FakeAnswer]] = {}
    credentials: dict[str, str | dict[str, Any]] = {}
    messages: list[SentMessage] = []
    people: dict[str, dict[str, Any]] = {}
    allow: list[str] = []
    expect: Expected = Expected()

    def story(self) -> Story:
        fakes = {
            # Always a list of answers: a result that is a list by itself would be taken for several.
            kind: [one.as_fake() for one in (given if isinstance(given, list) else [given])]
            for kind, given in self.tools.items()
        }
        return Story(
            workload=self.workload,
            tools=fakes,
            credentials=self.credentials,
            messages=[(one.name, one.correlation, one.payload) for one in self.messages],
            people=self.people,
            allow=self.allow,
            within_s=_YEAR_S,
        )


class PlaybookTestFile(_Shape, frozen=True, kw_only=True):
    """`playbook` is a path relative to the test file; without it, the playbook of the same name beside the file."""

    tests: list[PlaybookTest]
    playbook: str = ""


class PlaybookTestResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one test. `problems` say what was expected and what was found; a test without problems passed."""

    file: str
    name: str
    problems: list[str] = []


def read_test_file(file: Path) -> PlaybookTestFile:
    """The tests of a file. Raises RefusedError with all mistakes of the file, each with its place."""
    try:
        source = Source(str(file), file.read_text("utf-8"))
    except OSError as problem:
        raise RefusedError(f"{file}: cannot be read ({problem.strerror})") from None
    except UnicodeDecodeError:
        raise RefusedError(f"{file}: this is a binary file, and a file of tests is YAML text") from None
    findings = Findings()
    root = read_yaml(source, findings)
    mistakes = [(found.span, f"{found.message}; {found.hint}" if found.hint else found.message) for found in findings]
    if isinstance(root, Mapping) and root.get("workflow") is not None and root.get("tests") is None:
        beside = file.with_name(f"{file.stem}{TEST_SUFFIX}")
        raise RefusedError(
            f"{file} is a playbook, and its tests are in a file of their own: noetl test {beside}"
            + ("" if beside.is_file() else ", which does not exist yet (docs/testing.md)")
        )
    if root is not None:
        found = [*shape_mistakes(root, PlaybookTestFile), *meaning_mistakes(root, load_kinds())]
        mistakes += [(mistake.node.span, mistake.text) for mistake in found]
    if mistakes:
        mistakes.sort(key=lambda one: (one[0].line, one[0].column))
        raise RefusedError("\n".join(f"{file}:{at.line}:{at.column}: {text}" for at, text in mistakes))
    return msgspec.convert(data(root), PlaybookTestFile)


def playbook_of(file: Path, given: PlaybookTestFile) -> Path:
    beside = given.playbook or f"{file.name.removesuffix(TEST_SUFFIX)}.yaml"
    if not (found := file.parent / beside).is_file():
        raise RefusedError(f'{file}: there is no playbook {found}; name it with "playbook: FILE"')
    return found


def run_test_file(file: Path) -> Iterator[PlaybookTestResult]:
    """Run the tests of a file, one after another. Raises RefusedError if the file or its playbook cannot be read."""
    given = read_test_file(file)
    playbook = playbook_of(file, given)
    for test in given.tests:
        yield PlaybookTestResult(file=str(file), name=test.name, problems=_problems(playbook, test))


def _problems(playbook: Path, test: PlaybookTest) -> list[str]:
    try:
        ran = run_story(playbook, test.story())
    except Stuck as problem:
        return [str(problem)]
    # Such as the errors of the playbook itself.
    except NoetlError as problem:
        return str(problem).splitlines()
    return list(_differences(ran, test.expect))


def _differences(ran: Ran, expect: Expected) -> Iterator[str]:
    if ran.status != expect.status:
        why = f": {ran.error['kind']}: {ran.error['message']}" if ran.error else ""
        yield f"status: expected {expect.status}, found {ran.status}{why}"
    if expect.result is not msgspec.UNSET and ran.result != expect.result:
        yield f"result: expected {_value_text(expect.result)}, found {_value_text(ran.result)}"
    kind = ran.error["kind"] if ran.error else None
    if expect.error is not msgspec.UNSET and kind != expect.error:
        yield f"error: expected {expect.error}, found {kind or 'none'}"
    for name, value in expect.ctx.items():
        if name not in ran.ctx or ran.ctx[name] != value:
            yield f"ctx.{name}: expected {_value_text(value)}, found {_value_text(ran.ctx.get(name))}"
    done = [event.step or "" for event in ran.of("step.done")]
    if expect.steps is not msgspec.UNSET and done != expect.steps:
        yield f"steps: expected {', '.join(expect.steps)}; found {', '.join(done)}"
    for kind, number in expect.calls.items():
        if (found := sum(call.kind == kind for call in ran.calls)) != number:
            yield f"calls of {kind}: expected {number}, found {found}"


def _value_text(value: Any) -> str:
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 300 else text[:299] + "…"
