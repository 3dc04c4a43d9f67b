"""Views: objects in a scope instead of plain data when reading it is costly (TPL-07, RES-06).

A view answers `lookup` for its fields and `value` for the whole as plain data. Templates see nothing else of it:
no attribute of the Python object can be reached, and nothing can be written through it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

from noetl.templates.attribute_access import ABSENT, member
from noetl.templates.values import Missing, with_headers

_STATEMENT = re.compile(r"command_\d+\Z")
# Not None, since None is a value that a result may have.
_NOT_LOADED: Any = object()
_PAYLOAD = ("data", "result")  # authors' name for a payload inside it
_OUTPUT = "output"  # authors' name for a result that has no such key itself
_LIST_NAMES = ("rows", "results")  # authors' name for a payload that is a list
OWN_KEYS = frozenset({"status", "error", "ref"})  # of the envelope, unless the payload has such a key itself
_REFERENCE = frozenset({"store", "key", "checksum"})  # of one that can be read back (RES-02)


class View(Protocol):
    """Read-only access to a value that may not be loaded yet."""

    def lookup(self, name: str | int) -> Any:
        """The value under `name`, plain or itself a view. KeyError when there is none."""

    def value(self) -> Any:
        """The whole as plain data."""


class PayloadView:
    """A payload as `.data` and `.result` give it (TPL-07).

    Its own keys come first. Exactly one row answers for its fields (C-48), and the results of the single SQL statements
    (`command_0`, …) stay readable on it (design.md §5). A key that it lacks is read in its own `data` or `result`; if
    the payload has neither, both words mean the payload itself, so that `step.data.result.n` and `step.data.n` are the
    same. `rows` and `results` of a list are the list, as they are on the name of a step.
    """

    __slots__ = ("_full", "_payload", "_wrapped")

    def __init__(self, payload: Any, full: Any = None, *, wrapped: bool = False) -> None:
        self._payload = payload
        self._full = full
        self._wrapped = wrapped

    def lookup(self, name: str | int) -> Any:
        fields = (own_field(self._payload, name), self._statement(name), self._inner_field(name))
        for found in (*fields, list_field(self._payload, name)):
            if found is not ABSENT:
                return found
        if name in _PAYLOAD:
            # A mapping from outside may show by a missing `result` that it failed, so a missing key stays missing.
            outside = self._wrapped and isinstance(self._payload, dict)
            return Unnamed(self._payload, str(name)) if outside else self._payload
        raise KeyError(name)

    def value(self) -> Any:
        return self._payload

    def _statement(self, name: str | int) -> Any:
        if isinstance(name, str) and isinstance(self._full, dict) and _STATEMENT.match(name):
            return self._full.get(name, ABSENT)
        return ABSENT

    def _inner_field(self, name: str | int) -> Any:
        """The field of the payload's own `data` or `result`."""
        if not isinstance(self._payload, dict):
            return ABSENT
        inner = (member(self._payload.get(key), name) for key in _PAYLOAD)
        return next((found for found in inner if found is not ABSENT), ABSENT)


class Unnamed(Missing):
    """A word for the payload that is no key of the payload. Read alone it is undefined; a key that is read on it is
    read from the payload."""

    __slots__ = ("_payload",)

    def __init__(self, payload: Any, label: str) -> None:
        super().__init__(label)
        self._payload = payload

    def lookup(self, name: str | int) -> Any:
        found = member(self._payload, name)
        if found is ABSENT:
            raise KeyError(name)
        return found

    def value(self) -> Missing:
        return Missing(self.label)


class FullView:
    """The whole result of a tool that wraps its payload: its own fields, then those of the payload."""

    __slots__ = ("_full", "_payload")

    def __init__(self, full: dict[str, Any]) -> None:
        self._full = full
        self._payload = PayloadView(full["data"], full, wrapped=True)

    def lookup(self, name: str | int) -> Any:
        if name == "data" and self._full["data"] is not None:
            return self._payload  # `step.result.data.x` reads as `step.data.x` does
        return self._full[str(name)] if name in self._full else self._payload.lookup(name)

    def value(self) -> Any:
        return self._full

    def listed(self) -> list[Any] | None:
        """The payload, where it is a list."""
        payload = self._full["data"]
        return payload if isinstance(payload, list) else None


def own_field(payload: Any, name: str | int) -> Any:
    """The field of a payload, or of the one row it has; ABSENT when there is none."""
    found = member(payload, name)
    if found is ABSENT and isinstance(payload, list) and len(payload) == 1 and isinstance(payload[0], dict):
        return payload[0].get(name, ABSENT)
    return found


