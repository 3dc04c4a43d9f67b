"""Test files: `NAME.test.yaml` beside a playbook says what to give it and what to expect (docs/testing.md).

Each test runs as those of the pytest plug-in do, in memory and in virtual time, with tools that are faked by kind. A
test file is YAML alone, so an answer of a tool says whether it is a result or an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.diagnostics import Findings
from noetl.base.errors import NoetlError, RefusedError, ToolError
from noetl.base.source import TEST_SUFFIX, Source
from noetl.language.reading.nodes import data
from noetl.language.reading.yaml import read_yaml
from noetl.testing.playbook_runs import Ran, Story, Stuck, run_story
from noetl.testing.yaml_mistakes import meaning_mistakes, shape_mistakes
from noetl.tools.kinds import load_kinds

_YEAR_S = 366 * 86_400.0


class _Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that is misspelt is refused: a test that expects nothing would pass."""


class FakeError(_Shape, frozen=True, kw_only=True):
    """As a tool raises it. `details` are what rules read beside it, such as `{status: 503}`."""

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
    """What must hold at the end; what is left out may be anything. Of `ctx` only the keys that are named are compared;
    `steps` are the steps that were done, in order; `calls` is how often each faked kind was called."""

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
    """`playbook` is relative to the file; without it, it is the playbook of the same name beside it."""

    tests: list[PlaybookTest]
    playbook: str = ""


class PlaybookTestResult(msgspec.Struct, frozen=True, kw_only=True):
    """One test that was run. `problems` say what was expected and what was found; without any, it passed."""

    file: str
    name: str
    problems: list[str] = []


def read_test_file(file: Path) -> PlaybookTestFile:
    """RefusedError says everything that is wrong with it, each with its place."""
    try:
        source = Source(str(file), file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise RefusedError(f"{file}: {problem}") from None
    findings = Findings()
    root = read_yaml(source, findings)
    said = [(found.span, f"{found.message}; {found.hint}" if found.hint else found.message) for found in findings]
    if root is not None:
        found = [*shape_mistakes(root, PlaybookTestFile), *meaning_mistakes(root, load_kinds())]
        said += [(mistake.node.span, mistake.text) for mistake in found]
    if said:
        said.sort(key=lambda one: (one[0].line, one[0].column))
        raise RefusedError("\n".join(f"{file}:{at.line}:{at.column}: {text}" for at, text in said))
    return msgspec.convert(data(root), PlaybookTestFile)


def playbook_of(file: Path, given: PlaybookTestFile) -> Path:
    beside = given.playbook or f"{file.name.removesuffix(TEST_SUFFIX)}.yaml"
    if not (found := file.parent / beside).is_file():
        raise RefusedError(f'{file}: there is no playbook {found}; name it with "playbook: FILE"')
    return found


def run_test_file(file: Path) -> Iterator[PlaybookTestResult]:
    """Its tests, one after another. RefusedError where the file or its playbook cannot be read."""
    given = read_test_file(file)
    playbook = playbook_of(file, given)
    for test in given.tests:
        yield PlaybookTestResult(file=str(file), name=test.name, problems=_problems(playbook, test))


def _problems(playbook: Path, test: PlaybookTest) -> list[str]:
    try:
        ran = run_story(playbook, test.story())
    except Stuck as problem:
        return [str(problem)]
    except NoetlError as problem:  # errors of the playbook itself, among others
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
