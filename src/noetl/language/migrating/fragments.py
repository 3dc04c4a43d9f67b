"""The migrated document before it is written as text.

A piece is either a stretch of the old text, kept as it was written, or something new. A new piece names the element it
comes from (`origin`), so that comments and empty lines find their place again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from noetl.base.template_names import Renames, renamed
from noetl.language.migrating.document_editor import SourceDocument, item_id, key_id, origin_of
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import TaskSyntax

WIDTH = 110  # the limit for one line


class Literal(msgspec.Struct, frozen=True):
    """New text that is one YAML scalar on one line."""

    text: str


class Copied(msgspec.Struct, frozen=True):
    """A value as it was written: a stretch of the old text."""

    start: int
    end: int
    # Column from which its continuation lines are indented.
    base: int
    # A block, which begins on the line below its key.
    block: bool = False
    plain: bool = False
    # Replacements inside the stretch, by offsets of the old text: names that differ in v10.
    edits: tuple[tuple[int, int, str], ...] = ()


class FragmentEntry(msgspec.Struct, frozen=True):
    key: str
    value: Piece
    origin: str = ""


class CopiedEntry(msgspec.Struct, frozen=True):
    """A key with its value, both as they were written, and the comments between them."""

    whole: Copied
    origin: str = ""
    # A key that v10 does not know: kept in the text as a comment, so that nothing is lost.
    is_comment: bool = False


Entry = FragmentEntry | CopiedEntry


class Mapped(msgspec.Struct, frozen=True):
    """`flow`: on one line if it fits there and it contains no comment."""

    entries: tuple[Entry, ...]
    flow: bool = False


class Item(msgspec.Struct, frozen=True):
    value: Piece
    origin: str = ""


class ListFragment(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    flow: bool = False


Piece = Literal | Copied | Mapped | ListFragment

_PLAIN = re.compile(r"[A-Za-z_/][\w./+ -]*[\w./+-]\Z|[A-Za-z_]\Z")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def scalar_text(value: object) -> str:
    """A value as YAML on one line: without quotes if it cannot be misread, else in double quotes."""
    if isinstance(value, str):
        if _PLAIN.match(value) and value.lower() not in _WORDS:
            return value
        return msgspec.json.encode(value).decode()
    return msgspec.json.encode(value).decode()


def literal(value: object) -> Literal:
    return Literal(scalar_text(value))


def mapped(values: dict[str, Piece], *, flow: bool = False) -> Mapped:
    """A mapping of pieces without an element in the old document."""
    return Mapped(tuple(FragmentEntry(key, value) for key, value in values.items()), flow=flow)


def from_data(value: object) -> Piece:
    """Plain data as pieces."""
    if isinstance(value, dict):
        return mapped({scalar_text(key): from_data(inner) for key, inner in value.items()}, flow=True)
    if isinstance(value, list):
        return ListFragment(tuple(Item(from_data(inner)) for inner in value), flow=True)
    return literal(value)


class Copier:
    """Copies parts of the old text and changes names in templates."""

    def __init__(self, old: SourceDocument, names: Renames | None = None) -> None:
        self.old = old
        self.names = names or {}

    def with_names(self, names: Renames) -> Copier:
        return Copier(self.old, {**self.names, **names})

    def value(self, node: Node, key: Scalar | None = None) -> Piece:
        """A value; `key` is the one it stood behind (a list item measures from its own column)."""
        if self.old.aliased:
            return self._expanded_value(node)
        block = not isinstance(node, Scalar) and not self.old.is_flow(node)
        # A block begins on its own line.
        base = (node if block or key is None else key).span.column
        plain = isinstance(node, Scalar) and node.plain
        return Copied(node.span.start, self._end(node, block), base, block, plain, self._edits(node))

    def entry(self, owner: Mapping, key: str) -> Entry:
        """One entry of a mapping, key and all."""
        name, value = owner.keys[key], owner.values[key]
        if self.old.aliased or self.old.is_flow(owner):
            return self.renamed_entry(owner, key, key)
        block = not isinstance(value, Scalar) and not self.old.is_flow(value)
        edits = () if is_code(owner, key) else self._edits(value)
        whole = Copied(name.span.start, self._end(value, block), name.span.column, True, False, edits)
        return CopiedEntry(whole, key_id(name))

    def commented(self, owner: Mapping, key: str) -> CopiedEntry:
        """One entry of a mapping as a comment, to the letter."""
        name, value = owner.keys[key], owner.values[key]
        block = not isinstance(value, Scalar) and not self.old.is_flow(value)
        whole = Copied(name.span.start, self._end(value, block), name.span.column, True)
        return CopiedEntry(whole, key_id(name), is_comment=True)

    def entries(self, owner: Mapping, keys: Iterable[str]) -> list[Entry]:
        return [self.entry(owner, key) for key in keys if key in owner]

    def renamed_entry(self, owner: Mapping, key: str, new_key: str) -> FragmentEntry:
        """The value of one key under another one."""
        name = owner.keys[key]
        raw = self.old.source.cut(name.span)
        text = (renamed(raw, self.names) or raw) if new_key == key else scalar_text(new_key)
        copier = Copier(self.old) if is_code(owner, key) else self
        return FragmentEntry(text, copier.value(owner.values[key], name), key_id(name))

    def renamed_entries(self, owner: Mapping) -> list[FragmentEntry]:
        """All entries of a mapping, to be written into another one."""
        return [self.renamed_entry(owner, key, key) for key in owner.values]

    def listed(self, node: Sequence) -> ListFragment:
        items = tuple(Item(self.value(item), item_id(item)) for item in node)
        return ListFragment(items, flow=self.old.is_flow(node))

    def text(self, node: Scalar) -> str:
        """A scalar's value with its names changed."""
        value = str(node.value)
        return renamed(value, self.names) or value

    def _end(self, node: Node, block: bool) -> int:
        """Where a value ends; a block takes the comment behind its last line along."""
        text, end = self.old.source.text, node.span.end
        if not block:
            return end
        rest = re.compile(r"[ \t]+#[^\r\n]*").match(text, end)
        return rest.end() if rest else end

    def _edits(self, node: Node) -> tuple[tuple[int, int, str], ...]:
        if not self.names:
            return ()
        edits = []
        for scalar in _texts(node):
            raw = self.old.source.cut(scalar.span)
            changed = renamed(raw, self.names)
            # Escaping hides quotes of the template, so the value is rewritten.
            if changed is None:
                changed = scalar_text(renamed(str(scalar.value), self.names) or scalar.value)
            if changed != raw:
                edits.append((scalar.span.start, scalar.span.end, changed))
        return tuple(edits)

    def _expanded_value(self, node: Node) -> Piece:
        """A value written out from its data: anchors and aliases do not survive being moved."""
        match node:
            case Scalar():
                return literal(self.text(node) if isinstance(node.value, str) else node.value)
            case Sequence():
                return ListFragment(tuple(Item(self._expanded_value(item)) for item in node), flow=True)
            case Mapping():
                copiers = {key: Copier(self.old) if is_code(node, key) else self for key in node.values}
                entries = (
                    FragmentEntry(scalar_text(key), copiers[key]._expanded_value(value))
                    for key, _, value in node.items()
                )
                return Mapped(tuple(entries), flow=True)