def list_field(payload: Any, name: str | int) -> Any:
    """The list that a payload is, under the words authors have for it; ABSENT otherwise."""
    return payload if name in _LIST_NAMES and isinstance(payload, list) else ABSENT


def payload_view(payload: Any, full: Any = None, *, wrapped: bool = False) -> Any:
    """`payload` as templates read it."""
    return None if payload is None else PayloadView(payload, full, wrapped=wrapped)


def full_view(full: Any, *, wrapped: bool) -> Any:
    """The full result of a tool as templates read it; `wrapped`: its payload is the `data` member (O-22)."""
    return _full_view(with_headers(full, wrapped=wrapped), wrapped)


def _full_view(full: Any, wrapped: bool) -> Any:
    return FullView(full) if wrapped and isinstance(full, dict) and "data" in full else payload_view(full)


def own_keys(payload: Any) -> tuple[str, ...]:
    """The words of the envelope that a payload has as keys of its own: known for a separately stored one."""
    return tuple(sorted(name for name in OWN_KEYS if own_field(payload, name) is not ABSENT))


# The results of a loop: a list of payloads. Each element is read as the result of a single run is, so that what is
# written for one result also reads it as an element: `step.data.name`, `step.results[0].data.name` (TPL-07).


class ElementView:
    """One element: its own keys first; then `data` and `result` mean the element itself.

    Of a mapping without such a key the two words alone stay undefined, as those of a body do: an element may show by a
    missing `data` that its call failed.
    """

    __slots__ = ("_payload",)

    def __init__(self, payload: Any) -> None:
        self._payload = payload

    def lookup(self, name: str | int) -> Any:
        found = own_field(self._payload, name)
        if found is ABSENT:
            found = list_field(self._payload, name)
        if name in _PAYLOAD:
            if found is not ABSENT:
                return PayloadView(found, wrapped=True) if type(found) is dict else found
            view = PayloadView(self._payload, wrapped=True)
            return Unnamed(view, str(name)) if isinstance(self._payload, dict) else view
        if found is ABSENT:
            raise KeyError(name)
        return found

    def value(self) -> Any:
        return self._payload


def element_view(payload: Any) -> Any:
    """An element as templates read it. What has no fields needs no view."""
    return ElementView(payload) if type(payload) is dict or type(payload) is list else payload


