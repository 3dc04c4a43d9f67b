"""What is shown of a run: lines for pipes, a screen for terminals, both from counts."""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec
import pytest
from rich.console import Console

from noetl.base.clock import ManualClock
from noetl.cli.live import Lines, is_for_people, output_lines
from noetl.cli.live_screen import Screen
from noetl.cli.live_text import error_line, lasted
from noetl.events.control import PlaybookPaused, TokenHeld
from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.loops import IterationDone, IterationFailed, LoopStarted
from noetl.events.outcomes import Error, Meta, Outcome, Status
from noetl.events.payloads import EventSource
from noetl.events.projection.projection import Projection
from noetl.events.steps import StepScheduled, StepStarted
from noetl.events.tasks import Decided, TaskProcessed, TaskStarted
from tests.playbook_runs import broken, run_here
from tests.tools.printing import printing

LOOP = """
workload: {n: 100}
workflow:
  - step: start
    next: {arcs: [{step: each}]}
  - step: each
    spec: {policy: {failure: {mode: best_effort}}}
    loop: {in: "{{ range(workload.n) | list }}", iterator: x, spec: {mode: parallel}}
    tool: {name: t, kind: python, args: {x: "{{ iter.x }}"}, code: "x"}
"""
START = 1_735_689_600.0


def happened(*payloads: Payload, at: float = 0.0, first: int = 1) -> list[Event]:
    """These events of step "each", all `at` seconds after the start."""
    return [
        Event(
            execution_id="x1",
            seq=seq,
            event_id=f"e{seq}",
            ts=START + at,
            source=EventSource.SERVER,
            payload=payload,
            trace_id="t",
            step="each",
            step_run_id="r1",
        )
        for seq, payload in enumerate(payloads, first)
    ]


def test_a_very_long_name_leaves_room_for_the_status() -> None:
    said: list[str] = []
    events = happened(StepScheduled(token_id="k1"), StepStarted(worker_id="w"))
    Lines(said.append)([msgspec.structs.replace(event, step="x" * 300) for event in events])

    [line] = said
    assert line.endswith("▸ started")
    assert len(line) < 80


def looping(total: int) -> list[Event]:
    return happened(StepScheduled(token_id="k1"), StepStarted(worker_id="w"), LoopStarted(total=total, parallel=True))


def done(first: int, last: int, *, at: float) -> list[Event]:
    return happened(*(IterationDone(index=n, path=(n,)) for n in range(first, last)), at=at)


def processed(
    *, do: str, error: Error | None = None, stdout: str | None = None, path: tuple[int, ...] = ()
) -> TaskProcessed:
    meta = Meta(attempt=1, started_at=0, finished_at=0.02, trace_id="t", task_run_id="k", stdout=stdout)
    status = Status.ERROR if error else Status.SUCCESS
    return TaskProcessed(
        task="call",
        visit=1,
        attempt=1,
        task_run_id="k",
        outcome=Outcome(status=status, meta=meta, error=error),
        decision=Decided(rule=0, do=do, next="call", delay_s=2.0),
        path=path,
    )


def lines_of(events: Sequence[Event]) -> list[str]:
    written: list[str] = []
    Lines(written.append)(events)
    return written


# lines


def test_iterations_are_reported_in_tenths_and_not_listed() -> None:
    ran = run_here(LOOP, t=lambda inputs, _: inputs["args"]["x"])

    lines = [line for line in lines_of(ran.events) if " each " in line]

    shares = [line.split("(")[1].split(" %")[0] for line in lines if " %)" in line]
    assert shares == ["10", "20", "30", "40", "50", "60", "70", "80", "90"]
    assert any("▸ loop of 100" in line for line in lines)
    assert any("✓ done, 100 of 100 iterations" in line for line in lines)
    assert len(lines) <= 14


def test_the_first_failures_of_a_loop_are_printed_and_all_are_counted() -> None:
    ran = run_here(LOOP, t=lambda inputs, _: broken(message=f"no {inputs['args']['x']}"))

    text = "\n".join(lines_of(ran.events))

    assert text.count("✗ iteration") == 3
    assert "✗ iteration 0: py.exception: no 0" in text
    assert "50 of 100 (50 %), 50 failed" in text