def is_code(owner: Mapping, key: str) -> bool:
    """Whether this is a task's code, which never is a template (O-11); among other data `code` is a key like any."""
    return key == "code" and "kind" in owner


def _texts(node: Node) -> list[Scalar]:
    """Every text below `node` that may be a template, keys too."""
    match node:
        case Scalar():
            return [node] if isinstance(node.value, str) else []
        case Sequence():
            return [scalar for item in node for scalar in _texts(item)]
        case Mapping():
            found = []
            for name, key, value in node.items():
                found += [key] if is_code(node, name) else [key, *_texts(value)]
            return found


# Unknown keys: a key that an older dialect ignored and v10 refuses stays in the text, as a comment.


def kept_as_comments(copier: Copier, node: Mapping, known: Collection[str], notes: Notes) -> list[CopiedEntry]:
    """The keys of `node` that are not `known`, each with a note."""
    unknown = [key for key in node.values if key not in known]
    for key in unknown:
        notes.changed(node.keys[key], f'"{key}" has no meaning here and is kept as a comment')
    return [copier.commented(node, key) for key in unknown]


def only(node: Mapping, key: str) -> Mapping:
    """`node` with one of its keys, in its place."""
    return Mapping({key: node.keys[key]}, {key: node.values[key]}, node.span, node.path)


# Tasks in the form of v10: name, kind, the unchanged inputs, and all options under `spec`.

# Runtime knobs that v2 also read beside `kind`, and v10 only under spec (SPEC-05).
KNOBS = ("timeout", "verify_ssl", "follow_redirects", "retry", "async", "auth_mode")
_NOT_INPUTS = ("name", "kind", "spec", "eval", *KNOBS)


def task_entries(
    copier: Copier,
    task: TaskSyntax,
    name: FragmentEntry | None,
    policy: Collection[FragmentEntry] = (),
    replaced: dict[str, FragmentEntry] | None = None,
) -> list[Entry]:
    """The entries of one task; `replaced` inputs take the place of the written ones."""
    node = task.node
    assert isinstance(node, Mapping)
    entries: list[Entry] = [name] if name is not None else []
    entries += copier.entries(node, ("kind",))
    if task.kind == "workbook" and "task" not in node and isinstance(named := node.get("name"), Scalar):
        # A reference without `task` means the task of its own name, and that name may change here.
        entries.append(FragmentEntry("task", literal(str(named.value))))
    added = dict(replaced or {})
    for key in node.values:
        if key in _NOT_INPUTS and not (key == "name" and "name" in task.inputs):
            continue
        if key in added:
            entries.append(added.pop(key))
        else:
            entries.append(copier.entry(node, key))
    entries += added.values()
    spec = _spec(copier, node, policy)
    return [*entries, spec] if spec is not None else entries


def _spec(copier: Copier, node: Mapping, policy: Collection[FragmentEntry]) -> Entry | None:
    spec = node.get("spec")
    knobs = [key for key in KNOBS if key in node]
    if not policy and not knobs:
        return copier.entry(node, "spec") if "spec" in node else None
    kept: list[Entry] = []
    if isinstance(spec, Mapping):
        kept += copier.entries(spec, spec.values)
    kept += copier.entries(node, knobs)
    origin = origin_of(node, "spec")
    return FragmentEntry("spec", Mapped((*kept, *policy)), origin)
