"""The tree builder: parser events to nodes, with an explicit stack and a budget for everything.

It keeps going after what can be skipped (a second key of one name, a tag, a merge key), so that an author sees all of
them; it stops where it cannot or must not continue: at a limit of reliability.md §2.7, or at a second document. Each
limit is far above what a playbook needs and far below what hurts a server that reads strangers' files."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
import yaml

from noetl.base.diagnostics import DiagnosticPosition, Span, is_unicode
from noetl.language.reading import yaml_problems as problems
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.yaml_problems import NotJsonError, Places, Value, YamlProblem, refuse, resolve

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_EVENTS = 200_000
# Counts values, including those that aliases repeat.
MAX_NODES = 50_000
# Limits all paths together: long keys above many values would exhaust memory.
MAX_PATH_CHARACTERS = 8_000_000
MAX_TAG_DIRECTIVES = 64
# A file with more problems than this is not a playbook, and a list of all of them does not help.
MAX_PROBLEMS = 50


class Budget:
    """The remaining budget of one document; exceeding it refuses the document at that place."""

    def __init__(self) -> None:
        self.nodes = 0
        self._path_characters = 0

    def spend(self, nodes: int, span: Span) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            refuse(span, f"the document has more than {MAX_NODES:,} values, aliases included")

    def spend_path(self, path: str, span: Span) -> None:
        self._path_characters += len(path)
        if self._path_characters > MAX_PATH_CHARACTERS:
            refuse(span, "the keys above this value are too long for a document of so many values")


def check_depth(depth: int, span: Span) -> None:
    if depth > MAX_DEPTH:
        refuse(span, f"the document is nested deeper than {MAX_DEPTH} levels")


# Aliases: `*name` repeats the value that `&name` marks, as a copy with paths of its own.

_WORD = re.compile(r"[\w-]+")


class Anchored(msgspec.Struct, frozen=True):
    """A value that aliases may repeat, with what repeating it costs."""

    node: Node
    nodes: int = 1
    height: int = 0


def below(path: str, key: str) -> str:
    """The path of a mapping's entry: `a.b`, or `a["x y"]` when the key is no single word."""
    if _WORD.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{msgspec.json.encode(key[:64]).decode()}]"


def moved(node: Node, path: str, budget: Budget) -> Node:
    """A copy of `node` with the paths of the alias; its spans stay where the text is. As deep as `check_depth` lets."""
    budget.spend_path(path, node.span)
    match node:
        case Scalar():
            return Scalar(node.value, node.span, path, node.plain)
        case Sequence():
            items = tuple(moved(item, f"{path}[{index}]", budget) for index, item in enumerate(node.items))
            return Sequence(items, node.span, path)
        case Mapping():
            paths = {name: below(path, name) for name in node.values}
            keys = {name: Scalar(name, key.span, paths[name], key.plain) for name, key in node.keys.items()}
            values = {name: moved(value, paths[name], budget) for name, value in node.values.items()}
            return Mapping(keys, values, node.span, path)


_TAG = re.compile(r"![^\s,\[\]{}]*")


class _Open(msgspec.Struct):
    """A collection whose end has not come yet."""

    event: yaml.CollectionStartEvent
    path: str
    # Number of problems when this collection began.
    problems: int
    nodes: int  # likewise
    is_mapping: bool
    keys: dict[str, Scalar] = {}
    values: dict[str, Node] = {}
    items: list[Node] = []
    # Key of the next value. None if that value is dropped.
    key: Scalar | None = None
    expects_key: bool = False
    # Not a mapping at all, but an unquoted {{ … }}.
    is_template: bool = False
    height: int = 0
    last: Span | None = None

    def next_path(self) -> str:
        """The path of the value that starts now."""
        if not self.is_mapping:
            return f"{self.path}[{len(self.items)}]"
        return self.key.path if self.key is not None else self.path

    def await_value(self, key: Scalar | None) -> None:
        self.key, self.expects_key = key, False

    def add(self, node: Node, height: int) -> None:
        self.height = max(self.height, height + 1)
        self.last = node.span
        if not self.is_mapping:
            self.items.append(node)
            return
        if self.key is not None:
            name = str(self.key.value)
            self.keys[name], self.values[name] = self.key, node
        self.key, self.expects_key = None, True


