"""Drawing: what there is to draw of a net: boxes with their contents, and the ways between them.

No positions and no language: `layout` finds the first, `svg`, `mermaid`, `dot` and `ladder` write the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from noetl.language.drawing.edges import Edge, guard_words, shortened, ways_of, words
from noetl.net.net import Loop, Net, Transition
from noetl.net.routing import Admission, Join, JoinMode, Mode
from noetl.net.task import Directive, Task
from noetl.net.v2_case_rules import CaseRule


class BoxRole(StrEnum):
    START = "start"
    STEP = "step"
    WAIT = "wait"
    END = "end"  # nothing leads on from here
    UNKNOWN = "unknown"


class Box(msgspec.Struct, frozen=True):
    """A step, or the place of a target that cannot be told."""

    name: str
    role: BoxRole
    marks: tuple[BoxMark, ...] = ()
    lines: tuple[BoxLine, ...] = ()


class Drawing(msgspec.Struct, frozen=True):
    """Boxes and ways in YAML order."""

    title: str
    subtitle: str
    entry: str
    boxes: tuple[Box, ...]
    ways: tuple[Edge, ...]


def draw(net: Net) -> Drawing:
    """Everything of `net` that a picture shows."""
    ways = ways_of(net)
    leaving = {way.source for way in ways}
    boxes = [_box(step, net.entry, leaving) for step in net.transitions]
    known = {box.name for box in boxes}
    boxes += [Box(name, BoxRole.UNKNOWN) for name in dict.fromkeys(way.target for way in ways) if name not in known]
    return Drawing(net.name, f"{net.path} · {net.dialect}", net.entry, tuple(boxes), ways)


def _box(step: Transition, entry: str, leaving: set[str]) -> Box:
    return Box(step.name, _role(step, entry, leaving), marks_of(step), lines_of(step))


def _role(step: Transition, entry: str, leaving: set[str]) -> BoxRole:
    if step.name == entry:
        return BoxRole.START
    if step.name not in leaving:
        return BoxRole.END
    return BoxRole.WAIT if step.waits else BoxRole.STEP


# Contents: what stands inside a step's box: its marks (loop, join, waits …) and its tasks, one per line.


class BoxMark(msgspec.Struct, frozen=True):
    """Something a step has besides its tasks. `sign` is its one-character picture, `word` what it is."""

    sign: str
    word: str
    text: str


def marks_of(step: Transition) -> tuple[BoxMark, ...]:
    """Everything worth knowing about a step before its tasks."""
    return (*_entry(step), *_loops(step.loop), *_waits(step), *_side_marks(step))


def _entry(step: Transition) -> Iterator[BoxMark]:
    if step.join is not None:
        yield BoxMark("⋈", "join", _join_words(step.join))
    if step.admission is not None and (admitted := _admission_words(step.admission)):
        yield BoxMark("◇", "admit", admitted)
    if step.router is not None and step.router.mode is Mode.INCLUSIVE and len(step.router.arcs) > 1:
        guarded = any(arc.when is not None for arc in step.router.arcs)
        yield BoxMark("∥", "fork", "every way that holds" if guarded else "all ways at once")


def _join_words(join: Join) -> str:
    match join.mode:
        case JoinMode.COUNT:
            text = f"{join.count} tokens"
        case JoinMode.ANY:
            text = "the first token"
        case JoinMode.ACTIVE:
            text = "all that can still come"
        case JoinMode.ALL:
            text = "all branches"
    return text if join.rest == "ignore" else f"{text}, {join.rest} the rest"


def _admission_words(admission: Admission) -> str:
    allowing = [rule for rule in admission.rules if rule.allow or rule.park]
    first = admission.rules[0] if admission.rules else None
    if first is not None and first.allow and guard_words(first.when) in ("", "true"):
        return ""  # whatever comes is let in
    guards = [guard_words(rule.when, 28) or "else" for rule in allowing]
    return shortened("if " + " or ".join(guards), 48) if guards else "never"


def _loops(loop: Loop | None) -> Iterator[BoxMark]:
    while loop is not None:
        text = f"each {loop.iterator} in {words(loop.items, 30)}"
        if loop.parallel:
            text += f", {words(loop.max_in_flight)} at once" if loop.max_in_flight else ", in parallel"
        yield BoxMark("↻", "loop", text)
        loop = loop.inner


def _waits(step: Transition) -> Iterator[BoxMark]:
    if step.timer is not None:
        until = step.timer.duration is None
        yield BoxMark(
            "◷", "timer", ("until " if until else "") + words(step.timer.until if until else step.timer.duration)
        )
    if step.message is not None:
        yield BoxMark("✉", "message", words(step.message.name))
    if step.signal is not None:
        yield BoxMark("⚑", "signal", words(step.signal.name))
    if step.human_task is not None:
        who = step.human_task.role or step.human_task.user
        title = words(step.human_task.title) if step.human_task.title else "a decision"
        yield BoxMark("☺", "human", f"{title}, by {words(who)}" if who else title)


def _side_marks(step: Transition) -> Iterator[BoxMark]:
    if step.timeout is not None:
        yield BoxMark(
            "◔",
            "timeout",
            f"{words(step.timeout.duration)}, then {step.timeout.alternative or step.timeout.on_timeout}",
        )
    if step.compensation is not None:
        yield BoxMark("↶", "undo", ", ".join(task.name for task in step.compensation.tasks))
    if step.handlers is not None:
        for handler in step.handlers.handlers:
            yield BoxMark("⚡", "on", f"{handler.event}: {', '.join(task.name for task in handler.tasks)}")
    if step.concurrency is not None:
        yield BoxMark("⊓", "limit", f"{words(step.concurrency.limit)} at a time")
    if step.ends_execution:
        yield BoxMark("■", "end", "ends the execution")


class BoxLine(msgspec.Struct, frozen=True):
    """A task: its name, its kind, and where its policy may jump. `under` is the case condition it runs under; `depth`
    counts the choose, while and until around it."""

    name: str
    kind: str
    jumps: tuple[str, ...] = ()
    under: str = ""
    depth: int = 0

    @property
    def note(self) -> str:
        """What stands behind the name."""
        jumps = f"↷ {', '.join(self.jumps)}" if self.jumps else ""
        under = f"if {self.under}" if self.under else ""
        return " ".join(part for part in (self.kind, jumps, under) if part)


def lines_of(step: Transition) -> tuple[BoxLine, ...]:
    """The tasks of a step as its author wrote them: what the compiler made of sugar is folded up again."""
    written = list(_pipeline(step.tasks))
    if [line.name for line in written] == [f"{step.name}_task"]:  # a name the compiler gave (TASK-03) says nothing
        written = [msgspec.structs.replace(written[0], name=written[0].kind, kind="")]
    if step.sink is not None:
        written.append(_line(step.sink))
    for rule in step.case.rules if step.case is not None else ():
        written += _case_lines(rule)
    return tuple(written)


def _pipeline(tasks: tuple[Task, ...]) -> Iterator[BoxLine]:
    """One line per written task and per construct; a construct's tasks stand between its first label and its merge."""
    checks = {task.name: task for task in tasks if task.generated is not None}
    within: list[str] = []
    for task in tasks:
        if task.generated is None:
            yield _line(task, depth=len(within))
            continue
        construct, _, part = task.name.rpartition("__")
        if construct not in within:
            yield BoxLine(
                construct, _construct_words(task.generated, checks.get(f"{construct}__check")), depth=len(within)
            )
            within.append(construct)
        if part == "merge":
            within.remove(construct)


def _construct_words(construct: str, check: Task | None) -> str:
    rules = check.policy.rules if check is not None and check.policy is not None else ()
    condition = guard_words(rules[0].when, 28) if rules and construct != "choose" else ""
    return f"{construct} {condition}".strip()


def _case_lines(rule: CaseRule) -> list[BoxLine]:
    under = guard_words(rule.when, 26) or "else"
    return [_line(action.task, under) for action in rule.actions if action.task is not None]


def _line(task: Task, under: str = "", depth: int = 0) -> BoxLine:
    rules = task.policy.rules if task.policy else ()
    jumps = dict.fromkeys(rule.to for rule in rules if rule.do is Directive.JUMP and rule.to)
    return BoxLine(task.name, task.kind, tuple(name for name in jumps if "__" not in name), under, depth)
