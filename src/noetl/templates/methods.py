"""Methods: the few things that can be called on a value, by kind (an allow-list, RELIABILITY 2.1).

A method is not a value: it exists only in a call. A mapping's own key wins over a method of the same name, so
`workload.items` is data. Nothing here changes what it is called on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from noetl.errors import TemplateError
from noetl.templates.budget import MAX_TEXT, Run
from noetl.templates.comparing import equal
from noetl.templates.looping import Loop, elements
from noetl.templates.missing import Missing, clipped
from noetl.templates.moments import moment_text
from noetl.templates.values import described, settled, undefined_error
from noetl.templates.writing import written

Method = Callable[..., Any]

_STRFTIME = re.compile(r"(?:[^%]|%[aAwdbBmyYHIpMSfzZjUWcxXGuV%])*\Z")
_CHANGING = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "update", "setdefault", "sort", "reverse"}
)
_MAX_PIECES = 50_000
_MAX_STRIP = 64


def call_method(run: Run, value: Any, name: str, args: list[Any]) -> Any:
    """`value.name(*args)`."""
    if isinstance(value, Loop):
        value_methods: dict[str, Method] = {"cycle": lambda run, loop, *choices: loop.cycle(*choices)}
    else:
        value = settled(value)
        value_methods = _methods_of(value)
    if isinstance(value, Missing):
        raise undefined_error(value)
    if name not in value_methods or (isinstance(value, dict) and name in value):
        raise TemplateError(_no_method(value, name, value_methods))
    try:
        return value_methods[name](run, value, *(settled(arg) for arg in args))
    except (TypeError, ValueError, IndexError, OverflowError):
        raise TemplateError(f"{clipped(name)}() does not take these arguments on {described(value)}") from None


def _methods_of(value: Any) -> dict[str, Method]:
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
    near = get_close_matches(name, known, n=1)
    if near:
        return f'{message}: did you mean "{near[0]}"?'
    return f"{message}: there are {', '.join(sorted(known))}" if 0 < len(known) < 10 else message


def _same_size(method: Callable[[str], str]) -> Method:
    """A method whose text is about as long as the one it is called on."""
    return lambda run, text: run.text(method(run.read(text)))


def _asks(method: Callable[..., Any]) -> Method:
    """A method that reads text and answers with a number or a boolean."""

    def ask(run: Run, text: str, *args: Any) -> Any:
        return method(run.read(text), *(tuple(arg) if isinstance(arg, list) else arg for arg in args))

    return ask


def _strips(method: Callable[[str, str | None], str]) -> Method:
    def strip(run: Run, text: str, characters: str | None = None) -> str:
        if characters is not None and len(characters) > _MAX_STRIP:
            raise TemplateError(f"at most {_MAX_STRIP} characters can be stripped at once")
        return run.text(method(run.read(text), characters))

    return strip


def _pads(method: Callable[..., str]) -> Method:
    def pad(run: Run, text: str, width: int, *fill: str) -> str:
        run.fits(max(width, len(text)))
        return run.text(method(text, width, *fill))

    return pad


def _cuts(method: Callable[[str, str | None, int], list[str]]) -> Method:
    def cut(run: Run, text: str, separator: str | None = None, most: int = -1) -> Any:
        limit = most if 0 <= most <= _MAX_PIECES else _MAX_PIECES
        return _pieces(run, method(run.read(text), separator, limit), limit != most)

    return cut


def _pieces(run: Run, pieces: list[str], bounded: bool = True) -> Any:
    if bounded and len(pieces) > _MAX_PIECES:
        raise TemplateError(f"the text falls into more than {_MAX_PIECES:,} pieces: use a python task for it")
    run.reserve(2 * len(pieces))
    return run.own(pieces)


def _splitlines(run: Run, text: str) -> Any:
    if run.read(text).count("\n") > _MAX_PIECES:
        raise TemplateError(f"the text has more than {_MAX_PIECES:,} lines: use a python task for it")
    return _pieces(run, text.splitlines())


def _partition(method: Callable[[str, str], tuple[str, str, str]]) -> Method:
    return lambda run, text, separator: _pieces(run, list(method(run.read(text), separator)))


def replace(run: Run, text: str, old: str, new: str, most: int = -1) -> str:
    """`text.replace(old, new)`, its length known before it is made."""
    found = run.read(text).count(old)
    found = min(found, most) if most >= 0 else found
    run.fits(len(text) + found * max(len(new) - len(old), 0))
    return run.text(text.replace(old, new, most))


def join(run: Run, separator: str, value: Any) -> str:
    """`separator.join(value)`, its length known before it is made."""
    items = elements(run, value)
    parts: list[str] = []
    total = 0
    for item in items:
        parts.append(written(run, item))
        total += len(parts[-1]) + len(separator)
        if total > MAX_TEXT:
            run.fits(total - len(separator))
    return run.text(separator.join(parts))


def _strftime(run: Run, value: datetime, form: str) -> str:
    if len(form) > 200 or not _STRFTIME.match(form):
        raise TemplateError("this time format is not supported: use plain fields such as %Y-%m-%d %H:%M:%S")
    return run.text(value.strftime(form))


def _listed(run: Run, values: Any) -> Any:
    run.reserve(2 * len(values))
    return run.own(list(values))


def _get(run: Run, mapping: dict[str, Any], key: Any, default: Any = None) -> Any:
    return mapping.get(key, default)


def _count(run: Run, value: Any, item: Any) -> int:
    return sum(1 for other in elements(run, value) if equal(run, item, other))


def _index(run: Run, value: Any, item: Any) -> int:
    for index, other in enumerate(elements(run, value)):
        if equal(run, item, other):
            return index
    raise TemplateError("the list does not hold this value")


_TEXT: dict[str, Method] = {
    **{
        name: _same_size(getattr(str, name))
        for name in ("upper", "lower", "casefold", "capitalize", "title", "swapcase")
    },
    **{name: _strips(getattr(str, name)) for name in ("strip", "lstrip", "rstrip")},
    **{name: _pads(getattr(str, name)) for name in ("center", "ljust", "rjust", "zfill")},
    **{name: _cuts(getattr(str, name)) for name in ("split", "rsplit")},
    **{name: _partition(getattr(str, name)) for name in ("partition", "rpartition")},
    **{
        name: _asks(getattr(str, name))
        for name in (
            *(
                "startswith",
                "endswith",
                "find",
                "rfind",
                "index",
                "rindex",
                "count",
                "isdigit",
                "isdecimal",
                "isnumeric",
            ),
            *("isalpha", "isalnum", "isspace", "islower", "isupper", "istitle", "isidentifier"),
        )
    },
    "removeprefix": lambda run, text, prefix: run.text(text.removeprefix(prefix)),
    "removesuffix": lambda run, text, suffix: run.text(text.removesuffix(suffix)),
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
    "isoformat": lambda run, value: moment_text(value),
    "timestamp": lambda run, value: value.timestamp(),
    "weekday": lambda run, value: value.weekday(),
    "isoweekday": lambda run, value: value.isoweekday(),
    "strftime": _strftime,
}
_DURATION: dict[str, Method] = {"total_seconds": lambda run, value: value.total_seconds()}