class _Elements(list[Any]):
    """The elements as a loop or a list filter goes through them: each becomes a view when it is reached."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return map(element_view, super().__iter__())

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return [element_view(each) for each in found] if isinstance(index, slice) else element_view(found)


class ElementsView:
    """The results of a loop. `payload` is their list as `data` and `result` give it; `rows` and `results` are the bare
    list, which has no fields."""

    __slots__ = ("_payload", "_payloads")

    def __init__(self, payloads: list[Any], payload: PayloadView | None = None) -> None:
        self._payloads = payloads
        self._payload = payload

    def lookup(self, name: str | int) -> Any:
        if isinstance(name, int):
            return element_at(self._payloads, name)
        if self._payload is None:
            raise KeyError(name)
        found = self._payload.lookup(name)
        return ElementsView(self._payloads) if found is self._payloads else found

    def value(self) -> Any:
        return self._payloads

    def elements(self) -> list[Any]:
        """The elements, for a loop or a filter of a template."""
        return _Elements(self._payloads)


def element_at(payloads: list[Any], index: int) -> Any:
    """The element of that index. KeyError when there is none."""
    found = member(payloads, index)
    if found is ABSENT:
        raise KeyError(index)
    return element_view(found)


def loop_view(payloads: list[Any]) -> ElementsView:
    """`data` and `result` of a loop as templates read them."""
    return ElementsView(payloads, PayloadView(payloads))


class TaskViews:
    """The results of the tasks of a step by name, for `step.results`."""

    __slots__ = ("_views",)

    def __init__(self, views: Mapping[str, ResultProxy]) -> None:
        self._views = views

    def lookup(self, name: str | int) -> Any:
        return self._views[str(name)]

    def value(self) -> Any:
        return {name: view.value() for name, view in self._views.items()}


class ResultProxy:
    """The latest result of a task or step under its name (TPL-07).

    `unwrap`: the payload is the `data` member of the result, as for http, SQL and playbook results (O-22). `load`
    fetches the full result when a template first needs it; `._ref`, the envelope's fields and the `inline` ones
    (`output_select`, design.md §5) never do, unless `own` names one of them as the payload's. `tasks` are the results
    of a step's tasks; `of_loop`: the payload is the list of a loop's results. Exceptions of `load` are handled by the
    reader (`result.missing`).
    """

    __slots__ = (
        *("_error", "_inline", "_load", "_of_loop", "_own", "_ref", "_result", "_shown", "_status", "_tasks"),
        "_unwrap",
    )

    def __init__(
        self,
        result: Any = None,
        *,
        unwrap: bool = False,
        status: str = "success",
        error: Any = None,
        ref: Any = None,
        load: Callable[[], Any] | None = None,
        inline: Mapping[str, Any] | None = None,
        own: Collection[str] = (),
        tasks: Mapping[str, ResultProxy] | None = None,
        of_loop: bool = False,
    ) -> None:
        self._result = result if load is None else _NOT_LOADED
        # The result with its headers as templates read them; made once, when it is first read.
        self._shown: Any = _NOT_LOADED
        self._load = load
        self._unwrap = unwrap
        self._status = status
        self._error = error
        self._ref = ref
        self._inline = inline or {}
        self._own = own
        self._tasks = tasks
        self._of_loop = of_loop

    def lookup(self, name: str | int) -> Any:
        match name:
            case "data" | "result" if self._of_loop and isinstance(self._full(), list):
                return loop_view(self._full())
            # These four words are the view's own: a payload with such a key is read through them, never instead of
            # them.
            case "data":
                return payload_view(self._payload(), self._full(), wrapped=self._unwrap)
            case "result":
                return _full_view(self._full(), self._unwrap)
            case "_ref":
                return self._reference()
            case "_outcome":
                return self._envelope()
        # Before anything is loaded: the event holds these fields for that purpose.
        if name in self._inline:
            return self._inline[str(name)]
        if name in OWN_KEYS and not self._has_own(str(name)):
            return self._of_envelope(str(name))
        return self._field(name)

    def value(self) -> Any:
        return self._full()

    def listed(self) -> list[Any] | None:
        """The payload, where it is a list: the rows of a SQL task, the body of an answer."""
        payload = self._payload()
        return payload if isinstance(payload, list) else None

    def elements(self) -> list[Any] | None:
        """The same for a loop or a filter of a template: the results of a loop are read as results."""
        payload = self.listed()
        return _Elements(payload) if self._of_loop and payload is not None else payload

    def _full(self) -> Any:
        if self._shown is _NOT_LOADED:
            if self._result is _NOT_LOADED:
                assert self._load is not None
                self._result = self._load()
            self._shown = with_headers(self._result, wrapped=self._unwrap)
        return self._shown

    def _payload(self) -> Any:
        full = self._full()
        return full["data"] if self._unwrap and isinstance(full, dict) and "data" in full else full

    def _has_own(self, name: str) -> bool:
        if self._result is _NOT_LOADED:
            return name in self._own
        return own_field(self._payload(), name) is not ABSENT

    def _of_envelope(self, name: str) -> Any:
        if name == "ref":
            return self._reference()
        return self._status if name == "status" else self._error

    def _reference(self) -> Any:
        """The reference to the stored result. A payload that is a reference itself counts: the result of a storing
        task (RES-05). KeyError where there is none."""
        if self._ref is not None:
            return self._ref
        # Not if the payload would have to be loaded: a test for a reference must cost nothing.
        payload = self._payload() if self._load is None else None
        if isinstance(payload, dict) and payload.keys() >= _REFERENCE:
            return payload
        raise KeyError("_ref")

    def _envelope(self) -> dict[str, Any]:
        """Status, error, reference, results of tasks and payload, for any keys of the payload."""
        reference = {"ref": self._ref} if self._ref is not None else {}
        tasks = {"results": TaskViews(self._tasks)} if self._tasks is not None else {}
        return {
            "status": self._status,
            "error": self._error,
            **reference,
            **tasks,
            "data": _Later(self._payload),
            "result": _Later(self._full),
        }

    def _field(self, name: str | int) -> Any:
        """A field of the payload, then of the full result; then the rows or the results there are."""
        payload, full = self._payload(), self._full()
        if self._of_loop and isinstance(name, int) and isinstance(payload, list):
            return element_at(payload, name)
        for found in (own_field(payload, name), member(full, name)):
            if found is not ABSENT:
                return found
        if name == "results" and self._tasks is not None:
            return TaskViews(self._tasks)
        found = list_field(payload, name)
        if found is not ABSENT:
            return ElementsView(found) if self._of_loop else found
        if name == _OUTPUT:
            # In a mapping, `output` may be a field that is not always there.
            return Unnamed(self, _OUTPUT) if isinstance(payload, dict) else self
        raise KeyError(name)


class _Later:
    """A value of the envelope, made when a template reads it."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def lookup(self, name: str | int) -> Any:
        found = member(self._make(), name)
        if found is ABSENT:
            raise KeyError(name)
        return found

    def value(self) -> Any:
        return self._make()
