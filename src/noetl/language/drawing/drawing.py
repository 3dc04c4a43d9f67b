"""Drawing: the boxes of a net with their contents, and the arcs between them.

No positions and no output format: `layout.py` finds the first, `svg.py` and `text_forms.py` write the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from noetl.net.net import Loop, Net, Transition
from noetl.net.routing import Admission, Arc, CaseRule, Join, JoinMode, Mode, Router
from noetl.net.task import Directive, Task
from noetl.templates.values import Authored

# Edges: every way a token can take from one step to another, of any construct in any dialect.

# Target of an arc whose target is computed at run time.
UNKNOWN = "?"
_FAILURES = ("step.failed", "call.error", "timeout", "message.timeout")


class Manner(StrEnum):
    PLAIN = "plain"
    # Taken after a failure.
    FAILURE = "failure"
    COMPUTED = "computed"  # the target is a template


class Edge(msgspec.Struct, frozen=True):
    source: str
    target: str
    label: str = ""
    manner: Manner = Manner.PLAIN
    # The full condition; `label` may be shortened.
    guard: str = ""


def ways_of(net: Net) -> tuple[Edge, ...]:
    """All ways in YAML order, each once."""
    return tuple(dict.fromkeys(way for step in net.transitions for way in _edges_from(step)))


def _edges_from(step: Transition) -> Iterator[Edge]:
    if step.case is not None:
        for rule in step.case.rules:
            yield from _by_rule(step.name, rule)
    if step.router is not None:
        yield from _by_router(step.name, step.router)
    if step.timeout is not None and step.timeout.alternative:
        yield Edge(step.name, step.timeout.alternative, f"after {words(step.timeout.duration)}", Manner.FAILURE)


def _by_router(source: str, router: Router) -> Iterator[Edge]:
    guarded = False
    for arc in router.arcs:
        label = guard_words(arc.when)
        if arc.when is None and guarded and router.mode is Mode.EXCLUSIVE:
            label = "else"
        guarded = guarded or arc.when is not None
        yield from _by_arc(source, arc, label, guard_words(arc.when, WHOLE))


def _by_rule(source: str, rule: CaseRule) -> Iterator[Edge]:
    label = guard_words(rule.when) or "else"
    for action in rule.actions:
        for arc in action.transition:
            extra = f"{label}, after {words(action.delay)}" if action.delay is not None else label
            yield from _by_arc(source, arc, extra, guard_words(rule.when, WHOLE))


def _by_arc(source: str, arc: Arc, label: str, guard: str) -> Iterator[Edge]:
    if arc.tokens > 1:
        label = f"{label} ×{arc.tokens}".strip()
    if arc.delay is not None:
        label = f"{label}, after {words(arc.delay)}".removeprefix(", ")
    if arc.cancel:
        label = f"{label}, cancels {'the execution' if arc.cancel == ('*',) else ', '.join(arc.cancel)}"
    if arc.computed is not None:
        for target in arc.candidates or (UNKNOWN,):
            yield Edge(source, target, label.removeprefix(", "), Manner.COMPUTED, guard)
    else:
        manner = Manner.FAILURE if any(name in guard for name in _FAILURES) else Manner.PLAIN
        yield Edge(source, arc.target, label.removeprefix(", "), manner, guard)


# Templates and numbers as the few words that fit on a line of a drawing.

# Characters of a label; the whole guard is in `guard`, for a tool tip.
LONGEST = 44
WHOLE = 10_000  # long enough for any text

_WHOLE = re.compile(r"\{\{-?\s*(?P<inside>(?:(?!\{\{|\}\}).)*?)\s*-?\}\}\Z", re.DOTALL)
_EVENT = re.compile(r"""event\.name\s*==\s*(?P<quote>['"])(?P<name>[\w.]+)(?P=quote)""")
_EVENTS = re.compile(r"event\.name\s+in\s+[\[(](?P<names>[^\])]*)[\])]")


def words(value: Authored | Any, longest: int = LONGEST) -> str:
    """An authored value on one line: `{{ workload.items }}` is workload.items."""
    data = value.data if isinstance(value, Authored) else value
    text = data if isinstance(data, str) else _literal(data)
    whole = _WHOLE.match(text.strip())
    return shortened(whole["inside"] if whole else text, longest)


def _literal(data: Any) -> str:
    match data:
        case None:
            return "nothing"
        case bool():
            return "true" if data else "false"
        case list() | tuple():
            return "[" + ", ".join(words(item, 12) for item in data) + "]"
        case dict():
            return ", ".join(f"{key}: {words(item, 16)}" for key, item in data.items())
        case _:
            return str(data)


def guard_words(when: Authored | None, longest: int = LONGEST) -> str:
    """A guard: `{{ event.name == 'loop.done' }}` is loop.done."""
    if when is None:
        return ""
    text = words(when, WHOLE)
    text = _EVENT.sub(lambda found: found["name"], text)
    text = _EVENTS.sub(lambda found: " or ".join(re.findall(r"[\w.]+", found["names"])), text)
    return shortened(text, longest)


def shortened(text: str, longest: int = LONGEST) -> str:
    """One line, no longer than `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


class BoxRole(StrEnum):
    START = "start"
    STEP = "step"
    WAIT = "wait"
    END = "end"  # nothing leads on from here
    UNKNOWN = "unknown"


class Box(msgspec.Struct, frozen=True):
    """A step, or the place of an unknown target."""

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


# Contents of a step's box: its marks (loop, join, waits …) and its tasks, one per line.


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
        return ""  # every token is admitted
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
        assignee = step.human_task.role or step.human_task.user
        title = words(step.human_task.title) if step.human_task.title else "a decision"
        yield BoxMark("☺", "human", f"{title}, by {words(assignee)}" if assignee else title)


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
        """The text after the name."""
        jumps = f"↷ {', '.join(self.jumps)}" if self.jumps else ""
        under = f"if {self.under}" if self.under else ""
        return " ".join(part for part in (self.kind, jumps, under) if part)


def lines_of(step: Transition) -> tuple[BoxLine, ...]:
    """The tasks of a step as its author wrote them: tasks generated from sugar are folded again."""
    written = list(_pipeline(step.tasks))
    # A name that the compiler generated (TASK-03) carries no information.
    if [line.name for line in written] == [f"{step.name}_task"]:
        written = [msgspec.structs.replace(written[0], name=written[0].kind, kind="")]
    if step.sink is not None:
        written.append(_line(step.sink))
    for rule in step.case.rules if step.case is not None else ():
        written += _case_lines(rule)
    return tuple(written)


def _pipeline(tasks: tuple[Task, ...]) -> Iterator[BoxLine]:
    """One line per written task and per construct; a construct's tasks are between its first label and its merge."""
    checks = {task.name: task for task in tasks if task.generated is not None}
    within: list[str] = []
    for task in tasks:
        if task.generated is None:
            yield _line(task, depth=len(within))
            continue
        construct, _, part = task.name.rpartition("__")
        # The first task generated from a construct represents all of it.
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
    # Labels that the compiler made are left out: their construct is drawn in place of them.
    return BoxLine(task.name, task.kind, tuple(name for name in jumps if "__" not in name), under, depth)