def test_a_slow_loop_is_reported_every_five_seconds_and_silence_every_thirty() -> None:
    written: list[str] = []
    clock = ManualClock(START)
    lines = Lines(written.append, clock=clock)
    lines(looping(1000))
    lines(done(0, 7, at=1))
    del written[:]

    clock.advance(4.9)
    lines.tick()
    assert written == []
    clock.advance(0.2)
    lines.tick()
    assert [line.split("each")[1].strip() for line in written] == ["7 of 1,000 (0 %), 7.0/s, 2:21 left"]

    quiet = Lines(written.append, clock=clock)
    quiet(happened(StepScheduled(token_id="k1", task="call"), StepStarted(worker_id="w"), at=5))
    del written[:]
    for _ in range(61):
        clock.advance(1)
        quiet.tick()
    assert len(written) == 2
    assert written[0].endswith("still running: each runs call (30 s)")


def test_task_output_is_printed_and_long_output_is_shortened() -> None:
    ran = run_here("workflow: [{step: start, tool: {name: t, kind: python, code: x}}]", t=printing("a\x1b[31mb\r\nc"))

    text = "\n".join(lines_of(ran.events))

    assert "│ ab␍" in text
    assert "│ c" in text
    assert output_lines("1\n2\n3\n4\n", most=2) == ["1", "2", "… 2 more lines, see noetl logs"]
    assert output_lines(None, most=2) == []


# the screen


class Shown:
    """A screen on paper, with a clock that stands still."""

    def __init__(self, *, width: int = 110, height: int = 24) -> None:
        self.paper = io.StringIO()
        self.clock = ManualClock(START)
        self.console = Console(file=self.paper, force_terminal=True, width=width, height=height, highlight=False)
        self.screen = Screen(self.console, clock=self.clock)

    def frame(self) -> list[str]:
        """What the next frame shows, without the codes that move and colour."""
        lines = self.console.render_lines(self.screen._frame(self.clock.now()), pad=False)
        return ["".join(segment.text for segment in line) for line in lines]

    def scrolled(self) -> list[str]:
        return [line.plain for line in self.screen._over]


def test_a_loop_is_a_bar_with_counts_rate_and_time_left() -> None:
    shown = Shown()
    shown.screen(looping(10_000))
    shown.screen(done(0, 2000, at=1.0))
    shown.screen(
        happened(
            *(IterationFailed(index=n, path=(n,), error=Error(kind="k", message="m")) for n in range(2000, 2500)),
            at=2.0,
        )
    )
    shown.clock.advance(2)

    [line, foot] = shown.frame()

    assert "2,500 of 10,000 (25 %), 500 failed" in line
    assert "1,250/s, 6.0 s left" in line
    assert line.count("━") == 6
    assert line.endswith("2.0 s")
    assert foot.strip() == "starting", "no event has told of a start"
    shown.screen.close()


def test_a_nested_loop_shows_its_innermost_level_and_the_outer_ones() -> None:
    shown = Shown()
    shown.screen(looping(3))
    shown.screen(happened(LoopStarted(total=40, path=(0,)), LoopStarted(total=60, path=(1,)), at=1))
    shown.screen(
        happened(*(IterationDone(index=n, path=(0, n)) for n in range(40)), IterationDone(index=0, path=(0,)), at=2)
    )

    assert "40 of 100 (40 %)" in shown.frame()[0]
    assert "outer 1 of 3" in shown.frame()[0]
    shown.screen.close()


