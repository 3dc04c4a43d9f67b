"""Values a template works with, and what they are called in messages.

Plain JSON values, times and lengths of time, ranges, tuples, views of the scope and `Missing`, which represents a
missing value; nothing else can occur. Also marked texts: those of an author that may be templates (`Authored`), and
those that SQL tools may use verbatim.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.diagnostics import nearest_word
from noetl.base.errors import TemplateError

SEQUENCES = (list, tuple, range)


def deep_merged(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """`inner` laid over `outer`: mappings merge deeply, everything else is replaced (SRV-03, SPEC-02)."""
    merged = dict(outer)
    for key, value in inner.items():
        old = merged.get(key)
        merged[key] = deep_merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


# The value that a template gets when it reads a missing name (TPL-03).
#
# It is falsy, equals nothing that is defined, and never leaves a template: a single expression that is missing leaves
# as null. It holds the name that was read, for error messages. An undefined name is an error instead, unless the
# template asks whether it is defined or gives it a default.


class Missing:
    """The value of an undefined name or lookup; `label` is what the author wrote."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = clipped(label)

    def __bool__(self) -> bool:
        return False


_PLAIN = frozenset({str, int, float, bool, type(None), list, dict, tuple, range, datetime, timedelta, Missing})


def settled(value: Any) -> Any:
    """The value as plain data: a view is replaced by its data, since an operator or filter is about to use all of
    it."""
    # The class first: it answers for nearly every value, and costs less than looking for an attribute.
    if type(value) in _PLAIN or not hasattr(value, "lookup"):
        return value
    return value.value()


def walked(value: Any) -> Any:
    """The value that a loop or a list filter iterates over. For a view whose payload is a list, that is the list; the
    fields around it (`row_count`, `headers`) are not elements (TPL-07)."""
    listed = getattr(value, "listed", None)
    found = listed() if callable(listed) and hasattr(value, "lookup") else None
    return settled(value) if found is None else found


def walkable(value: Any) -> Any:
    """The same inside a template, where each result of a loop is read as a result is (TPL-07). What is made of it must
    not leave the template as it is: its elements may be views."""
    elements = getattr(value, "elements", None)
    found = elements() if callable(elements) and hasattr(value, "lookup") else None
    return walked(value) if found is None else found


def is_number(value: Any) -> bool:
    # Booleans too, as in Python and Jinja2: `true + 1` is 2.
    return isinstance(value, int | float)


