"""One playbook in several dialects: read from a file that holds them side by side, and run with scripted tools.

A file has `workload`, `answers` (by task, in turn, the last one forever), the steps as each dialect writes them, and
what every form must lead to. `v10, in other words` is one more form of v10, with accepted spellings. Every older form
is also migrated, every v10 form is written as v10-io, and these texts are further forms.
"""

from __future__ import annotations

import asyncio
import functools
import re
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.events.envelope import Event
from noetl.events.tasks import TaskProcessed
from noetl.operations.embedded import RunResult, run_net
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.registry import Registry
from tests import quick_yaml
from tests.dialects.v10_io import in_v10_io
from tests.engine_script import net_of
from tests.fixtures.logs import check_log
from tests.fixtures.virtual_time import LoopClock, run_virtually
from tests.language.migrating.migrated import migrated
from tests.playbook_runs import Scripted

FOLDER = Path(__file__).parent / "playbooks"
# The deciding tasks of a migrated step whose rules are one pipeline with jumps.
DECIDING = re.compile(r"_(rules(_\d+)?|then|vars|exit|else|way|result|case_\d+_(set|next))$")
MIGRATED = ", migrated"
DIALECTS = ("v2-case", "v2-eval", "v10", "v10-io")
_HEADS = {
    "v2-case": "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: one, path: dialects/one, dialect: v2-case}\n",
    "v2-eval": "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: one, path: dialects/one, dialect: v2-eval}\n",
    "v10-io": "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: one, path: dialects/one, dialect: v10-io}\n",
    "v10": "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: one, path: dialects/one}\n",
}


class Playbook(msgspec.Struct, frozen=True):
    """`written`: the text of each form that is not migrated. `moved`: steps that a migration splits off, and where
    their tasks were before. `instead`: full expectations of single forms that behave differently."""

    name: str
    written: dict[str, str]
    answers: dict[str, Any]
    expect: dict[str, Any]
    moved: dict[str, str]
    instead: dict[str, dict[str, Any]]

    def forms(self) -> list[str]:
        return [*self.written, *(f"{form}{MIGRATED}" for form in self.written if form in ("v2-case", "v2-eval"))]

    def text(self, form: str) -> str:
        # A migration is made when a test asks for it: every process of the suite reads this list to collect the tests.
        before = form.removesuffix(MIGRATED)
        return self.written[form] if before == form else _migrated(self.written[before])

    def expected(self, form: str) -> dict[str, Any]:
        plain: dict[str, Any] = {"status": "completed", "result": None, "ctx": {}, "error": None, "delays": []}
        return {**plain, **self.expect, **self.instead.get(form, {})}


@functools.cache
def playbooks() -> list[Playbook]:
    return [_read(path) for path in sorted(FOLDER.glob("*.yaml"))]


def _read(path: Path) -> Playbook:
    texts = quick_yaml.loaded(path.read_text())
    forms = [key for key in texts if key.partition(",")[0] in DIALECTS]
    unknown = set(texts) - {"about", "workload", "ctx", "workbook", "answers", "expect", "moved", "instead", *forms}
    assert not unknown, f"{path.name}: {unknown}"
    if "v10" in texts and "v10-io" not in texts:
        texts["v10-io"] = quick_yaml.written(in_v10_io(quick_yaml.loaded(texts["v10"])))
        forms.append("v10-io")
    written = {form: _document(texts, form) for form in forms}
    more = (texts.get(key, {}) for key in ("moved", "instead"))
    return Playbook(path.stem, written, texts.get("answers", {}), texts["expect"], *more)


def _document(texts: dict[str, Any], form: str) -> str:
    """The whole text of one form. Other words are accepted under noetl.io/v2, whose shape says the dialect."""
    shared = {key: texts[key] for key in ("workload", "ctx", "workbook") if key in texts}
    steps = "".join(f"  {line}\n" for line in texts[form].splitlines())
    dialect, _, other_words = form.partition(",")
    head = _HEADS[dialect]
    if other_words:
        head = _HEADS["v2-case"].replace("v2-case", dialect)
    return f"{head}{quick_yaml.written(shared) if shared else ''}workflow:\n{steps}"


