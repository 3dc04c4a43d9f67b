"""What a template gets when it reads something that is not there (TPL-03).

It is falsy, equals nothing that is defined, and never leaves a template: a single expression that is missing
leaves as null. It knows what was read, so that an error can name it. A name that nothing defines is an error instead,
unless the template asks whether it is defined or gives it a default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
from collections.abc import Collection

from noetl.base.errors import TemplateError

_LONGEST = 80


def clipped(word: str) -> str:
    """A word of the author's as messages show it: in one line, and not without end."""
    word = word if len(word) <= _LONGEST else word[: _LONGEST - 1] + "…"
    return word if word.isprintable() else repr(word)[1:-1]


class UndefinedNameError(KeyError):
    """A name that nothing defines, here or at any other time of the run (TPL-03)."""

    def __init__(self, name: str, *known: Iterable[str]) -> None:
        super().__init__(name)
        self._name, self._known = name, known

    @property
    def message(self) -> str:
        """What to say of it: made only when it is said, since tools ask for many names that are not there."""
        known = sorted({name for names in self._known for name in names})
        from difflib import get_close_matches  # only who made a mistake waits for it

        near = get_close_matches(self._name, known, n=1, cutoff=0.6)
        way_out = f'did you mean "{near[0]}"?' if near else "declare it under workload, or test it with is defined"
        return f'nothing is called "{clipped(self._name)}" here: {way_out}'


class Missing:
    """The value of an undefined name or lookup; `label` is what the author wrote."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = clipped(label)

    def __bool__(self) -> bool:
        return False


# What to say about a filter, test or function that does not exist here.

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
    "combine": "use a python task to merge mappings",
    "strftime": "write now().strftime('%Y-%m-%d')",
    "ternary": "write a if condition else b",
    "zip": "use a python task",
    "uuid4": "a replay would differ: use execution_id, or a python task",
    "env": "a playbook reads its workload: pass the value in when you start it",
}


def unknown(kind: str, name: str, known: Collection[str]) -> TemplateError:
    """The error for a `kind` ("filter", "test", "function") that is not on the allow-list."""
    way_out = _WAYS_OUT.get(name)
    from difflib import get_close_matches  # only who made a mistake waits for it

    near = get_close_matches(name, known, n=1, cutoff=0.7)
    if way_out is None and near:
        way_out = f'did you mean "{near[0]}"?'
    if way_out is None:  # all of them: who comes from another system cannot guess which of Jinja's are here
        way_out = f"there are {', '.join(sorted(name for name in known if name[0].isalpha()))}"
    return TemplateError(f'there is no {kind} "{clipped(name)}": {way_out}')
