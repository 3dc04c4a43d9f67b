"""Scenarios: conversations with the engine as text, one file per rule of the specification.

A file is a comment, then blocks of a request, `----`, and what the engine answered. `NOETL_GOLDEN=1` rewrites the
answers; read the difference before you keep it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.events.control import JoinFilled, JoinUnfilled, PlaybookCancelled, TokenHeld
from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed
from noetl.events.loops import (
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopDone,
    LoopScheduled,
    LoopStarted,
)
from noetl.events.orders import Entry, Report
from noetl.events.outcomes import Error, TaskResult
from noetl.events.steps import CtxPatched, StepDone, StepFailed, StepStarted
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.tokens import ArcConsidered, NextEnqueued, NextSelected, TokenClaimed, TokenDropped
from noetl.events.v2_case_positions import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from tests.case_worker_script import case_entries
from tests.engine.looping import LoopTalk
from tests.engine_script import Conversation

FOLDER = Path(__file__).parent
SCENARIOS = sorted(FOLDER.glob("*.txt"))
MARK = "----"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_behaves_as_described(path: Path, request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.req("-".join(path.stem.split("-")[:2])))
    text = path.read_text()

    spoken = replay(text)

    if os.environ.get("NOETL_GOLDEN"):
        path.write_text(spoken)
        text = spoken
    assert spoken == text


def test_the_folder_contains_scenarios() -> None:
    assert SCENARIOS


def replay(text: str) -> str:
    """The same text with the answers the engine gives now."""
    talk = Scene()
    written = []
    for block in blocks(text):
        request, sign, _ = block.partition(f"\n{MARK}")
        if sign:
            answer = talk.answer(request)
            block = f"{request}\n{MARK}" + "".join(f"\n{line}" for line in answer)
        written.append(block)
    return "\n\n".join(written) + "\n"


def blocks(text: str) -> list[str]:
    return text.strip("\n").split("\n\n")


class Scene:
    """One conversation, asked in words."""

    def __init__(self) -> None:
        self._talk: LoopTalk | None = None
        self._last: Report | None = None

    def answer(self, request: str) -> list[str]:
        verb, _, rest = request.partition("\n") if request.startswith("playbook") else request.partition(" ")
        if verb == "playbook":
            self._talk = LoopTalk(rest)
            return []
        assert self._talk is not None, "a scenario begins with its playbook"
        words = [word for word in _words(rest) if "=" not in word]
        options = dict(word.split("=", 1) for word in _words(rest) if "=" in word)
        answering: Callable[[Conversation, list[str], dict[str, str]], list[str]] = getattr(self, f"_{verb}")
        return answering(self._talk, words, options)

    def _start(self, talk: Conversation, words: list[str], options: dict[str, str]) -> list[str]:
        return self._told(talk, talk.start(**{key: msgspec.json.decode(value) for key, value in options.items()}))

    def _claim(self, talk: Conversation, words: list[str], options: dict[str, str]) -> list[str]:
        return self._told(talk, talk.claim(words[0], worker_id=options.get("worker")))

    def _pause(self, talk: Conversation, words: list[str], options: dict[str, str]) -> list[str]:
        return self._told(talk, talk.pause())

    def _resume(self, talk: Conversation, words: list[str], options: dict[str, str]) -> list[str]:
        return self._told(talk, talk.resume())

    def _cancel(self, talk: Conversation, words: list[str], options: dict[str, str]) -> list[str]:
        return self._told(talk, talk.cancel())

    def _report(self, talk: Conversation, words: list[str], options: dict[str, str]) -> list[str]:
        name, what = words[0], words[-1]
        entries = _entries(talk, name, what, options)
        epoch = int(options["epoch"]) if "epoch" in options else None
        self._last = talk.report_of(name, *entries, epoch=epoch, worker_id=options.get("worker"))
        return self._reported(talk)

    def _iterate(self, talk: LoopTalk, words: list[str], options: dict[str, str]) -> list[str]:
        """`iterate start#1 1.0`: a whole iteration, by its path, reported by whoever holds it."""
        path = tuple(int(part) for part in words[1].split("."))
        error = Error(kind=options["error"], message="told by the scenario") if "error" in options else None
        decided = {"set_ctx": msgspec.json.decode(options["set_ctx"])} if "set_ctx" in options else {}
        result = msgspec.json.decode(options.get("result", "null"))
        return self._told(talk, talk.iterate(path, result, name=words[0], error=error, **decided))

    def _case(self, talk: Conversation, words: list[str], options: dict[str, str]) -> list[str]:
        """`case start#1 result=…`: what a worker of v2-case reports once the next task has given that."""
        error = Error(kind=options["error"], message="told by the scenario") if "error" in options else None
        entries = case_entries(talk, words[0], msgspec.json.decode(options.get("result", "null")), error)
        self._last = talk.report_of(words[0], *entries)
        return self._reported(talk)

    def _again(self, talk: Conversation, words: list[str], options: dict[str, str]) -> list[str]:
        return self._reported(talk)

    def _reported(self, talk: Conversation) -> list[str]:
        assert self._last is not None
        verdict, events = talk.report(self._last)
        return [f"({verdict})", *self._told(talk, events)]

    def _told(self, talk: Conversation, events: list[Event]) -> list[str]:
        names = {run_id: name for name, run_id in talk.names.items()}
        return [line(event, names) for event in events]


def _words(rest: str) -> list[str]:
    """Words, where an option's JSON value may hold spaces."""
    words: list[str] = []
    for word in rest.split(" "):
        if words and words[-1].count("{") > words[-1].count("}"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def _entries(talk: Conversation, name: str, what: str, options: dict[str, str]) -> list[Entry]:
    result = msgspec.json.decode(options.get("result", "null"))
    error = Error(kind=options["error"], message="told by the scenario") if "error" in options else None
    decided: dict[str, Any] = {"next": options.get("next")}
    if "set_ctx" in options:
        decided["set_ctx"] = msgspec.json.decode(options["set_ctx"])
    started, processed = talk.task(name, result, error=error, **decided)
    match what:
        case "task.started":
            return [started]
        case "task.processed":
            return [started, processed]
        case "step.done":
            return [started, processed, StepDone(result=TaskResult(result=result))]
        case "step.failed":
            assert error is not None
            return [started, processed, StepFailed(error=error)]
        case _:
            raise ValueError(f"nothing called {what} can be reported")


def line(event: Event, names: dict[str, str]) -> str:
    """One event in one line: its name, whose it is, and what it adds."""
    whose = names.get(event.step_run_id or "", event.step or "")
    mark = " (on behalf)" if event.on_behalf else ""
    return f"{event.event_type:28} {whose:14} {_words_of(event, names)}".rstrip() + mark


def _words_of(event: Event, names: dict[str, str]) -> str:
    payload = event.payload
    match payload:
        case NextSelected():
            arcs = " ".join(_arc(arc) for arc in payload.arcs) or "-"
            ended = f" ended {payload.ended}" if payload.ended else ""
            return arcs + ended
        case NextEnqueued():
            return f"-> {payload.step}"
        case CtxPatched():
            return msgspec.json.encode(payload.patch).decode()
        case TokenClaimed():
            return f"by {payload.worker_id}" + (f" lease {payload.lease_epoch}" if payload.lease_epoch else "")
        case StepStarted():
            return f"by {payload.worker_id}"
        case TokenDropped() | PlaybookCancelled():
            return payload.reason
        case TokenHeld():
            return payload.reason + (f" {payload.slot}" if payload.slot else "")
        case JoinFilled() | JoinUnfilled():
            return f"{len(payload.tokens)} tokens"
        case LoopStarted():
            return f"{payload.total} at {list(payload.path)}"
        case LoopScheduled():
            return f"{payload.indices or [payload.first, payload.last]} at {list(payload.path)} by {payload.slots}"
        case IterationStarted() | IterationDone():
            return f"{list(payload.path)}"
        case IterationFailed():
            return f"{list(payload.path)} {payload.error.kind}"
        case LoopDone():
            return f"{payload.done} of {payload.total}: {msgspec.json.encode(payload.results).decode()}"
        case CaseEvaluated():
            otherwise = " else" if payload.otherwise else ""
            return f"on {payload.on}: {' '.join(str(value).lower() for value in payload.rules)}{otherwise}".rstrip(": ")
        case RetryStarted():
            return f"{payload.task} call {payload.count} by {payload.policy} after {payload.delay_s:g}"
        case RetryProcessed() | SinkProcessed():
            return f"{payload.task} {payload.status}"
        case SinkStarted():
            return payload.task
        case TaskStarted():
            return f"{payload.task} attempt {payload.attempt}"
        case TaskProcessed():
            decision = payload.decision
            return f"{payload.task} {payload.outcome.status} {decision.do} by {decision.rule}"
        case StepDone():
            return msgspec.json.encode(payload.result.result).decode()
        case StepFailed():
            return payload.error.kind
        case PlaybookProcessed():
            return payload.status.value
        case _:
            return ""


def _arc(arc: ArcConsidered) -> str:
    return f"{arc.step}={str(arc.guard).lower()}{'!' if arc.fired else ''}"