def described(value: Any) -> str:
    """The kind of a value, for messages: its kind, never its content, which may be large or secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case dict():
            return "a mapping"
        case list() | tuple() | range():
            return "a list"
        case datetime():
            return "a time"
        case timedelta():
            return "a duration"
        case Missing():
            return f'"{value.label}", which is undefined'
        case _:
            return "a value"


def undefined_error(value: Missing) -> TemplateError:
    """The error of using something undefined where a value is needed (TPL-03)."""
    return TemplateError(f'"{value.label}" is undefined: give it a value with | default(…), or test it first')


def dunder_error(name: str) -> TemplateError:
    return TemplateError(
        f'"{clipped(name)}" cannot be read: names beginning with two underscores are closed to templates'
    )


# SQL marks: text that the SQL tools may put into a statement as it is, since the author said so (design.md §8).
#
# A mark belongs to the value and is kept only if the caller wants it; everywhere else the value is plain text.


class SqlIdentifier(str):
    """A name, already quoted."""

    __slots__ = ()


class SqlFragment(str):
    """A piece of SQL the author vouches for."""

    __slots__ = ()


def identifier(name: Any) -> SqlIdentifier:
    """`name` quoted as an SQL identifier; a list of names is a qualified name."""
    parts = list(name) if isinstance(name, SEQUENCES) else [name]
    if not parts or not all(isinstance(part, str) and part and "\x00" not in part for part in parts):
        raise TemplateError(f"identifier needs a name or a list of names, not {described(name)}")
    return SqlIdentifier(".".join('"' + part.replace('"', '""') + '"' for part in parts))


# Headers of an HTTP answer, as templates read them: without regard to case, however they are asked for (TOOL-03).
#
# They are kept by lower-case name as plain data; nothing here knows where they came from.


class Headers(dict[str, Any]):
    """Headers by lower-case name. A view of itself: `headers['Retry-After']`, `headers.get('Retry-After')` and
    `'Retry-After' in headers` are about `retry-after`."""

    def lookup(self, name: str | int) -> Any:
        return self[str(name).lower()]

    def value(self) -> dict[str, Any]:
        return self

    def get(self, name: Any, default: Any = None) -> Any:
        return super().get(name.lower() if isinstance(name, str) else name, default)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name.lower() if isinstance(name, str) else name)


def with_headers(result: Any, *, wrapped: bool) -> Any:
    """The result of an HTTP call with its headers to be read so; any other as it is. A `wrapped` result has its payload
    under `data` (O-22); a result that only looks like one, for example of a python task, has not."""
    if wrapped and isinstance(result, dict) and isinstance(result.get("headers"), dict):
        return {**result, "headers": Headers({str(name).lower(): value for name, value in result["headers"].items()})}
    return result


# Authored: a value a playbook's author wrote, in which text with `{{ … }}` is a template.
#
# Only values of this type are rendered. Data (workload, results, messages) never has this type, so it can never be
# taken for a template (reliability.md §2.1).


class Authored(msgspec.Struct, frozen=True, eq=True):
    """`data` is plain JSON data; `render` (templates.render) gives its value in a scope."""

    data: Any = None

    def __hash__(self) -> int:
        # By content: the data may be a list or a mapping, which Python does not hash.
        return hash(msgspec.json.encode(self.data))


if TYPE_CHECKING:
    from collections.abc import Iterable


_LONGEST = 80


def clipped(word: str) -> str:
    """A name or value of the author as messages show it: on one line, and shortened."""
    word = word if len(word) <= _LONGEST else word[: _LONGEST - 1] + "…"
    return word if word.isprintable() else repr(word)[1:-1]


# Names in other systems, and their equivalents in this language.
_FROM_KEYCHAIN = "write keychain.NAME, declared as keychain: [{name: NAME, kind: credential}]"
_FROM_WORKLOAD = "inputs are read as workload.NAME"
_FROM_STEP = "a result is read by the name of its step, as in STEP.data"
NAMES_OF_OTHERS = {
    **dict.fromkeys(("secret", "secrets", "vault", "credential", "credentials"), _FROM_KEYCHAIN),
    **dict.fromkeys(
        ("env", "environ", "environment"),
        "write keychain.NAME, declared as keychain: [{name: NAME, kind: env, var: VARIABLE}]",
    ),
    **dict.fromkeys(("input", "inputs", "params", "parameters", "payload"), _FROM_WORKLOAD),
    **dict.fromkeys(("steps", "tasks", "jobs", "outputs", "results"), _FROM_STEP),
    **dict.fromkeys(("job", "run", "run_id", "job_id", "execution", "workflow", "flow"), "write execution_id"),
    **dict.fromkeys(("prev", "previous"), "write _prev for the result of the task before"),
    **dict.fromkeys(("attempt", "retry_count", "try_number"), "write _attempt, which counts from 1"),
    **dict.fromkeys(("null", "Null", "NULL", "nil"), "write none"),
    "undefined": "write {{ … is undefined }}",
}


class UndefinedNameError(KeyError):
    """A name that nothing defines, here or at any other time of the run (TPL-03)."""

    def __init__(self, name: str, *known: Iterable[str]) -> None:
        super().__init__(name)
        self._name, self._known = name, known

    @property
    def message(self) -> str:
        """The message: built only on demand, since tools ask for many missing names."""
        near = nearest_word(self._name, {name for names in self._known for name in names})
        way_out = f'did you mean "{near}"?' if near else "declare it under workload, or test it with is defined"
        way_out = NAMES_OF_OTHERS.get(self._name, way_out)
        return f'nothing is called "{clipped(self._name)}" here: {way_out}'


# The message about a filter, test or function that does not exist here.

_WAYS_OUT = {
    "attr": "write a.b or a['b']",
    "fromjson": "text is never parsed into other types: use a python task",
    "from_json": "text is never parsed into other types: use a python task",
    "to_json": 'write "tojson"',
    "bool": "compare with == true",
    "random": "a replay would differ: use a python task",
    "regex_replace": "use replace, or a python task",
    "regex_search": "use in, or a python task",
    "pprint": 'use "tojson" with an indent',
    "namespace": "use a python task to count or collect",
    "combine": "write dict(a, b): of two values under one key that of b stays",
    "strftime": "write now().strftime('%Y-%m-%d')",
    "ternary": "write a if condition else b",
    "zip": "use a python task",
    "uuid4": "a replay would differ: use execution_id, or a python task",
    "env": "a playbook reads its workload: pass the value in when you start it",
}


def unknown(kind: str, name: str, known: Collection[str]) -> TemplateError:
    """The error for a `kind` ("filter", "test", "function") that is not on the allow-list."""
    way_out = _WAYS_OUT.get(name)
    near = nearest_word(name, known, cutoff=0.7)
    if way_out is None and near:
        way_out = f'did you mean "{near}"?'
    if way_out is None:  # all of them: users of other systems cannot guess which of Jinja's exist here
        way_out = f"there are {', '.join(sorted(name for name in known if name[0].isalpha()))}"
    return TemplateError(f'there is no {kind} "{clipped(name)}": {way_out}')
