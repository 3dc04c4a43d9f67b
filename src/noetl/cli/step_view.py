"""Step views: what is known of a step run that has not ended, of a token that waits, and of a failure.

Plain data with the few figures that follow from it; which event changes what is `progress`.
"""

from __future__ import annotations

from collections import deque

import msgspec

from noetl.events.outcomes import Error

_SAMPLE_S, _WINDOW = 0.5, 20  # the rate is that of the last ten seconds


class Level(msgspec.Struct):
    """One depth of a loop: the iterations that are known of, and how many have ended."""

    total: int = 0
    done: int = 0
    failed: int = 0

    @property
    def ended(self) -> int:
        return self.done + self.failed


class RetryView(msgspec.Struct, frozen=True):
    """A task that is run again, and why."""

    task: str
    attempt: int
    at: float
    error: Error | None


class StepView(msgspec.Struct):
    """A step run that has not ended. `levels` are those of its loop, outermost first. `side_run`: it runs beside the
    tokens, as a compensation, a handler or an async task; `about` is what it handles."""

    step: str
    token_id: str
    since: float
    started_at: float | None = None
    task: str | None = None
    attempt: int = 1
    retry: RetryView | None = None
    retries: int = 0
    last_error: Error | None = None
    failing_task: str | None = None
    levels: list[Level] = []
    ended_at: float = 0.0
    samples: deque[tuple[float, int]] = msgspec.field(default_factory=deque)
    side_run: str | None = None
    about: str | None = None

    @property
    def level(self) -> Level | None:
        """The innermost level: what a bar shows."""
        return self.levels[-1] if self.levels else None

    def elapsed_s(self, now: float) -> float:
        return max(0.0, now - (self.since if self.started_at is None else self.started_at))

    def rate(self) -> float | None:
        """Iterations that end in a second, of late; None until that can be told."""
        if not self.samples or self.level is None:
            return None
        (began, before), ended = self.samples[0], self.level.ended
        return (ended - before) / (self.ended_at - began) if self.ended_at > began and ended > before else None

    def left_s(self) -> float | None:
        """Seconds until the loop is done, at this rate."""
        rate, level = self.rate(), self.level
        return (level.total - level.ended) / rate if rate and level is not None else None

    def sample(self, at: float) -> None:
        """Note how far the loop is; most calls cost one comparison."""
        assert self.level is not None
        self.ended_at = at
        if not self.samples or at - self.samples[-1][0] >= _SAMPLE_S:
            self.samples.append((at, self.level.ended))
            if len(self.samples) > _WINDOW:
                self.samples.popleft()


class Held(msgspec.Struct, frozen=True):
    """A token that waits before its step: at a join, for a change of `ctx`, or for a free slot; or a step run that
    waits for a moment or for somebody outside, then `about` says for what."""

    step: str
    reason: str
    since: float
    about: str | None = None


class Failure(msgspec.Struct, frozen=True):
    """What the execution failed of; the step is None for a request that was refused."""

    error: Error
    step: str | None = None
    task: str | None = None
