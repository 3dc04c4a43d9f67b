"""What a worker tells of a task run besides its start and its outcome. The state does not follow from them."""

from __future__ import annotations

from typing import Any

from noetl.events.outcomes import Error
from noetl.events.payloads import EventMeaning, EventPhase, Reported


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
        """What tells it from other remarks of the task run."""
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
