"""Respelling: rewrites a document to the canonical keys of its dialect, every construct from the outside in. Also the
table of every accepted spelling with its v10 form, which the pages and `noetl migrate` read too."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence as Rows

from noetl.base.diagnostics import is_template
from noetl.language.reading.constructs import SUGAR
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, scalars
from noetl.language.reading.spellings import (
    casing,
    eval_entries,
    input_output,
    loops,
    next_shapes,
    plain_values,
    retries,
    retry_words,
    roots,
    routing,
    rules,
    steps,
    task_shapes,
    tool_words,
)
from noetl.language.reading.spellings.model import V2_CASE, V2_EVAL, Rewriting, Spelling, Where, with_items, with_value
from noetl.language.v2_case import port as v2_case

# The order is that of the rewriting: shapes come before the words within them.
SPELLINGS: tuple[Spelling, ...] = (
    *casing.SPELLINGS,
    *plain_values.SPELLINGS,
    *roots.SPELLINGS,
    *plain_values.TRIGGER_SPELLINGS,
    *task_shapes.DEPENDENCY_SPELLINGS,
    *tool_words.SPELLINGS,
    # Before the words of tasks and loops: these rows produce them.
    *task_shapes.SPELLINGS,
    *tool_words.REFERENCE_SPELLINGS,
    *steps.POLICY_SPELLINGS,
    *steps.SPELLINGS,
    *v2_case.retry_spellings(),
    # Before the other rows of retries, which turn the canonical words into rules.
    *retry_words.SPELLINGS,
    *retries.SPELLINGS,
    *eval_entries.SPELLINGS,
    # After retries: the writes of a task go behind its error rules.
    *input_output.SPELLINGS,
    *loops.SPELLINGS,
    *next_shapes.SPELLINGS,
    *routing.SPELLINGS,
    *rules.SPELLINGS,
    *v2_case.rule_spellings(),
    *rules.OPTION_SPELLINGS,
)

BY_ID: dict[str, Spelling] = {spelling.id: spelling for spelling in SPELLINGS}
BY_PLACE: dict[Where, tuple[Spelling, ...]] = {
    where: tuple(one for one in SPELLINGS if one.where is where and one.rewrite is not None) for where in Where
}


_ITER_NAME = re.compile(r"\biter\.([A-Za-z_]\w*)")
Visit = Callable[[Mapping], Mapping]


def respelled(root: Mapping, rewriting: Rewriting, repairs: Rows[Spelling] = ()) -> Mapping:
    """The document at `root` in the words of the rewriting's dialect; the very same where nothing was to be changed.
    `repairs` are further rows, which come before those of the table and after them."""
    return _Visitor(rewriting, repairs).document(root)


def respelled_step(step: Mapping, rewriting: Rewriting) -> Mapping:
    """One step with the canonical keys of the rewriting's dialect, independent of the dialect of the other steps."""
    return _Visitor(rewriting, ()).step(step)


