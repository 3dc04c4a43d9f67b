"""The iterations of one loop, each with its first and last event: the data for a picture of the loop.

Nine bytes for an iteration. They are read in blocks, so that a client that follows a long loop reads only what has
changed. `NumberHistory` keeps counts as they were after each event that changed them: four bytes for each number of a
change, and a search of the changes to read one. A log of 100,000 events takes a few megabytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

import msgspec

from noetl.events.loops import IterationDone, IterationFailed, IterationStarted, LoopKept, LoopStarted


class NumberHistory:
    """Some numbers that belong together, `width` of them, by the number of the event they changed with."""

    __slots__ = ("_numbers", "_seqs", "_width")

    def __init__(self, width: int = 1) -> None:
        self._width = width
        self._seqs, self._numbers = array("I"), array("I")

    @property
    def size_bytes(self) -> int:
        return 4 * (len(self._seqs) + len(self._numbers))

    def put(self, seq: int, *numbers: int) -> None:
        """Set the numbers from event `seq` on."""
        # Several changes with one event are one: no reader sees the state between them.
        if self._seqs and self._seqs[-1] == seq:
            self._numbers[-self._width :] = array("I", numbers)
        elif tuple(self._numbers[-self._width :]) != numbers:
            self._seqs.append(seq)
            self._numbers.extend(numbers)

    def at(self, seq: int) -> tuple[int, ...] | None:
        """The numbers after event `seq`; None before they were first set."""
        end = bisect_right(self._seqs, seq) * self._width
        return tuple(self._numbers[end - self._width : end]) if end else None

    def is_changed(self, since: int, seq: int) -> bool:
        """Whether they changed after event `since`, until event `seq`."""
        return bisect_right(self._seqs, since) < bisect_right(self._seqs, seq)


BLOCK = 1_000  # iterations that are read together
MOST_FAILURES = 1_000  # failed iterations that are listed for one loop; all are counted
OPEN, RUNNING, DONE, FAILED, KEPT = b"01234"  # as a block spells them; kept ones are done too, by an earlier run
_MESSAGE = 300  # characters of one
_OWN_BYTES = 700  # of a loop without its iterations


class FailedIteration(msgspec.Struct, frozen=True):
    """An iteration that failed, with the event of the failure and the beginning of its message."""

    index: int
    seq: int
    kind: str
    message: str


class LoopCounts(msgspec.Struct, frozen=True):
    """Iterations. `unrun` were not run to their end, since the loop ended after a failure; `passed_over` are done
    although a task of theirs failed."""

    total: int
    done: int
    failed: int
    unrun: int = 0
    passed_over: int = 0


class LoopCells:
    """One level of a loop; `path` is the iteration around it, empty for the outermost."""

    __slots__ = (
        "_begun",
        "_changed",
        "_ended",
        "_kept",
        "_now",
        "_passed_over",
        "_states",
        "_total",
        "failures",
        "path",
        "seq",
        "step",
        "step_run_id",
    )

    def __init__(self, step: str, step_run_id: str, seq: int, payload: LoopStarted) -> None:
        self.step, self.step_run_id, self.path, self.seq = step, step_run_id, payload.path, seq
        self.failures: list[FailedIteration] = []
        # By iteration, the number of the event it began and ended with, 0 for none, and its state now.
        self._begun, self._ended, self._states = array("I"), array("I"), bytearray()
        self._changed = array("I")  # by block, the last event that changed it
        # Counted with each event, since counting the cells of a long loop for each reader would cost its length.
        self._now = LoopCounts(0, 0, 0)
        self._total, self._passed_over, self._kept = NumberHistory(), NumberHistory(), NumberHistory()
        self._grow(payload.total, seq)

    @property
    def size_bytes(self) -> int:
        return _OWN_BYTES + 9 * len(self._states) + 400 * len(self.failures)

    def take(self, payload: IterationStarted | IterationDone | IterationFailed, seq: int) -> None:
        index = payload.index
        if index >= self._now.total:
            self._grow(index + 1, seq)
        self._changed[index // BLOCK] = seq
        if isinstance(payload, IterationStarted):
            if not self._begun[index]:  # otherwise it continues after a lost lease
                self._begun[index] = seq
                self._states[index] = max(self._states[index], RUNNING)
        elif not self._ended[index]:
            self._end(payload, seq)

    def keep(self, payload: LoopKept, seq: int) -> None:
        """Iterations that an earlier run had done."""
        for index in payload.indices:
            self._changed[index // BLOCK] = seq
            self._ended[index], self._states[index] = seq, KEPT
        self._kept.put(seq, len(payload.indices))
        self._now = msgspec.structs.replace(self._now, done=self._now.done + len(payload.indices))

    def pass_over(self, seq: int) -> None:
        """An iteration is done although a task of it failed."""
        self._now = msgspec.structs.replace(self._now, passed_over=self._now.passed_over + 1)
        self._passed_over.put(seq, self._now.passed_over)

    def _end(self, payload: IterationDone | IterationFailed, seq: int) -> None:
        self._ended[payload.index] = seq
        is_failed = isinstance(payload, IterationFailed)
        self._states[payload.index] = FAILED if is_failed else DONE
        now = self._now
        self._now = msgspec.structs.replace(now, done=now.done + (not is_failed), failed=now.failed + is_failed)
        if isinstance(payload, IterationDone):
            if payload.extend:
                self._grow(now.total + len(payload.extend), seq)
        elif len(self.failures) < MOST_FAILURES:
            error = payload.error
            self.failures.append(FailedIteration(payload.index, seq, error.kind, error.message[:_MESSAGE]))

    def _grow(self, total: int, seq: int) -> None:
        more, now = total - self._now.total, self._now
        self._begun.extend([0] * more)
        self._ended.extend([0] * more)
        self._states.extend(bytes((OPEN,)) * more)
        self._changed.extend([0] * (-(-total // BLOCK) - len(self._changed)))
        for number in range(now.total // BLOCK, len(self._changed)):
            self._changed[number] = seq
        self._now = msgspec.structs.replace(now, total=total)
        self._total.put(seq, total)

    # the state after any event

    def counts(self, at: int) -> LoopCounts:
        if not self._is_past(at):
            return self._now
        total = (self._total.at(at) or (0,))[0]
        cells = [self._block(number, at, total) for number in range(-(-total // BLOCK))]
        return LoopCounts(
            total,
            sum(one.count(DONE) + one.count(KEPT) for one in cells),
            sum(one.count(FAILED) for one in cells),
            passed_over=(self._passed_over.at(at) or (0,))[0],
        )

    def kept_count(self, at: int) -> int:
        """How many of the iterations that are done an earlier run had done."""
        return (self._kept.at(at) or (0,))[0]

    def is_kept(self, index: int) -> bool:
        return self._states[index] == KEPT

    def blocks(self, at: int, since: int = 0) -> dict[int, str]:
        """The blocks after event `at`, by number, a digit for each iteration. For the current state, only those that
        changed after event `since`; for an earlier one, all of them."""
        is_past = self._is_past(at)
        total = (self._total.at(at) or (0,))[0] if is_past else self._now.total
        return {
            number: self._block(number, at, total).decode()
            for number in range(-(-total // BLOCK))
            if is_past or self._changed[number] > since
        }

    def span(self, index: int) -> tuple[int, int] | None:
        """The events that an iteration began and ended with, 0 for what has not happened; None if there is none."""
        return (self._begun[index], self._ended[index]) if 0 <= index < self._now.total else None

    def _is_past(self, at: int) -> bool:
        return max(self._changed, default=0) > at

    def _block(self, number: int, at: int, total: int) -> bytes:
        first, end = number * BLOCK, min((number + 1) * BLOCK, total)
        states = self._states[first:end]
        if self._changed[number] <= at:
            return bytes(states)
        spans = zip(self._begun[first:end], self._ended[first:end], states, strict=True)
        return bytes(
            state if 0 < ended <= at else RUNNING if 0 < begun <= at else OPEN for begun, ended, state in spans
        )