class TreeBuilder:
    """Builds one tree from the events of one document; `problems` are those it could read past."""

    def __init__(self, places: Places) -> None:
        self.problems: list[YamlProblem] = []
        self._places = places
        self._budget = Budget()
        self._stack: list[_Open] = []
        # None while the anchored value is still being built.
        self._anchors: dict[str, Anchored | None] = {}
        self._root: Node | None = None

    def build(self, events: Iterable[yaml.Event]) -> Node:
        """The root of the only document, null if there is none."""
        documents = 0
        for count, event in enumerate(events):
            if count >= MAX_EVENTS:
                refuse(self._places.span(event), f"the document has more than {MAX_EVENTS:,} parts")
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.CollectionStartEvent():
                    self._open(event)
                case yaml.CollectionEndEvent():
                    self._close(event)
                case yaml.AliasEvent():
                    self._alias(event)
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        refuse(
                            self._places.span(event),
                            "a second document begins here",
                            "keep each playbook in its own file",
                        )
                case _:
                    # Start and end of the stream, end of the document: nothing to build.
                    pass
        return self._root if self._root is not None else Scalar(None, self._places.between(0, 0), "")

    @property
    def open_bracket(self) -> int | None:
        """The place of the innermost open `[` or `{`, for explaining why reading stopped."""
        flow = self._stack and self._stack[-1].event.flow_style
        return self._places.start(self._stack[-1].event) if flow else None

    # values

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        span = self._places.scalar(event)
        if event.tag:
            self._tag(event)
        if self._expects_key():
            self._scalar_key(event, span)
            return
        path = self._next_path(span)
        self._budget.spend(1, span)
        node = Scalar(self._value(event, span, path), span, path, not event.style)
        if event.anchor:
            self._anchors[event.anchor] = Anchored(node)
        self._add(node)

    def _value(self, event: yaml.ScalarEvent, span: Span, path: str) -> Value:
        text: str = event.value
        if not event.style and not event.tag:
            try:
                return resolve(text)
            except NotJsonError as error:
                self.problems.append(problems.not_json(DiagnosticPosition(path, span), str(error), text))
        elif event.style == '"' and ("\0" in text or not is_unicode(text)):
            self.problems.append(problems.unstorable_text(DiagnosticPosition(path, span)))
            return ""
        return text

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        span = self._places.span(event)
        path = self._next_path(span)
        check_depth(len(self._stack) + 1, span)
        if event.tag:
            self._tag(event)
        if event.anchor:
            self._anchors[event.anchor] = None
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        before = len(self.problems), self._budget.nodes
        self._stack.append(_Open(event, path, *before, is_mapping, expects_key=is_mapping))
        self._budget.spend(1, span)

    def _close(self, event: yaml.CollectionEndEvent) -> None:
        done = self._stack.pop()
        node: Node
        if done.is_template:
            node = self._unquoted_template(done, event)
        elif done.is_mapping:
            node = Mapping(done.keys, done.values, self._collection_span(done, event), done.path)
        else:
            node = Sequence(tuple(done.items), self._collection_span(done, event), done.path)
        if done.event.anchor:
            self._anchors[done.event.anchor] = Anchored(node, self._budget.nodes - done.nodes, done.height)
        if self._expects_key():
            self._collection_key(node)
        else:
            self._add(node, done.height)

    def _alias(self, event: yaml.AliasEvent) -> None:
        span = self._places.span(event)
        path = self._next_path(span)
        name = str(event.anchor)
        anchored = self._anchors.get(name)
        if anchored is None:
            self.problems.append(
                problems.unknown_alias(DiagnosticPosition(path, span), name, inside=name in self._anchors)
            )
            anchored = Anchored(Scalar("", span, path))
        if self._expects_key():
            self._alias_key(anchored.node, span)
            return
        check_depth(len(self._stack) + anchored.height, span)
        # Before the copy is made: with aliases of aliases a few lines can mean billions of values.
        self._budget.spend(anchored.nodes, span)
        self._add(moved(anchored.node, path, self._budget), anchored.height)

    # keys

    def _scalar_key(self, event: yaml.ScalarEvent, span: Span) -> None:
        top = self._stack[-1]
        name: str = event.value
        key = Scalar(name, span, below(top.path, name), not event.style)
        self._budget.spend_path(key.path, span)
        if event.anchor:
            self._anchors[event.anchor] = Anchored(key)
        if key.plain and name == "<<":
            self.problems.append(problems.merge_key(DiagnosticPosition(top.path, span)))
            top.await_value(None)
            return
        if key.plain:
            self._check_key_type(name, key)
        self._key(key)

    def _key(self, key: Scalar) -> None:
        """A key of the open mapping; of two with one name the first stays."""
        top = self._stack[-1]
        earlier = top.keys.get(str(key.value))
        if earlier is not None:
            self.problems.append(problems.duplicate_key(key, earlier))
        # The value of a second key of one name is read, for its own mistakes, and dropped.
        top.await_value(None if earlier is not None else key)

    def _check_key_type(self, name: str, key: Scalar) -> None:
        try:
            value = resolve(name)
        except NotJsonError:
            # `.inf` and its kin: numbers too, though JSON has none of them.
            value = 0.0
        if not isinstance(value, str):
            self.problems.append(problems.typed_key(DiagnosticPosition(key.path, key.span), name, value))

    def _collection_key(self, node: Node) -> None:
        top = self._stack[-1]
        # To YAML `{{ x }}` is a mapping whose only key is a mapping.
        if top.event.flow_style and self._places.text.startswith("{{", self._places.start(top.event)):
            top.is_template = True
        else:
            self.problems.append(problems.collection_key(node))
        top.await_value(None)

    def _alias_key(self, node: Node, span: Span) -> None:
        top = self._stack[-1]
        if isinstance(node, Scalar) and isinstance(node.value, str):
            self._key(Scalar(node.value, span, below(top.path, node.value)))
            return
        self.problems.append(problems.alias_key(DiagnosticPosition(top.path, span), node))
        top.await_value(None)

    # common to all of them

    def _expects_key(self) -> bool:
        return bool(self._stack) and self._stack[-1].expects_key

    def _next_path(self, span: Span) -> str:
        if not self._stack:
            return ""
        path = self._stack[-1].next_path()
        self._budget.spend_path(path, span)
        return path

    def _add(self, node: Node, height: int = 0) -> None:
        if self._stack:
            self._stack[-1].add(node, height)
        else:
            self._root = node

    def _collection_span(self, done: _Open, event: yaml.CollectionEndEvent) -> Span:
        """From first to last character; a block collection ends with its last value, not where the next one begins."""
        if done.event.flow_style:
            return self._places.span(done.event, event)
        first = self._places.span(done.event)
        last = done.last if done.last is not None and done.last.end > first.start else first
        return Span(first.line, first.column, last.end_line, last.end_column, first.start, last.end)

    def _unquoted_template(self, done: _Open, event: yaml.CollectionEndEvent) -> Scalar:
        """The intended text, so that there are no further findings about it."""
        del self.problems[done.problems :]
        span = self._places.span(done.event, event)
        text = self._places.text[self._places.start(done.event) : self._places.end(event)]
        self.problems.append(problems.unquoted_template(DiagnosticPosition(done.path, span), text))
        return Scalar(text, span, done.path)

    def _tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        found = _TAG.search(self._places.text, self._places.start(event))
        if found is not None:
            span = self._places.between(found.start(), found.end())
            path = self._stack[-1].next_path() if self._stack else ""
            self.problems.append(problems.tag(DiagnosticPosition(path, span), found[0]))
