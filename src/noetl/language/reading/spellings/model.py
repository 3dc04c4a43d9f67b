"""Model: one accepted spelling, the state of a rewriting, and functions that change trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from noetl.base.diagnostics import Diagnostic, Findings, PositionedDiagnostic, Span, is_template
from noetl.base.template_names import paths, renamed
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Dialect

# Trees: documents changed in one place, the rest shared. A new node is marked (`made`) and has the place of the node it
# replaces.


def made_text(value: bool | int | float | str | None, at: PositionedDiagnostic) -> Scalar:
    return Scalar(value, at.span, at.path, made=True)


def made_mapping(entries: Iterable[tuple[str, Node]], at: PositionedDiagnostic) -> Mapping:
    """A mapping with these keys, each at the place of its value."""
    listed = list(entries)
    keys = {name: made_text(name, value) for name, value in listed}
    return Mapping(keys, dict(listed), at.span, at.path, made=True)


def made_list(items: Iterable[Node], at: PositionedDiagnostic) -> Sequence:
    return Sequence(tuple(items), at.span, at.path, made=True)


def with_key(node: Mapping, old: str, new: str) -> Mapping:
    """`node` with the key `old` called `new`, at its place in the order."""
    key = node.keys[old]
    keys = {
        new if name == old else name: made_text(new, key) if name == old else one for name, one in node.keys.items()
    }
    values = {new if name == old else name: value for name, value in node.values.items()}
    return Mapping(keys, values, node.span, node.path, made=True)


def with_value(node: Mapping, key: str, value: Node, at: Scalar | None = None) -> Mapping:
    """`node` with another value for `key`, or with one more key, written at the place of `at` or of the value."""
    if node.get(key) is value:
        return node
    name = node.keys.get(key) or made_text(key, at or value)
    return Mapping({**node.keys, key: name}, {**node.values, key: value}, node.span, node.path, made=True)


def with_path(node: Mapping, path: tuple[str, ...], value: Node, at: PositionedDiagnostic) -> Mapping:
    """`node` with `value` at the end of `path`; mappings that are missing on the way are added."""
    if len(path) == 1:
        return with_value(node, path[0], value)
    held = node.get(path[0])
    block = held if isinstance(held, Mapping) else made_mapping((), at)
    return with_value(node, path[0], with_path(block, path[1:], value, at))


def without_keys(node: Mapping, *gone: str) -> Mapping:
    keys = {name: key for name, key in node.keys.items() if name not in gone}
    return Mapping(keys, {name: node.values[name] for name in keys}, node.span, node.path, made=True)


def only_keys(node: Mapping, *kept: str) -> Mapping:
    return Mapping(
        {key: node.keys[key] for key in kept}, {key: node.values[key] for key in kept}, node.span, node.path, made=True
    )


def merged(outer: Mapping, inner: Mapping, at: PositionedDiagnostic) -> Mapping:
    """The keys of both, at the place of `at`; of one name those of `inner`."""
    return Mapping({**outer.keys, **inner.keys}, {**outer.values, **inner.values}, at.span, at.path, made=True)


def with_items(node: Sequence, items: Iterable[Node]) -> Sequence:
    """`node` itself when nothing changed."""
    changed = tuple(items)
    same = len(changed) == len(node) and all(new is old for new, old in zip(changed, node, strict=True))
    return node if same else Sequence(changed, node.span, node.path, made=True)


def moved_into(node: Mapping, inner: str, key: str, new: str) -> Mapping:
    """`node` with its `key` under `inner` instead, called `new`; `inner` is added where it is missing."""
    value, name = node.values[key], node.keys[key]
    held = node.get(inner)
    block = held if isinstance(held, Mapping) else made_mapping((), name)
    named = Mapping(
        {**block.keys, new: made_text(new, name)}, {**block.values, new: value}, block.span, block.path, made=True
    )
    if inner not in node:
        return with_value(without_keys(node, key), inner, named, name)
    return with_value(without_keys(node, key), inner, named)


def with_names(node: Node, names: dict[str, str]) -> Node:
    """`node` with names in its templates changed."""
    match node:
        case Scalar() if isinstance(node.value, str) and _reads(node.value, names):
            text = renamed(node.value, names) or node.value
            return node if text == node.value else made_text(text, node)
        case Sequence():
            items = tuple(with_names(item, names) for item in node)
            same = all(new is old for new, old in zip(items, node, strict=True))
            return node if same else Sequence(items, node.span, node.path, made=True)
        case Mapping():
            for key, value in node.values.items():
                node = with_value(node, key, with_names(value, names))
    return node


def _reads(text: str, names: dict[str, str]) -> bool:
    """Whether a template reads one of the names at all; other texts are never rewritten."""
    roots = {name.partition(".")[0] for name in names}
    return is_template(text) and any(path[0] in roots for path in paths(text))


V10, V10_IO, V2_EVAL, V2_CASE = Dialect.V10, Dialect.V10_IO, Dialect.V2_EVAL, Dialect.V2_CASE
EVERYWHERE = (V10, V2_EVAL, V2_CASE)


class Where(StrEnum):
    """The construct a spelling belongs to; a rewriting visits every one of a document, from the outside in."""

    DOCUMENT = "document"
    EXECUTOR = "executor"
    KEYCHAIN = "keychain"
    STEP = "step"
    LOOP = "loop"
    ROUTER = "next"
    ARC = "arc"
    TASK = "task"
    # A rule of a task policy, an admission, a choose or a case; an eval entry.
    RULE = "rule"
    ACTION = "then"  # the action of a rule
    # One policy of a `retry` block.
    RETRY = "retry"


_IS_READ = " is read as "


class Rewriting(msgspec.Struct):
    """The dialect the document is written in, and where notes go."""

    dialect: Dialect
    findings: Findings
    v10_api: bool = False  # apiVersion: noetl.io/v10
    # Also rewrite what noetl.io/v10 refuses. Only `noetl migrate` sets it.
    rescue: bool = False
    # Names that templates of the current looped step read as `iter.name`.
    iter_names: frozenset[str] = frozenset()
    step_names: frozenset[str] = frozenset()  # of the document
    workbook_names: frozenset[str] = frozenset()  # of the tasks in its workbook
    # No note is written: the word is one of the document's own dialect.
    quiet: bool = False

    last_notes: dict[Span, Diagnostic] = msgspec.field(default_factory=dict)  # the last note of each place

    def note(self, place: PositionedDiagnostic, found: str, instead: str) -> None:
        """Note that `found` was read as `instead`."""
        if not self.quiet:
            now = Diagnostic("I_ALIAS", place.path, place.span, f"{found}{_IS_READ}{instead}", f"write {instead}")
            self.last_notes[place.span] = now
            self.findings.extend([now])

    def note_end(self, place: PositionedDiagnostic, found: str, instead: str, written: str) -> None:
        """Note the final form of a word that may have been rewritten before: the authored word, its final form, and
        how to write that. Intermediate advice is omitted."""
        before = self.last_notes.get(place.span)
        if self.quiet or before is None:
            self.note(place, found, instead)
            before = self.last_notes.get(place.span)
        if not self.quiet and before is not None:
            message = f"{before.message.partition(_IS_READ)[0]}{_IS_READ}{instead}"
            self.last_notes[place.span] = msgspec.structs.replace(before, message=message, hint=f"write {written}")
            self.findings.replace(before, self.last_notes[place.span])


Rewrite = Callable[[Mapping, Rewriting], Mapping]


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; `tests/golden/spellings` has an example of each, before and after. A row without `rewrite`
    is read in its place, as an input by the compiler, which knows the inputs of each kind.
    """

    id: str
    where: Where
    older: str  # as people write it
    canonical: str  # as v10 writes it
    dialects: tuple[Dialect, ...]  # the dialects that accept it
    rewrite: Rewrite | None = None
    # The dialect to which the word belongs.
    own: Dialect | None = None
    # Documents with apiVersion noetl.io/v10 refuse it, as the specification demands.
    refused_by_v10: bool = False

    def is_read_in(self, dialect: Dialect) -> bool:
        """Whether documents of `dialect` may be written so. v10-io has the spellings of v10, too."""
        return dialect in self.dialects or dialect.rules in self.dialects

    def applies(self, rewriting: Rewriting) -> bool:
        """Whether this spelling is rewritten in a document of this dialect and version."""
        if self.rewrite is None or not self.is_read_in(rewriting.dialect):
            return False
        return rewriting.rescue or not (self.refused_by_v10 and rewriting.v10_api)


