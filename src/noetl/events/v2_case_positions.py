"""Case runs: the position of a v2-case step run between its call, its rules and its sinks, and the events about it
(C-13).

A `CasePosition` is all that another worker needs to go on: it is recorded with every task, so that no rule is evaluated
twice after a crash. The other events here are for the reader; the state follows from the position.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from noetl.events.outcomes import Error, Status
from noetl.events.payloads import EventMeaning, EventPhase, Reported

Path = tuple[int, ...]


class Phase(StrEnum):
    """What comes next once no rule is being run (O-29)."""

    ENTER = "enter"
    CALL = "call"
    SINK = "sink"
    VARS = "vars"
    EXIT = "exit"
    LISTEN = "listen"  # to events of the whole execution (V2C-13)
    ELSE = "else"
    OVER = "over"


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Plain data of a case position."""


class OwnEvent(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """An event as a step's rules see it (V2C-06). `task` is the one of the step itself whose result `response` is;
    `step` and `data` are set for an event of another step (V2C-13), or of a `wait` of the step itself, which may have
    `given` it a result (TMR-02, HUM-01)."""

    name: str
    task: str | None = None
    error: Error | None = None
    step: str | None = None
    data: Any = None
    wait: bool = False
    given: Any = msgspec.UNSET


class CaseCalls(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """A sequence of calls under retry policies (V2C-16).

    `rule` is the case rule whose policies repeat the call, None for the step's own. `errors` and `successes` count the
    calls of each policy; `streak` and `responses` are the errors in a row and the responses so far. `over` is what
    `next_call` laid over the inputs. `policy` is the one that asked for the call under way. `sinks` is the next policy
    whose sink may run.
    """

    rule: int | None = None
    count: int = 0
    streak: int = 0
    responses: int = 0
    errors: dict[int, int] = {}
    successes: dict[int, int] = {}
    over: dict[str, Any] = {}
    policy: int | None = None
    sinks: int = 0


class Chosen(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """A transition that a rule decided: its action, and the event it was decided on."""

    rule: int
    action: int
    event: OwnEvent


class Taken(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """One target of the transition, rendered when it is taken (V2C-25, V2C-26)."""

    rule: int
    action: int
    step: str
    args: dict[str, Any] = {}
    delay_s: float = 0.0


class CasePosition(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """Where the step run stands. Rules are named by their number in the step."""

    phase: Phase = Phase.ENTER
    at: str | None = None  # the address of the task to run next
    # The pass over the rules that is under way.
    event: OwnEvent | None = None  # the event that rules are evaluated for
    matching: tuple[int, ...] = ()  # rules that `event` still has to run
    action: int = 0  # the next action of the first of them
    repeated: bool = False  # that rule has had its retry
    queue: tuple[OwnEvent, ...] = ()  # events of tools in `then` lists, delivered after the pass
    # All passes so far.
    fired: tuple[int, ...] = ()  # rules that have run; each runs once
    cached: dict[int, bool] = {}  # conditions that are evaluated once
    matched: bool = False  # some rule has matched, so `else` does not run
    calls: CaseCalls = CaseCalls()
    # The result at the end of the step run.
    error: Error | None = None  # one that nothing has handled yet
    result_of: str | None = None  # the task whose result is the step's
    given: Any = msgspec.UNSET  # the result that a wait has given instead
    chosen: Chosen | None = None  # the first transition that was decided; no rule is asked after it
    taken: tuple[Taken, ...] = ()  # its targets that have been rendered
    # Events from outside.
    listens: bool = False  # events of other steps are kept for it from here on
    unheard: bool = False  # no more of them can come
    arms: bool = False  # it has come to its wait blocks


class CaseEvaluated(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="case.evaluated"):
    """One pass over the rules, on one event: each rule's value, or why it has none ("fired", "not_evaluated"), and
    which ones run. `otherwise`: no rule had matched, so `else` runs."""

    event_type = "case.evaluated"
    meaning = EventMeaning("case", EventPhase.GOOD)

    on: str
    mode: str
    rules: tuple[bool | str, ...] = ()
    fired: tuple[int, ...] = ()
    otherwise: bool = False
    path: Path = ()


class RetryStarted(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="retry.started"):
    """The call is made again: `policy` asked for it, after `delay_s`. `count` is the number of that call."""

    event_type = "retry.started"
    meaning = EventMeaning("retry", EventPhase.OPEN)

    task: str
    policy: int
    count: int
    delay_s: float = 0.0
    path: Path = ()


class RetryProcessed(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="retry.processed"):
    event_type = "retry.processed"
    meaning = EventMeaning("retry", EventPhase.IN_PAYLOAD, ends=("retry.started",))

    task: str
    policy: int
    count: int
    status: Status
    path: Path = ()


class SinkStarted(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="sink.started"):
    event_type = "sink.started"
    meaning = EventMeaning("sink", EventPhase.OPEN)

    task: str
    path: Path = ()


class SinkProcessed(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="sink.processed"):
    event_type = "sink.processed"
    meaning = EventMeaning("sink", EventPhase.IN_PAYLOAD, ends=("sink.started",))

    task: str
    status: Status
    path: Path = ()


Note = CaseEvaluated | RetryStarted | RetryProcessed | SinkStarted | SinkProcessed


class CaseDecision(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """What evaluating the case decided: where the step run stands now. `notes` are events of their own and are not
    recorded a second time with the task they follow from. `keeps_page`: the response is one of those collected."""

    position: CasePosition
    notes: tuple[Note, ...] = ()
    keeps_page: bool = False
