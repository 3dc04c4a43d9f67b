"""Methods: the few things that can be called on a value, by kind (an allow-list, reliability.md §2.1).

A method is not a value: it exists only in a call. A mapping's own key wins over a method of the same name, so
`workload.items` is data. Nothing here changes what it is called on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from noetl.base.diagnostics import nearest_word
from noetl.base.errors import TemplateError
from noetl.templates import budget
from noetl.templates.attribute_access import LoopVariable, elements
from noetl.templates.budget import MAX_TEXT, Evaluation
from noetl.templates.comparisons import equal
from noetl.templates.functions import moment_text
from noetl.templates.output import written
from noetl.templates.values import Missing, clipped, described, settled, undefined_error

Method = Callable[..., Any]
# Only directives that every C library knows: an unknown one is undefined behaviour on some systems.
_STRFTIME = re.compile(r"(?:[^%]|%[aAwdbBmyYHIpMSfzZjUWcxXGuV%])*\Z")
# Known names that are refused with a reason instead of "cannot be called".
_CHANGING = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "update", "setdefault", "sort", "reverse"}
)
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
# Each piece is an object of some fifty bytes: a megabyte of commas would be fifty times as much.
_MAX_PIECES = 50_000
# Stripping looks through all of them for every character.
_MAX_STRIP = 64
_LONGEST_DIRECT = 16


def call_method(run: Evaluation, value: Any, name: str, args: list[Any]) -> Any:
    """`value.name(*args)`."""
    if isinstance(value, LoopVariable):
        value_methods: dict[str, Method] = {"cycle": lambda run, loop, *choices: loop.cycle(*choices)}
    else:
        value = settled(value)
        value_methods = methods_of(value)
    if isinstance(value, Missing):
        raise undefined_error(value)
    # A key of that name is data, and data cannot be called.
    if name not in value_methods or (isinstance(value, dict) and name in value):
        raise TemplateError(_no_method(value, name, value_methods))
    try:
        return value_methods[name](run, value, *(settled(arg) for arg in args))
    except (TypeError, ValueError, IndexError, OverflowError):
        raise TemplateError(f"{clipped(name)}() does not take these arguments on {described(value)}") from None


def methods_of(value: Any) -> dict[str, Method]:
    """The methods of a value of this kind, by name."""
    match value:
        case str():
            return _TEXT
        case dict():
            return _MAPPING
        case list() | tuple():
            return _LIST
        case datetime():
            return _TIME
        case timedelta():
            return _DURATION
        case _:
            return {}


def _no_method(value: Any, name: str, known: dict[str, Method]) -> str:
    message = f'"{clipped(name)}" cannot be called on {described(value)}'
    if name in _CHANGING:
        return f"{message}: templates read data and never change it"
    if name == "format":
        return f"{message}: use '%.2f' % value, or join text with ~"
    if near := nearest_word(name, known):
        return f'{message}: did you mean "{near}"?'
    return f"{message}: there are {', '.join(sorted(known))}" if 0 < len(known) < 10 else message


def _same_size(method: Callable[[str], str]) -> Method:
    """A method whose text is about as long as the one it is called on."""

    def change(run: Evaluation, text: str) -> str:
        run.fits(len(text))
        return run.text(method(run.read(text)))

    return change


def _boolean_method(method: Callable[[str], bool]) -> Method:
    """A method that reads text and answers with a boolean."""
    return lambda run, text: method(run.read(text))


def _searches(method: Callable[..., int]) -> Method:
    """A method that looks for one text in another."""

    def search(run: Evaluation, text: str, part: str, *bounds: int) -> int:
        run.spend(budget.searching(text, part))
        return method(text, part, *bounds)

    return search


def _begins_or_ends(method: Callable[..., bool]) -> Method:
    """A method that compares one end of a text with another text, or with each of a list."""

    def ask(run: Evaluation, text: str, ending: Any, *bounds: int) -> bool:
        endings = tuple(elements(run, ending)) if isinstance(ending, list | tuple) else (ending,)
        for one in endings:
            run.spend(min(len(one), len(text)) >> 8)
        return method(text, endings, *bounds)

    return ask


def _strips(method: Callable[[str, str | None], str]) -> Method:
    def strip(run: Evaluation, text: str, characters: str | None = None) -> str:
        if characters is not None and len(characters) > _MAX_STRIP:
            raise TemplateError(f"at most {_MAX_STRIP} characters can be stripped at once")
        run.spend(len(text) * (4 + len(characters or " ")) >> 8)
        return run.text(method(run.read(text), characters))

    return strip


def _pads(method: Callable[..., str]) -> Method:
    def pad(run: Evaluation, text: str, width: int, *fill: str) -> str:
        run.fits(max(width, len(text)))
        return run.text(method(text, width, *fill))

    return pad


def _cuts(method: Callable[[str, str | None, int], list[str]]) -> Method:
    def cut(run: Evaluation, text: str, separator: str | None = None, most: int = -1) -> Any:
        # Cut at the bound by Python itself: one piece too many shows that there were more, without making them all.
        limit = most if 0 <= most <= _MAX_PIECES else _MAX_PIECES
        run.spend(budget.searching(text, separator or " "))
        run.hold(text)
        return _pieces(run, method(run.read(text), separator, limit), limit != most)

    return cut


def _pieces(run: Evaluation, pieces: list[str], bounded: bool = True) -> Any:
    if bounded and len(pieces) > _MAX_PIECES:
        raise TemplateError(f"the text falls into more than {_MAX_PIECES:,} pieces: use a python task for it")
    run.reserve(2 * len(pieces))
    return run.own(pieces)


def _splitlines(run: Evaluation, text: str) -> Any:
    # Counted before the list is made; CRLF is one line end and was counted as two.
    lines = sum(map(run.read(text).count, _LINE_ENDS)) - text.count("\r\n")
    if lines > _MAX_PIECES:
        raise TemplateError(f"the text has more than {_MAX_PIECES:,} lines: use a python task for it")
    run.hold(text)
    return _pieces(run, run.read(text).splitlines())


def _partition(method: Callable[[str, str], tuple[str, str, str]]) -> Method:
    def partition(run: Evaluation, text: str, separator: str) -> Any:
        run.spend(budget.searching(text, separator))
        run.hold(text)
        return _pieces(run, list(method(run.read(text), separator)))

    return partition


def _removes(method: Callable[[str, str], str]) -> Method:
    def remove(run: Evaluation, text: str, ending: str) -> str:
        run.fits(len(text) - len(ending))
        return run.text(method(run.read(text), ending))

    return remove


def replace(run: Evaluation, text: str, old: str, new: str, most: int = -1) -> str:
    """`text.replace(old, new)`, its length known before it is made."""
    run.spend(2 * budget.searching(text, old))
    found = text.count(old)
    found = min(found, most) if most >= 0 else found
    run.fits(len(text) + found * (len(new) - len(old)))
    run.spend(found >> 4)
    return run.text(text.replace(old, new, most))


def join(run: Evaluation, separator: str, value: Any) -> str:
    """`separator.join(value)`, its length known before it is made."""
    items = elements(run, value)
    parts: list[str] = []
    total = 0
    run.spend(len(items))
    for item in items:
        parts.append(written(run, item))
        total += len(parts[-1]) + len(separator)
        # As it grows, not at the end: by then the parts would have taken the memory.
        if total > MAX_TEXT:
            run.fits(total - len(separator))
    return run.text(separator.join(parts))


def _strftime(run: Evaluation, value: datetime, form: str) -> str:
    if len(form) > 200 or not _STRFTIME.match(form):
        raise TemplateError("this time format is not supported: use plain fields such as %Y-%m-%d %H:%M:%S")
    run.spend(len(form))
    return run.text(value.strftime(form))


def _listed(run: Evaluation, values: Any) -> Any:
    run.reserve(2 * len(values))
    return run.own(list(values))


def _get(run: Evaluation, mapping: dict[str, Any], key: Any, default: Any = None) -> Any:
    run.spend(budget.key(key))
    return mapping.get(key, default)


def _isoformat(run: Evaluation, value: datetime) -> str:
    run.spend(3)
    return run.text(moment_text(value))


def _count(run: Evaluation, value: Any, item: Any) -> int:
    return sum(1 for other in elements(run, value) if equal(run, item, other))


def _index(run: Evaluation, value: Any, item: Any) -> int:
    for index, other in enumerate(elements(run, value)):
        if equal(run, item, other):
            return index
    raise TemplateError("the list does not hold this value")


# Reverse search: `rfind` and its kin in time that grows with the length of the text alone.
#
# CPython looks for a text from the right by trying every place, which costs both lengths multiplied; from the left it
# has an algorithm that does not. So a long text is looked for from the left, with both texts reversed.


def rfind(text: str, part: str, start: int | None = None, end: int | None = None) -> int:
    """`text.rfind(part, start, end)`."""
    if len(part) <= _LONGEST_DIRECT or len(part) > len(text):
        return text.rfind(part, start, end)
    low, high, _ = slice(start, end).indices(len(text))
    found = text[low:high][::-1].find(part[::-1])
    return found if found < 0 else high - found - len(part)


def rindex(text: str, part: str, start: int | None = None, end: int | None = None) -> int:
    """`text.rindex(part, start, end)`."""
    found = rfind(text, part, start, end)
    if found < 0:
        raise ValueError("substring not found")
    return found


def rsplit(text: str, separator: str | None = None, most: int = -1) -> list[str]:
    """`text.rsplit(separator, most)`."""
    if separator is None or len(separator) <= _LONGEST_DIRECT or len(separator) > len(text):
        return text.rsplit(separator, most)
    return [piece[::-1] for piece in reversed(text[::-1].split(separator[::-1], most))]


def rpartition(text: str, separator: str) -> tuple[str, str, str]:
    """`text.rpartition(separator)`."""
    if len(separator) <= _LONGEST_DIRECT or len(separator) > len(text):
        return text.rpartition(separator)
    found = rfind(text, separator)
    return ("", "", text) if found < 0 else (text[:found], separator, text[found + len(separator) :])


_TEXT: dict[str, Method] = {
    **{
        name: _same_size(getattr(str, name))
        for name in ("upper", "lower", "casefold", "capitalize", "title", "swapcase")
    },
    **{name: _strips(getattr(str, name)) for name in ("strip", "lstrip", "rstrip")},
    **{name: _pads(getattr(str, name)) for name in ("center", "ljust", "rjust", "zfill")},
    **{name: _begins_or_ends(getattr(str, name)) for name in ("startswith", "endswith")},
    **{name: _searches(getattr(str, name)) for name in ("find", "index", "count")},
    "rfind": _searches(rfind),
    "rindex": _searches(rindex),
    "split": _cuts(str.split),
    "rsplit": _cuts(rsplit),
    "partition": _partition(str.partition),
    "rpartition": _partition(rpartition),
    **{
        name: _boolean_method(getattr(str, name))
        for name in (
            *("isdigit", "isdecimal", "isnumeric", "isalpha", "isalnum", "isspace"),
            *("islower", "isupper", "istitle", "isidentifier"),
        )
    },
    **{name: _removes(getattr(str, name)) for name in ("removeprefix", "removesuffix")},
    "splitlines": _splitlines,
    "replace": replace,
    "join": join,
}
_LIST: dict[str, Method] = {"count": _count, "index": _index}
_MAPPING: dict[str, Method] = {
    "get": _get,
    "items": lambda run, mapping: _listed(run, mapping.items()),
    "keys": lambda run, mapping: _listed(run, mapping.keys()),
    "values": lambda run, mapping: _listed(run, mapping.values()),
}
_TIME: dict[str, Method] = {
    "isoformat": _isoformat,
    "timestamp": lambda run, value: value.timestamp(),
    "weekday": lambda run, value: value.weekday(),
    "isoweekday": lambda run, value: value.isoweekday(),
    "strftime": _strftime,
}
_DURATION: dict[str, Method] = {"total_seconds": lambda run, value: value.total_seconds()}
