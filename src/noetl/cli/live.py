"""Live: what a run does, one line per transition as it happens, for people (DEPENDENCIES §6).

Only what is committed is shown. Signs come with words, never alone and never as colour alone; text from playbooks and
tools is made safe to print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from noetl.cli.terminal import Paint, plain, visible
from noetl.records.envelope import Event
from noetl.records.events import (
    NextSelected,
    ReportRefused,
    StepDenied,
    StepDone,
    StepFailed,
    StepStarted,
    TaskProcessed,
    TokenClaimed,
    TokenDropped,
    WorkflowStarted,
)
from noetl.records.outcomes import Error

_WIDEST = 160  # of a message; the log has the rest
_STEP = 16  # columns of a step's name


class Live:
    """Turns events into lines for `write`."""

    def __init__(self, write: Callable[[str], None], *, paint: Paint = plain) -> None:
        self._write = write
        self._paint = paint
        self._began: float | None = None

    def __call__(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._began is None:
                self._began = event.ts
            for line in self._lines(event):
                elapsed = self._paint(f"{event.ts - self._began:8.3f}s", dim=True)
                self._write(f"{elapsed}  {visible(event.step or ''):{_STEP}}  {line}")

    def _lines(self, event: Event) -> Iterable[str]:
        payload = event.payload
        match payload:
            case WorkflowStarted():
                yield f"▸ started at {visible(payload.entry)}"
            case StepStarted() if not event.on_behalf and payload.worker_id != "server":
                yield "▸ started"
            case TokenClaimed() if payload.lease_epoch > 1:
                yield f"▸ taken up again (lease {payload.lease_epoch})"
            case TaskProcessed():
                yield from self._task(payload)
            case StepDone():
                yield self._paint("✓ done", fg="green")
            case StepFailed():
                yield self._bad("failed", payload.error)
            case StepDenied():
                yield self._paint("- denied", fg="yellow")
            case TokenDropped() if payload.error is not None:
                yield self._bad("dropped", payload.error)
            case NextSelected():
                yield from self._route(payload)
            case ReportRefused():
                yield self._paint(f"- late report refused ({payload.reason})", fg="yellow")

    def _task(self, processed: TaskProcessed) -> Iterable[str]:
        name, outcome, decision = visible(processed.task), processed.outcome, processed.decision
        if outcome.error is None:
            line = f"  {self._paint('✓', fg='green')} {name} ok, {outcome.meta.duration_ms:.0f} ms"
        else:
            line = "  " + self._bad(f"{name}", outcome.error)
        if decision.do == "retry":
            line += f"; again in {decision.delay_s:g} s (attempt {processed.attempt + 1})"
        elif decision.do == "jump":
            line += f"; jump to {visible(decision.next or '')}"
        elif outcome.error is not None and decision.error is None:
            line += f"; {decision.do}, policy {decision.rule}"
        yield line

    def _route(self, selected: NextSelected) -> Iterable[str]:
        fired = [visible(arc.step) for arc in selected.arcs if arc.fired]
        if fired:
            yield f"→ {', '.join(fired)}"
        elif selected.ended == "tolerated":
            yield self._paint("- failure tolerated (best effort)", fg="yellow")

    def _bad(self, word: str, error: Error) -> str:
        return self._paint(f"✗ {word}", fg="red") + f": {told(error)}"


def told(error: Error) -> str:
    """An error in one line: its kind and words, and the cause behind it."""
    text = f"{error.kind}: {error.message}"
    if error.cause is not None:
        text += f" (because of {error.cause.kind}: {error.cause.message})"
    first = visible(" ".join(text.split()))
    return first if len(first) <= _WIDEST else first[: _WIDEST - 1] + "…"
