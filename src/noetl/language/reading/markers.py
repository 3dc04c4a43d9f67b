"""Markers: the constructs that only one dialect has, as a table (DIA-02, DIA-03).

A strong marker decides; each row says what it is called, which dialect it belongs to, where it is found, and what the
other dialects write instead. The order of the rows does not matter; the order in the document does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from noetl.language.reading.constructs import DocumentParts, exits, key, label, loops, mappings, rules, sugar
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, inner, scalars
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.spellings.respelling import BY_ID

Finder = Callable[[DocumentParts], Iterator[Scalar]]

V10, V10_IO, V2_EVAL, V2_CASE = Dialect.V10, Dialect.V10_IO, Dialect.V2_EVAL, Dialect.V2_CASE
# `output` as a name at the begin of a chain: not a key (`x.output`), a text, nor the target of a `set`.
_OUTPUT = re.compile(r"\{[{%][^}]*(?<![.\w'\"])output\b(?!\s*=[^=])(?!['\"])")


class Marker(msgspec.Struct, frozen=True):
    """One construct of one dialect; `instead` is what each of the others writes. If the table of spellings has it
    (`spelling`), other dialects read it too, and it decides only if no marker of another dialect is found."""

    name: str
    dialect: Dialect
    find: Finder
    instead: dict[Dialect, str]
    spelling: str = ""

    def is_read_in(self, dialect: Dialect) -> bool:
        """Whether a document of `dialect` may hold this construct."""
        if self.dialect in (dialect, dialect.rules):
            return True
        return bool(self.spelling) and BY_ID[self.spelling].is_read_in(dialect)


def _at_root(name: str) -> Finder:
    return lambda parts: key(parts.root, name)


def _on_step(*path: str) -> Finder:
    return lambda parts: (found for step in parts.steps for found in key(step, *path))


def _on_loop(*path: str) -> Finder:
    return lambda parts: (found for step in parts.steps for loop in loops(step) for found in key(loop, *path))


def _on_task(*path: str) -> Finder:
    return lambda parts: (found for task in parts.tasks for found in key(task, *path))


def _in_rule(name: str) -> Finder:
    return lambda parts: (found for task in parts.tasks for rule in rules(task) for found in key(rule, name))


def _spec_policy(parts: DocumentParts) -> Iterator[Scalar]:
    """`spec.policy` in every place of a spec."""
    yield from key(parts.root, "executor", "spec", "policy")
    for step in parts.steps:
        for holder in (step, *loops(step), *exits(step)):
            yield from key(holder, "spec", "policy")
    yield from _on_task("spec", "policy")(parts)


def _kind_in_list(parts: DocumentParts) -> Iterator[Scalar]:
    return (found for item in parts.pipeline for found in key(item, "kind"))


def _sugar_task(parts: DocumentParts) -> Iterator[Scalar]:
    return (found for item in parts.pipeline if (found := sugar(item)) is not None)


def _label_in_list(parts: DocumentParts) -> Iterator[Scalar]:
    return (found for item in parts.pipeline if (found := label(item)) is not None)


def _guarded_entry(parts: DocumentParts) -> Iterator[Scalar]:
    """A `next` list entry with `when`; beside case-family markers it is only a mistake of its own (C-04, V2C-04)."""
    for step in parts.steps:
        for entry in mappings(step.get("next")):
            yield from key(entry, "when")


def _stray_then(parts: DocumentParts) -> Iterator[Scalar]:
    """`then` outside policy rules, admit rules, sugar and on_event."""
    for step in parts.steps:
        entries = [*mappings(step.get("case")), *mappings(step.get("retry"))]
        for holder in (step, *exits(step), *entries):
            yield from key(holder, "then")
    for task in parts.tasks:
        for holder in (task, *mappings(task.get("eval"))):
            yield from key(holder, "then")


def _set(parts: DocumentParts) -> Iterator[Scalar]:
    """`set` on steps, tasks and arcs, and in task policies; in case rules it is a word of v2-case."""
    yield from _on_step("set")(parts)
    yield from _on_task("set")(parts)
    yield from _on_arc("set")(parts)
    for task in parts.tasks:
        # There `set` beside `eval` is another mistake, with a message of its own.
        if "eval" not in task:
            yield from (found for rule in rules(task) for found in key(rule, "set"))


def _input(parts: DocumentParts) -> Iterator[Scalar]:
    yield from _on_step("input")(parts)
    yield from _on_arc("input")(parts)
    yield from _on_task("input")(parts)


def _on_arc(name: str) -> Finder:
    return lambda parts: (found for step in parts.steps for arc in _arcs(step) for found in key(arc, name))


def _arcs(step: Mapping) -> Iterator[Mapping]:
    router = step.get("next")
    yield from mappings(router.get("arcs") if isinstance(router, Mapping) else router)


def _output(parts: DocumentParts) -> Iterator[Scalar]:
    """`output` as a name in policies, arcs and what a step sets, or as rules of a task; where the document has nothing
    of its own under that name."""
    if _names_something(parts.root, "output"):
        return
    for task in parts.tasks:
        yield from key(task, "output", "rules")
        yield from _reading_output(inner(task, "spec", "policy"))
    for step in parts.steps:
        for name in ("next", "set_ctx", "set"):
            yield from _reading_output(step.get(name))


def _names_something(node: Node, word: str) -> bool:
    """Whether a step, a task, an iterator, an argument or any other value is called `word`."""
    match node:
        case Mapping():
            named = (node.get(name) for name in ("step", "name", "iterator", "element"))
            if any(isinstance(one, Scalar) and one.value == word for one in named):
                return True
            # Keys of tasks and steps belong to the language: they are not names that an author gave.
            if word in node and "kind" not in node and "step" not in node:
                return True
            return any(_names_something(value, word) for value in node.values.values())
        case Sequence():
            return any(_names_something(item, word) for item in node)
    return False


def _reading_output(node: Node | None) -> Iterator[Scalar]:
    for scalar in scalars(node) if node is not None else ():
        if isinstance(scalar.value, str) and _OUTPUT.search(scalar.value):
            yield scalar


def _for_both(instead: str) -> dict[Dialect, str]:
    """Constructs that v10 and v2-eval share."""
    return {V10: instead, V2_EVAL: instead}


GUARDED_ENTRY = Marker(
    "next[].when",
    V2_EVAL,
    _guarded_entry,
    {V10: "next: { arcs: [{ step, when }] }", V2_CASE: "case: [{ when, then: { next } }]"},
    spelling="next-list",
)

STRONG: tuple[Marker, ...] = (
    *(
        Marker(name, V10_IO, find, {V10: instead, V2_EVAL: instead, V2_CASE: instead}, spelling=spelling)
        for name, find, instead, spelling in (
            ("input", _input, "args", "step-input"),
            ("set", _set, "set_ctx", "rule-set"),
            ("output", _output, "outcome", "io-names"),
        )
    ),
    Marker("spec.policy", V10, _spec_policy, {V2_EVAL: "eval on the task", V2_CASE: "case and retry"}),
    Marker(
        "next.arcs",
        V10,
        _on_step("next", "arcs"),
        {V2_EVAL: "next: [{ step, when }]", V2_CASE: "next: name, or case with next"},
    ),
    Marker("name and kind", V10, _kind_in_list, {V2_EVAL: "- label: { kind }", V2_CASE: "tool: { kind }"}),
    Marker("choose, while, until", V10, _sugar_task, {V2_EVAL: "eval with do: jump", V2_CASE: "case"}),
    Marker("eval", V2_EVAL, _on_task("eval"), {V10: "spec: { policy: { rules } }", V2_CASE: "case or retry"}),
    Marker("when", V2_EVAL, _on_step("when"), {V10: "spec: { policy: { admit } }", V2_CASE: "case"}),
    Marker(
        "spec.next_mode",
        V2_EVAL,
        _on_step("spec", "next_mode"),
        {V10: "next: { spec: { mode } }", V2_CASE: "spec: { case_mode }"},
    ),
    GUARDED_ENTRY,
    Marker(
        "labels", V2_EVAL, _label_in_list, {V10: "- { name, kind }", V2_CASE: "tool: { kind }"}, spelling="task-label"
    ),
    Marker("set_vars", V2_EVAL, _in_rule("set_vars"), {V10: "set_iter or set_ctx", V2_CASE: "vars"}),
    Marker("set_shared", V2_EVAL, _in_rule("set_shared"), {V10: "loop.spec.reduce", V2_CASE: "vars"}),
    Marker("set_prev", V2_EVAL, _in_rule("set_prev"), {V10: "set_iter", V2_CASE: "vars"}),
    Marker(
        "case", V2_CASE, _on_step("case"), {V10: "next: { arcs: [{ step, when }] }", V2_EVAL: "next: [{ step, when }]"}
    ),
    Marker(
        "retry",
        V2_CASE,
        _on_step("retry"),
        {V10: "a policy rule with do: retry", V2_EVAL: "eval with do: retry"},
        spelling="step-retry",
    ),
    Marker("sink", V2_CASE, _on_step("sink"), _for_both("a storing task")),
    Marker("vars", V2_CASE, _on_step("vars"), _for_both("set_ctx"), spelling="step-vars"),
    Marker("then", V2_CASE, _stray_then, {V10: "policy rules or arcs", V2_EVAL: "do in eval"}),
    Marker("loop.mode", V2_CASE, _on_loop("mode"), _for_both("loop.spec.mode"), spelling="loop-options"),
    Marker("loop.collection", V2_CASE, _on_loop("collection"), _for_both("loop.in"), spelling="loop-collection"),
    Marker("loop.element", V2_CASE, _on_loop("element"), _for_both("loop.iterator"), spelling="loop-collection"),
    Marker(
        "loop.spec.batch_size",
        V2_CASE,
        _on_loop("spec", "batch_size"),
        _for_both("loop.spec.max_in_flight"),
        spelling="loop-batch-size",
    ),
    Marker(
        "spec.case_mode",
        V2_CASE,
        _on_step("spec", "case_mode"),
        {V10: "next: { spec: { mode } }", V2_EVAL: "spec: { next_mode }"},
    ),
    Marker("spec.eval_mode", V2_CASE, _on_step("spec", "eval_mode"), _for_both("message or signal")),
    Marker(
        "spec.on_error",
        V2_CASE,
        _on_step("spec", "on_error"),
        {V10: "a policy rule with do: continue", V2_EVAL: "eval with do: continue"},
    ),
    Marker("name", V2_CASE, _at_root("name"), _for_both("metadata.name")),
    Marker("path", V2_CASE, _at_root("path"), _for_both("metadata.path")),
)


def weak_dialect(parts: DocumentParts) -> Dialect | None:
    """The dialect suggested by the shape of `next` and step-level `args`; the first rule that applies anywhere
    decides (DIA-03)."""
    exits_written = [step.get("next") for step in parts.steps]
    named = any(isinstance(node, Scalar) and isinstance(node.value, str) for node in exits_written)
    if named or any("args" in step for step in parts.steps):
        return V2_CASE
    return V2_EVAL if any(isinstance(node, Sequence) for node in exits_written) else None