@functools.cache
def _migrated(text: str) -> str:
    migration = migrated(text)
    assert migration.blocked == (), [note.message for note in migration.blocked]
    return migration.text


class Ran(msgspec.Struct):
    """The actions and the outcome of a run, without any trace of its dialect."""

    result: RunResult
    events: list[Event]
    slept: list[float]
    calls: list[tuple[str, dict[str, Any]]]

    def tasks(self, moved: dict[str, str]) -> list[str]:
        """Every task run: step, task, attempt, status. Tasks generated from sugar are omitted; a step that a
        migration has split off counts as the one it was part of."""
        return [
            f"{moved.get(event.step or '', event.step)}/{one.task} {one.attempt} {one.outcome.status.value}"
            for event in self.events
            if isinstance(one := event.payload, TaskProcessed)
            and "__" not in one.task
            and not DECIDING.search(one.task)
        ]

    def summary(self, moved: dict[str, str]) -> dict[str, Any]:
        error = self.result.error
        return {
            "status": self.result.status.value,
            "result": self.result.result,
            "ctx": self.result.ctx,
            "error": error.kind if error else None,
            "tasks": self.tasks(moved),
            "delays": [delay for delay in self.slept if delay],
        }


_runs: dict[tuple[str, str], Ran] = {}


def run_form(playbook: Playbook, form: str) -> Ran:
    """Each form runs once in a process, however many tests ask what it did."""
    at = playbook.name, form
    if at not in _runs:
        _runs[at] = _run(playbook, form)
    return _runs[at]


def _run(playbook: Playbook, form: str) -> Ran:
    text = playbook.text(form)
    tool = Scripted(**{task: _answers(given) for task, given in playbook.answers.items()})
    events: list[Event] = []
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        await asyncio.sleep(seconds)

    async def running() -> RunResult:
        tools = Registry(dict.fromkeys(("http", "postgres", "python"), tool))
        return await run_net(
            net, payload={}, db=":memory:", watch=events.extend, tools=tools, clock=LoopClock(), sleep=sleep
        )

    net = net_of(text)
    result = run_virtually(running())
    check_log(events, dialect=net.dialect)
    return Ran(result, events, slept, tool.calls)


def _answers(given: Any) -> list[Any]:
    return [_answer(one) for one in (given if isinstance(given, list) else [given])]


def _answer(response: dict[str, Any]) -> Any:
    """One answer: `{ok: value}`, `{echo: name}` of an arg, `{http: body}`, `{rows: […]}`, `{status: 503}`,
    `{raise: words}`; `{unless: {name: value}, echo: …}` fails where an arg has that value."""
    match response:
        case {"unless": bad, "echo": name}:
            return lambda inputs, context: _unless(bad, inputs, context, inputs["args"][name])
        case {"echo": name}:
            return lambda inputs, context: inputs["args"][name]
        case {"ok": value}:
            return ToolResult(result=value)
        case {"http": body}:
            result = {"status": 200, "status_code": 200, "headers": {}, "data": body}
            return ToolResult(result=result, wrapped=True, helpers={"http": {"status": 200, "headers": {}}})
        case {"rows": rows}:
            return ToolResult(result={"data": rows, "row_count": len(rows), "columns": []}, wrapped=True)
        case {"status": status}:
            return ToolError("http.status", f"status {status}", status=status, headers=response.get("headers", {}))
        case {"raise": words}:
            return ToolError("py.exception", words)
    raise AssertionError(f"no such answer: {response}")


def _unless(bad: dict[str, Any], inputs: Any, context: ToolContext, value: Any) -> Any:
    if all(inputs["args"].get(name) == one for name, one in bad.items()):
        return ToolError("py.exception", f"{bad} is not wanted")
    return value
