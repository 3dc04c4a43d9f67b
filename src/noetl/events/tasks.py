"""Events of task runs, with what the policy said after each (POL-14). Also what a worker notes beside them."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.outcomes import Error, Outcome, Reference
from noetl.events.payloads import EventMeaning, EventPhase, Reported
from noetl.events.v2_case_positions import CaseDecision


class TaskStarted(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="task.started"):
    """`args` are the rendered ones, in v2-case only; large ones are at `args_ref` (V2C-26). `origin` is the construct
    that the compiler made this task from, as its path in the document (SUGAR-06)."""

    event_type = "task.started"
    meaning = EventMeaning("tool", EventPhase.OPEN)

    task: str
    kind: str
    # Name the task run within its pipeline (`Position`); a report that repeats both is a repeat (EVT-06).
    visit: int
    attempt: int
    task_run_id: str
    path: tuple[int, ...] = ()  # the iteration, one index per loop level; empty without a loop
    worker_id: str | None = None
    args: dict[str, Any] | None = None
    args_ref: Reference | None = None
    origin: str | None = None


class KeychainRefreshed(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="keychain.refreshed"):
    """A keychain entry was renewed (KEY-04). Its value is never recorded."""

    event_type = "keychain.refreshed"
    meaning = EventMeaning("keychain", EventPhase.GOOD)

    name: str
    visit: int
    attempt: int
    task_run_id: str
    path: tuple[int, ...] = ()


class Decided(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the policy said after one task run (POL-14).

    `rule` is an index, "default" without a policy, "unmatched" where no rule matched. `next` is the task that runs
    next, None when the pipeline ends; `error` is why it ends as failed. `set_vars`, `set_shared` and `set_prev` are
    of v2-eval; the last may set null, which differs from unset. `case` is where a v2-case step run stands now.
    """

    rule: int | str
    do: str  # the directive
    next: str | None = None
    delay_s: float = 0.0  # before the next attempt
    set_iter: dict[str, Any] = {}
    set_ctx: dict[str, Any] = {}
    set_vars: dict[str, Any] = {}
    set_shared: dict[str, Any] = {}
    set_prev: Any = msgspec.UNSET
    error: Error | None = None
    case: CaseDecision | None = None


class TaskProcessed(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="task.processed"):
    """`keeps_prev`: this task leaves `_prev` as it was (a noop without args). `path` is the iteration it
    belongs to, one index per loop level; empty without a loop. `deferred`: the task was accepted and runs beside its
    pipeline; `outcome` is that of accepting it (TOOL-12). `origin` as in `TaskStarted`."""

    event_type = "task.processed"
    meaning = EventMeaning("tool", EventPhase.IN_PAYLOAD, ends=("task.started",))

    task: str
    visit: int
    attempt: int
    task_run_id: str
    outcome: Outcome
    decision: Decided
    keeps_prev: bool = False
    path: tuple[int, ...] = ()
    worker_id: str | None = None
    deferred: bool = False
    origin: str | None = None

    @property
    def is_passed_over(self) -> bool:
        """Whether the task failed and its policy went on all the same (`do: continue`)."""
        return self.outcome.error is not None and self.decision.do == "continue"


# Reports on a task run besides its start and its outcome. The state does not follow from them.


class HookFailed(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="hook.failed"):
    """A hook of the task went wrong, which changes nothing (POL-13). `phase`: before | after | finally."""

    event_type = "hook.failed"
    meaning = EventMeaning("tool", EventPhase.BAD)

    hook: str
    phase: str
    error: Error
    task: str
    visit: int
    attempt: int
    task_run_id: str
    path: tuple[int, ...] = ()

    @property
    def mark(self) -> str:
        """The key that distinguishes it from other remarks of the task run."""
        return f"hook.failed {self.phase} {self.hook}"


class JobPlaced(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="quantum.placed"):
    """The backend that the job of a task was placed on, and the ones it was chosen from (QNT-06)."""

    event_type = "quantum.placed"
    meaning = EventMeaning("tool", EventPhase.GOOD)

    backend: str
    provider: str
    prefer: str
    considered: tuple[dict[str, Any], ...] = ()
    task: str
    visit: int
    attempt: int
    task_run_id: str
    path: tuple[int, ...] = ()

    @property
    def mark(self) -> str:
        return "quantum.placed"


Remark = HookFailed | JobPlaced
