"""Other spellings of `eval` entries and directives: `else: continue`, an entry without `expr`, `goto`, nested sets."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import V2_EVAL, V10, V10_IO, Rewriting, Spelling, Where, renames
from noetl.language.reading.spellings.routing import CONDITIONS
from noetl.language.reading.spellings.rules import DIRECTIVES

_DO_WORDS = {"goto": "jump", "abort": "fail", "proceed": "continue"}
_GUARDED = {"expr", "else", "when", "then", *CONDITIONS}
_SCOPES = ("ctx", "iter", "vars")


def _list_entries(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`eval` with one entry; for a task, or for the mapping under its label."""
    if "kind" not in node and len(node) == 1:
        ((label, _, held),) = node.items()
        if isinstance(held, Mapping) and "kind" in held and isinstance(held.get("eval"), Mapping):
            return model.with_value(node, label, _list_entries(held, rewriting))
        return node
    entry = node.get("eval")
    if isinstance(entry, Mapping) and ({"expr", "else", "do"} & entry.values.keys()):
        rewriting.note(node.keys["eval"], "eval as one entry", "a list of entries")
        node = model.with_value(node, "eval", model.made_list([entry], entry))
    return node


def _write_else(node: Mapping, rewriting: Rewriting) -> Mapping:
    """An entry without a condition is the `else`."""
    held = node.get("else")
    if isinstance(held, Scalar) and held.value in DIRECTIVES:
        rewriting.note(held, f"else: {held.value}", f"else: {{do: {held.value}}}")
        return model.with_value(node, "else", model.made_mapping([("do", held)], held))
    is_bare = isinstance(held, Scalar) and held.value in (True, None)
    if "do" in node and (is_bare or not _GUARDED & node.values.keys()):
        rewriting.note(node.keys["do"], "an entry without expr", "else: {do: …}")
        rest = model.without_keys(node, "else") if is_bare else node
        return model.made_mapping([("else", rest)], node)
    return node


def _write_directive(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`fail: true`, `retry: {attempts: 3}`, `jump: label` without `do`."""
    words = [key for key in node.values if key in DIRECTIVES]
    if "do" in node or len(words) != 1:
        return node
    (word,) = words
    argument, rest = node.values[word], model.without_keys(node, word)
    more: dict[str, Node] = {}
    if word == "jump" and isinstance(argument, Scalar) and isinstance(argument.value, str):
        more["to"] = argument
    # Only a retry has bounds; a key in both places is left to the reader, which refuses it.
    elif (
        isinstance(argument, Mapping)
        and not argument.values.keys() & rest.values.keys()
        and (word == "retry" or not len(argument))
    ):
        more |= argument.values
    elif not (isinstance(argument, Scalar) and argument.value in (True, None)):
        return node
    rewriting.note(node.keys[word], f'"{word}" without do', f"do: {word}")
    node = model.with_value(rest, "do", model.made_text(word, node.keys[word]), node.keys[word])
    for key, value in more.items():
        node = model.with_value(node, key, value)
    return node


def _name_directive(node: Mapping, rewriting: Rewriting) -> Mapping:
    word = node.get("do")
    if isinstance(word, Scalar) and isinstance(word.value, str) and word.value in _DO_WORDS:
        rewriting.note(word, f"do: {word.value}", f"do: {_DO_WORDS[word.value]}")
        node = model.with_value(node, "do", model.made_text(_DO_WORDS[word.value], word))
    if isinstance(word, Scalar) and word.value in ("jump", "goto"):
        node = renames("a rule", dict.fromkeys(("target", "task", "label"), "to"))(node, rewriting)
    bounds = node.get("retry")
    if isinstance(word, Scalar) and word.value == "retry" and isinstance(bounds, Mapping):
        rewriting.note(node.keys["retry"], '"retry" within a rule', "its keys themselves")
        node = model.merged(model.without_keys(node, "retry"), bounds, node)
    return node


def _split_set(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`set: {ctx: {…}, iter: {…}}` as `set_ctx` and `set_iter`."""
    written = node.get("set")
    if not isinstance(written, Mapping) or not len(written):
        return node
    scopes = written.values
    if not all(key in _SCOPES and isinstance(value, Mapping) for key, value in scopes.items()):
        return node
    if any(f"set_{key}" in node for key in scopes):
        return node
    rewriting.note(node.keys["set"], '"set" with scopes', " and ".join(f'"set_{key}"' for key in scopes))
    key = node.keys["set"]
    first, *others = scopes
    node = model.with_value(model.with_key(node, "set", f"set_{first}"), f"set_{first}", scopes[first])
    for scope in others:
        node = model.with_value(node, f"set_{scope}", scopes[scope], key)
    return node


SPELLINGS = (
    Spelling(
        id="eval-one-entry",
        where=Where.TASK,
        older="`eval: {expr, do}` without a list",
        canonical="`spec.policy.rules: [{when, then: {do}}]`",
        dialects=(V2_EVAL,),
        rewrite=_list_entries,
    ),
    Spelling(
        id="eval-else",
        where=Where.RULE,
        older="`else: continue`, `{else: true, do: …}`, `{do: …}` without `expr`",
        canonical="`else: {then: {do: …}}`",
        dialects=(V2_EVAL,),
        rewrite=_write_else,
    ),
    Spelling(
        id="rule-bare-directive",
        where=Where.ACTION,
        older="`fail: true`, `retry: {attempts: 3}`, `jump: label` without `do`",
        canonical="`do: fail`; `do: retry, attempts: 3`; `do: jump, to: label`",
        dialects=(V10, V2_EVAL),
        rewrite=_write_directive,
    ),
    Spelling(
        id="rule-do-words",
        where=Where.ACTION,
        older="`do: goto`, `target` for `to`; `retry: {attempts, …}` beside `do: retry`",
        canonical="`do: jump`, `to`; `attempts`, `delay`",
        dialects=(V10, V2_EVAL),
        rewrite=_name_directive,
    ),
    Spelling(
        id="rule-set-scopes",
        where=Where.ACTION,
        older="`set: {ctx: {…}, iter: {…}}`",
        canonical="`set_ctx: {…}`, `set_iter: {…}`",
        dialects=(V10_IO, V2_EVAL),
        own=V10_IO,
        rewrite=_split_set,
    ),
)