ON_ERROR = "{{ outcome.status == 'error' }}"


def fail_rule(at: Node) -> Mapping:
    """A rule by which an error fails the task, as it does without any rules."""
    then = made_mapping([("do", made_text("fail", at))], at)
    return made_mapping([("when", made_text(ON_ERROR, at)), ("then", then)], at)


def with_policy_rules(node: Mapping, replaced: str, rules: Iterable[Node], at: Node) -> Mapping:
    """A task with `rules` as those of its policy, in place of what it has under the key `replaced`."""
    return with_path(without_keys(node, replaced), ("spec", "policy", "rules"), made_list(rules, at), at)


def renames(where: str, names: dict[str, str]) -> Rewrite:
    """A rewrite that gives keys other names; a key whose new name is taken stays, and is refused by its reader."""

    def rewrite(node: Mapping, rewriting: Rewriting) -> Mapping:
        for old, new in names.items():
            if old in node and new not in node:
                rewriting.note(node.keys[old], f'"{old}" of {where}', f'"{new}"')
                node = with_key(node, old, new)
        return node

    return rewrite


def flow_text(node: Node | list[Node]) -> str:
    """A node in one line, as an author may write it."""
    if isinstance(node, Mapping):
        return "{" + ", ".join(f"{key}: {flow_text(value)}" for key, _, value in node.items()) + "}"
    if not isinstance(node, Scalar):
        return "[" + ", ".join(map(flow_text, node)) + "]"
    is_word = isinstance(node.value, str) and node.value.isalnum() and not node.value.isdecimal()
    return str(node.value) if is_word else msgspec.json.encode(node.value).decode()