class _Visitor:
    """Knows the places of the constructs of a document; each is rewritten before its contents."""

    def __init__(self, rewriting: Rewriting, repairs: Rows[Spelling]) -> None:
        self._rewriting = rewriting
        more = {where: tuple(one for one in repairs if one.where is where) for where in Where}
        # Repairs run twice: a replacement by the table may need a repair.
        self._rows = {
            where: tuple(row for row in (*more[where], *rows, *more[where]) if row.applies(rewriting))
            for where, rows in BY_PLACE.items()
        }

    def document(self, node: Mapping) -> Mapping:
        node = self._rewritten(node, Where.DOCUMENT)
        node = _with_visited(node, "executor", lambda block: self._rewritten(block, Where.EXECUTOR))
        node = _with_each_visited(node, "keychain", lambda entry: self._rewritten(entry, Where.KEYCHAIN))
        self._rewriting.workbook_names = tool_words.workbook_names(node)
        node = self._workbook(node)
        self._rewriting.step_names = _step_names(node)
        return _with_each_visited(node, "workflow", self.step)

    def _rewritten(self, node: Mapping, where: Where) -> Mapping:
        self._rewriting.quiet = False
        node = casing.with_snake_keys(node, self._rewriting)
        for row in self._rows[where]:
            if row.rewrite is not None:
                self._rewriting.quiet = row.own is self._rewriting.dialect
                node = row.rewrite(node, self._rewriting)
        return node

    def _workbook(self, node: Mapping) -> Mapping:
        book = node.get("workbook")
        if isinstance(book, Sequence):
            return _with_each_visited(node, "workbook", self._workbook_task)
        if isinstance(book, Mapping):
            tasks = book.get("tasks")
            if isinstance(tasks, Mapping) and "kind" not in tasks:
                return with_value(node, "workbook", with_value(book, "tasks", _values(tasks, self._workbook_task)))
            return with_value(node, "workbook", _values(book, self._workbook_task))
        return node

    def _workbook_task(self, node: Mapping) -> Mapping:
        if "kind" not in node and isinstance(node.get("tool"), Mapping):
            return _with_visited(node, "tool", self._task)
        return self._task(node)

    def step(self, node: Mapping) -> Mapping:
        self._rewriting.iter_names = _names_read_of_iter(node) if "loop" in node else frozenset()
        node = self._rewritten(node, Where.STEP)
        node = _with_visited(node, "loop", self._loop)
        node = self._tasks(node, "tool")
        node = _with_visited(node, "next", self._router)
        node = _with_each_visited(node, "next", lambda arc: self._rewritten(arc, Where.ARC))
        node = _below(node, ("spec", "policy", "admit"), lambda admit: _with_each_visited(admit, "rules", self._rule))
        node = _with_visited(node, "compensate", lambda block: self._tasks(block, "tool"))
        node = _with_visited(node, "on_event", self._handlers)
        node = _with_each_visited(node, "on_event", self._handler)
        node = _with_each_visited(node, "case", self._rule)
        node = _with_visited(node, "sink", self._tool_holder)
        return self._retry(node)

    def _retry(self, node: Mapping) -> Mapping:
        """`retry` of v2-case: one policy, or a list of `{when, then}`."""
        if self._rewriting.dialect is not V2_CASE:
            return node
        node = _with_visited(node, "retry", self._retry_policy)
        return _with_each_visited(node, "retry", self._listed_retry)

    def _listed_retry(self, node: Mapping) -> Mapping:
        return _with_visited(self._rewritten(node, Where.RULE), "then", self._retry_policy)

    def _retry_policy(self, node: Mapping) -> Mapping:
        return _with_visited(self._rewritten(node, Where.RETRY), "sink", self._tool_holder)

    def _tool_holder(self, node: Mapping) -> Mapping:
        """A sink, or a labelled task of v2-case: `{tool, args}`."""
        return _with_visited(node, "tool", self._task)

    def _loop(self, node: Mapping) -> Mapping:
        return _with_visited(self._rewritten(node, Where.LOOP), "loop", self._loop)

    def _router(self, node: Mapping) -> Mapping:
        return _with_each_visited(
            self._rewritten(node, Where.ROUTER), "arcs", lambda arc: self._rewritten(arc, Where.ARC)
        )

    def _handlers(self, node: Mapping) -> Mapping:
        return _with_each_visited(node, "handlers", self._handler)

    def _handler(self, node: Mapping) -> Mapping:
        return self._tasks(self._rewritten(node, Where.RULE), "then")

    def _tasks(self, node: Mapping, key: str) -> Mapping:
        """The tasks under `key`: one mapping, or a list."""
        return _with_each_visited(_with_visited(node, key, self._task), key, self._task)

    def _task(self, node: Mapping) -> Mapping:
        node = self._rewritten(node, Where.TASK)
        for word in SUGAR:
            if "kind" not in node and word in node:
                node = _with_each_visited(_with_visited(node, word, self._branch), word, self._branch)
        if self._rewriting.dialect is V2_EVAL:
            return self._labelled(_with_each_visited(node, "eval", self._entry))
        return _below(node, ("spec", "policy"), self._policy)

    def _labelled(self, node: Mapping) -> Mapping:
        """v2-eval: the mapping under a label."""
        if "kind" in node or len(node) != 1:
            return node
        return _values(node, lambda task: self._task(task) if "kind" in task else task)

    def _branch(self, node: Mapping) -> Mapping:
        node = self._rewritten(node, Where.RULE)
        return _with_visited(self._tasks(node, "then"), "else", lambda inner: self._tasks(inner, "then"))

    def _policy(self, node: Mapping) -> Mapping:
        for hooks in ("before", "after", "finally"):
            node = self._tasks(node, hooks)
        return _with_each_visited(node, "rules", self._rule)

    def _rule(self, node: Mapping) -> Mapping:
        node = self._rewritten(node, Where.RULE)
        node = _with_visited(node, "then", self._action)
        node = _with_each_visited(node, "then", self._listed_action)
        held = node.get("else")
        if isinstance(held, Mapping) and "then" in held:
            return with_value(node, "else", self._rule(held))
        return _with_visited(node, "else", self._action)

    def _entry(self, node: Mapping) -> Mapping:
        """An entry of `eval`, which is both condition and action."""
        node = self._rewritten(self._rewritten(node, Where.RULE), Where.ACTION)
        return _with_visited(node, "else", self._action)

    def _action(self, node: Mapping) -> Mapping:
        node = self._rewritten(node, Where.ACTION)
        node = _with_visited(node, "sink", self._tool_holder)
        return self._retry(node)

    def _listed_action(self, node: Mapping) -> Mapping:
        """One entry of a `then` list of v2-case: a labelled task, or one action."""
        if self._rewriting.dialect is not V2_CASE or len(node) != 1:
            return node
        return _values(self._action(node), self._tool_holder)


def _step_names(root: Mapping) -> frozenset[str]:
    workflow = root.get("workflow")
    names = (
        [step.get("step") for step in workflow if isinstance(step, Mapping)] if isinstance(workflow, Sequence) else []
    )
    return frozenset(str(name.value) for name in names if isinstance(name, Scalar))


def _names_read_of_iter(step: Mapping) -> frozenset[str]:
    texts = (scalar.value for scalar in scalars(step) if isinstance(scalar.value, str))
    return frozenset(name for text in texts if is_template(text) for name in _ITER_NAME.findall(text))


def _with_visited(node: Mapping, key: str, visit: Visit) -> Mapping:
    """`node` with the mapping under `key` visited, if it is one."""
    held = node.get(key)
    return with_value(node, key, visit(held)) if isinstance(held, Mapping) else node


def _with_each_visited(node: Mapping, key: str, visit: Visit) -> Mapping:
    """`node` with every mapping of the list under `key` visited, if it is a list."""
    held = node.get(key)
    return with_value(node, key, _items(held, visit)) if isinstance(held, Sequence) else node


def _below(node: Mapping, path: tuple[str, ...], visit: Visit) -> Mapping:
    if not path:
        return visit(node)
    return _with_visited(node, path[0], lambda held: _below(held, path[1:], visit))


def _items(node: Sequence, visit: Visit) -> Sequence:
    return with_items(node, [visit(item) if isinstance(item, Mapping) else item for item in node])


def _values(node: Mapping, visit: Visit) -> Mapping:
    for key, value in node.values.items():
        changed: Node = visit(value) if isinstance(value, Mapping) else value
        node = with_value(node, key, changed)
    return node
