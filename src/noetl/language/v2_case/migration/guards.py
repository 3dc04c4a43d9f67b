"""Conditions of v2-case taken apart: the events of the step that they test, and their other parts.

Only a condition that joins its parts with `and` can be taken apart; of any other, no more is known than its text.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.base.template_names import NameToken, Renames, expression, paths, renamed, template, tokens
from noetl.language.reading.nodes import Scalar

DONE, ERROR, EXIT, ENTER = "call.done", "call.error", "step.exit", "step.enter"
_ALIASES = {
    **dict.fromkeys(("step.enter", "start", "StepStarted", "step.started"), ENTER),
    **dict.fromkeys(("call.done", "ToolCompleted", "step.done", "loop.done"), DONE),
    **dict.fromkeys(("call.error", "ToolErrored", "step.failed"), ERROR),
    "step.exit": EXIT,
    # the events of one iteration (V2C-23)
    "loop.iteration.started": ENTER,
    "loop.iteration.done": DONE,
    "loop.iteration.failed": ERROR,
}


class Guard(msgspec.Struct, frozen=True):
    """`events` None: any event. `rest` are the other conditions, each without braces."""

    events: frozenset[str] | None
    rest: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing but events."""
        return not self.rest

    def only(self, *events: str) -> bool:
        return self.events is not None and self.events <= set(events)

    def overlaps(self, other: Guard) -> bool:
        """Whether both can be true of one step run."""
        if self.events is None or other.events is None:
            return True
        return bool(_spread(self.events) & _spread(other.events))

    def competes(self, other: Guard) -> bool:
        """Whether both test the same event, so that in an exclusive case only the first rule gets it."""
        if self.events is None or other.events is None:
            return True
        return bool(self.events & other.events)

    @property
    def waits(self) -> bool:
        """Whether it only asks for events that are not the call's: timers, messages, people."""
        return self.events is not None and not self.events & {DONE, ERROR, EXIT, ENTER}

    @property
    def after_success(self) -> bool:
        """Whether it can be true once the call has succeeded."""
        return self.events is None or bool(self.events & {DONE, EXIT, ENTER})

    @property
    def is_wide(self) -> bool:
        """Whether one step run has several events for it."""
        return self.events is None or (EXIT in self.events and len(self.events) > 1)

    @property
    def on_entry(self) -> bool:
        """Whether it can be true when the step is entered."""
        return self.events is None or ENTER in self.events

    @property
    def after_failure(self) -> bool:
        """Whether it can be true once the call has failed."""
        return self.events is None or bool(self.events & {ERROR, EXIT})


def read_guard(when: Scalar | None) -> Guard | None:
    """The condition taken apart, or None if its text is more than one expression."""
    if when is None or when.value is True:
        return Guard(None, ())
    inner = expression(str(when.value)) if isinstance(when.value, str) else "false"
    if inner is None:
        return None
    events: frozenset[str] | None = None
    rest: list[str] = []
    for part in conjuncts(inner):
        asked = _events(part)
        if asked is not None:
            # Two tests of `event.name` joined by `and`: only what both ask for.
            events = asked if events is None else events & asked
        elif part.lower() != "true":
            rest.append(part)
    return Guard(events, tuple(rest))


def conjuncts(inner: str) -> list[str]:
    """The parts that a top-level `and` joins; the whole if `or` or `if` is next to them."""
    found = tokens(template(inner))
    if found is None:
        return [inner]
    depth, parts, current = 0, [], list[NameToken]()
    for token in found[1:-1]:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        # `a and b or c` is no list of conditions that must all hold: it stays whole.
        if depth == 0 and token.kind == "name" and token.text in ("or", "if"):
            return [inner]
        if depth == 0 and token.kind == "name" and token.text == "and":
            parts.append(current)
            current = []
        else:
            current.append(token)
    return ["".join(token.text for token in part).strip() for part in [*parts, current]]


def _events(part: str) -> frozenset[str] | None:
    """The events that `event.name == '…'` or `event.name in […]` asks for; None if the part is something else."""
    found = [token for token in tokens(template(part)) or () if token.kind != "whitespace"][1:-1]
    words = [token.text for token in found]
    strings = [token.text.strip("'\"") for token in found if token.kind == "string"]
    if len(words) == 5 and sorted(words) == sorted(
        ["event", ".", "name", "==", *(t.text for t in found if t.kind == "string")]
    ):
        return frozenset(_ALIASES.get(name, name) for name in strings)
    listed = all(token.kind == "string" or token.text in "[](),," for token in found[4:])
    if words[:4] == ["event", ".", "name", "in"] and listed and strings:
        return frozenset(_ALIASES.get(name, name) for name in strings)
    return None


def event_condition(events: frozenset[str] | None, *, looped: bool) -> str | None:
    """The same events as an arc tests them; None for every event."""
    if events is None:
        return None
    names: list[str] = []
    for event in sorted(events):
        match event:
            case "call.done":
                names.append("loop.done" if looped else "step.done")
            case "call.error":
                names.append("step.failed")
            case "step.exit":
                names += ["loop.done" if looped else "step.done", "step.failed"]
            case "step.enter":
                names.append("step.done")
            case _:
                names.append(event)
    unique = list(dict.fromkeys(names))
    if len(unique) == 1:
        return f"event.name == '{unique[0]}'"
    return f"event.name in [{', '.join(repr(name) for name in unique)}]"


def condition(guard: Guard, names: Renames, *, looped: bool) -> str | None:
    """The whole condition as one expression for an arc; None if it is always true."""
    first = event_condition(guard.events, looped=looped)
    parts = ([first] if first else []) + [rename_expression(part, names) for part in guard.rest]
    return joined(parts) if parts else None


def joined(parts: Sequence[str]) -> str:
    """Expressions that must all be true, as one."""
    return parts[0] if len(parts) == 1 else " and ".join(_in_brackets(part) for part in parts)


def rename_expression(inner: str, names: Renames) -> str:
    changed = renamed(template(inner), names)
    return expression(changed) or inner if changed is not None else inner


def reads(inner: str, name: str) -> bool:
    """Whether an expression reads a name."""
    return any(path[0] == name for path in paths(template(inner)))


def _in_brackets(part: str) -> str:
    """In brackets if it contains a weaker operator than `and`."""
    found = tokens(template(part)) or ()
    weak = any(token.kind == "name" and token.text in ("or", "if") for token in found)
    return f"({part})" if weak else part


def _spread(events: frozenset[str]) -> set[str]:
    return set(events) | ({DONE, ERROR} if EXIT in events else set())