def test_a_retry_is_shown_with_its_reason_and_time() -> None:
    shown = Shown()
    shown.screen(happened(StepScheduled(token_id="k1", task="call"), StepStarted(worker_id="w")))
    shown.screen(happened(processed(do="retry", error=Error(kind="http.status", message="503\x1b[2J"))))
    shown.clock.advance(0.5)

    first, second, _ = shown.frame()

    assert "call again in 1.5 s (attempt 2)" in first
    assert second.strip() == "↻ http.status: 503␛[2J"
    started = TaskStarted(task="call", kind="http", visit=1, attempt=2, task_run_id="k")
    shown.screen(happened(started))
    assert "runs call (attempt 2)" in shown.frame()[0]
    assert len(shown.frame()) == 2, "the reason goes when the task runs again"
    shown.screen.close()


def test_waiting_tokens_and_a_pause_are_shown() -> None:
    shown = Shown()
    shown.screen(happened(TokenHeld(token_id="k1", reason="join"), PlaybookPaused(reason="lunch")))

    assert "waits for the others at the join" in shown.frame()[0]
    assert any("paused: lunch" in line for line in shown.scrolled())
    shown.screen.close()


def test_finished_steps_scroll_up_with_their_duration_and_next_step() -> None:
    ran = run_here(LOOP, t=printing("hello"))
    shown = Shown()

    shown.screen(ran.events)

    assert shown.scrolled()[0] == "✓ start             done in 0 ms  → each"
    assert shown.scrolled()[1].startswith("✓ each              done, 100 of 100 iterations in ")
    assert [line for line in shown.frame() if "│ hello" in line], "output of iterations stays below"
    shown.screen.close()
    assert "iterations" in shown.paper.getvalue()


def test_no_frame_exceeds_the_terminal_size() -> None:
    shown = Shown(width=40, height=8)
    for n in range(30):
        [one] = happened(StepScheduled(token_id=f"k{n}", task="call"))
        shown.screen([msgspec.structs.replace(one, step=f"a_step_with_a_long_name_{n}", step_run_id=f"r{n}")])

    frame = shown.frame()

    assert len(frame) <= 6
    assert max(map(len, frame)) < 40
    assert "more lines" in frame[-2]
    shown.screen.close()


def test_ten_thousand_iterations_between_two_frames_are_one_frame() -> None:
    """Events only change what will be drawn: nothing is written until the screen is."""
    shown = Shown()
    shown.screen(looping(10_000))
    before = len(shown.paper.getvalue())

    shown.screen(done(0, 10_000, at=1.0))

    assert len(shown.paper.getvalue()) == before
    shown.screen.tick()
    assert shown.paper.getvalue().count("10,000 of 10,000") == 1
    shown.screen.close()


# who is shown what


class Stream(io.StringIO):
    def __init__(self, *, tty: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self._tty, self._encoding = tty, encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a plain attribute
        return self._encoding

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("stream", "environment", "people"),
    [
        (Stream(tty=True), {}, True),
        (Stream(tty=False), {}, False),
        (Stream(tty=True), {"CI": "true"}, False),
        (Stream(tty=True), {"CI": "false"}, True),
        (Stream(tty=True), {"TERM": "dumb"}, False),
        (Stream(tty=True, encoding="ascii"), {}, False),
    ],
)
def test_the_live_screen_is_used_only_on_interactive_terminals(
    stream: Stream, environment: dict[str, str], people: bool
) -> None:
    assert is_for_people(stream, environment) is people


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 ms"), (0.0124, "12 ms"), (3.21, "3.2 s"), (42, "42 s"), (125, "2:05"), (3725, "1:02:05")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert lasted(seconds) == text


def test_an_error_is_one_line_with_its_cause() -> None:
    error = Error(kind="retry.exhausted", message="gave\nup", cause=Error(kind="http.status", message="503"))

    assert error_line(error) == "retry.exhausted: gave up (because of http.status: 503)"


# what is known


def test_progress_distinguishes_nested_executions() -> None:
    progress = Projection()
    [own, other] = happened(StepScheduled(token_id="k1"), StepScheduled(token_id="k2"))
    progress.take(own)
    progress.take(msgspec.structs.replace(other, execution_id="x2", step_run_id="r2"))

    assert [view.step for view in progress.steps.values()] == ["each", "/each"]
    assert progress.status == "running"
