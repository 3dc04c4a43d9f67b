"""Templates and numbers as the few words that fit on a line of a drawing."""

from __future__ import annotations

import re
from typing import Any

from noetl.templates.authored import Authored

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
