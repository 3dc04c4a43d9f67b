"""`set_ctx` and `set_iter` on a task: what it writes when it has succeeded, as a part of its rules."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.input_output import with_task_writes
from noetl.language.reading.spellings.model import V2_EVAL, V10, Rewriting, Spelling, Where
from noetl.language.reading.spellings.trees import made_list, made_mapping, made_text, with_value, without_keys

_KEYS = ("set_ctx", "set_iter")


def _write_in_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    for key in _KEYS:
        written = node.get(key)
        if "kind" not in node or not isinstance(written, Mapping):
            continue
        changed = with_task_writes(node, key, [(key, written)])
        if changed is not node:
            rewriting.note(node.keys[key], f'"{key}" of a task', "a rule for success in spec.policy.rules")
        node = changed
    return node


def _write_in_eval(node: Mapping, rewriting: Rewriting) -> Mapping:
    """v2-eval: one more entry, before the `else`; what stands under a label is a task."""
    if "kind" not in node:
        inside = next(iter(node.values.values())) if len(node) == 1 else None
        if isinstance(inside, Mapping) and "kind" in inside:
            return with_value(node, next(iter(node.values)), _write_in_eval(inside, rewriting))
        return node
    written = [(key, value) for key in _KEYS if isinstance(value := node.get(key), Mapping)]
    entries = node.get("eval")
    if not written or not (entries is None or isinstance(entries, Sequence)):
        return node
    key, at = written[0]
    rewriting.note(node.keys[key], f'"{key}" of a task', "an entry for success in eval")
    listed: list[Node] = list(entries) if isinstance(entries, Sequence) else []
    success = made_text("{{ outcome.status == 'success' }}", at)
    entry = made_mapping([("expr", success), ("do", made_text("continue", at)), *written], at)
    last = next((i for i, one in enumerate(listed) if _is_else(one)), len(listed))
    kept = [one for one in listed[:last] if not _is_success(one)]
    if len(kept) < last:
        return node  # rules of its own for a success: they decide, and a person says what belongs to which
    listed.insert(last, entry)
    return with_value(without_keys(node, *_KEYS), "eval", made_list(listed, at), node.keys[key])


def _is_else(node: Node) -> bool:
    return isinstance(node, Mapping) and "else" in node


def _is_success(node: Node) -> bool:
    """Whether an entry can be taken after a success, as far as its text tells."""
    when = node.get("expr") if isinstance(node, Mapping) else None
    return not (isinstance(when, Scalar) and "error" in str(when.value))


SPELLINGS = (
    Spelling(
        id="task-set-ctx",
        where=Where.TASK,
        older="`set_ctx`, `set_iter` of a task",
        canonical="the same in a rule for success",
        dialects=(V10,),
        rewrite=_write_in_rules,
    ),
    Spelling(
        id="task-set-eval",
        where=Where.TASK,
        older="`set_ctx`, `set_iter` of a task beside `eval`",
        canonical="the same in a rule for success",
        dialects=(V2_EVAL,),
        rewrite=_write_in_eval,
    ),
)
