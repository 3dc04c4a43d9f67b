"""Rules in other words: `cond` for `when`, `set` for `set_ctx`, lists of `{name, value}`, `fixed` backoff."""

from __future__ import annotations

from noetl.language.grammar.policies import DIRECTIVE
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import (
    EVERYWHERE,
    V2_EVAL,
    V10,
    V10_IO,
    Rewriting,
    Spelling,
    Where,
    made_mapping,
    made_text,
    renames,
    with_key,
    with_value,
)
from noetl.language.reading.spellings.routing import CONDITIONS

DIRECTIVES = DIRECTIVE["do"].words
WRITES = ("set", "set_ctx", "set_iter", "set_vars", "set_shared", "vars")
_CONSTANT_WORDS = {V10: ("none", ("fixed", "constant")), V2_EVAL: ("fixed", ("none", "constant"))}


def _name_condition(node: Mapping, rewriting: Rewriting) -> Mapping:
    is_eval = rewriting.dialect is V2_EVAL and "then" not in node
    return renames("a rule", dict.fromkeys(CONDITIONS, "expr" if is_eval else "when"))(node, rewriting)


def _merge_actions(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`then` as a list of mappings whose keys differ, or as the directive's word alone."""
    then = node.get("then")
    if isinstance(then, Scalar) and then.value in DIRECTIVES:
        rewriting.note(node.keys["then"], f"then: {then.value}", f"then: {{do: {then.value}}}")
        return with_value(node, "then", made_mapping([("do", then)], then))
    merged = _merged(then) if isinstance(then, Sequence) else None
    if merged is None:
        return node
    rewriting.note(node.keys["then"], "then as a list", "one mapping")
    return with_value(node, "then", merged)


def _merged(items: Sequence) -> Mapping | None:
    keys: dict[str, Scalar] = {}
    values: dict[str, Node] = {}
    for item in items:
        if not isinstance(item, Mapping) or keys.keys() & item.keys.keys() or "kind" in item:
            return None
        keys |= item.keys
        values |= item.values
    is_action = "do" in keys or any(key in WRITES for key in keys)
    return Mapping(keys, values, items.span, items.path, made=True) if is_action else None


def read_pairs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Writes as a list of `{name, value}`, or of one-key mappings, as one mapping."""
    for key in WRITES:
        written = node.get(key)
        pairs = _pairs(written) if isinstance(written, Sequence) else None
        if pairs is not None:
            rewriting.note(node.keys[key], f"{key} as a list", f"{key}: {{name: value}}")
            node = with_value(node, key, pairs)
    return node


def _pairs(items: Sequence) -> Mapping | None:
    keys: dict[str, Scalar] = {}
    values: dict[str, Node] = {}
    for item in items:
        if not isinstance(item, Mapping):
            return None
        name = item.get("name")
        if isinstance(name, Scalar) and isinstance(name.value, str) and "value" in item and len(item) == 2:
            keys[name.value], values[name.value] = name, item.values["value"]
        elif len(item) == 1:
            keys |= item.keys
            values |= item.values
        else:
            return None
    return Mapping(keys, values, items.span, items.path, made=True) if keys else None


def _name_set(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`set` writes into the execution; a name that begins with `iter.`, or that the looped step reads so, into the
    iteration."""
    written = node.get("set")
    if not isinstance(written, Mapping):
        return node
    return with_writes(node, written, rewriting)


def with_writes(node: Mapping, written: Mapping, rewriting: Rewriting) -> Mapping:
    parts: dict[str, list[tuple[str, Scalar, Node]]] = {"set_ctx": [], "set_iter": []}
    for name, key, value in written.items():
        scope, _, rest = name.partition(".")
        is_iter = scope == "iter" if rest else name in rewriting.iter_names
        target = "set_iter" if is_iter else "set_ctx"
        parts[target].append((rest if scope in ("ctx", "iter") and rest else name, key, value))
    wanted = [target for target, entries in parts.items() if entries] or ["set_ctx"]
    if any(target in node for target in wanted):
        return node
    rewriting.note(node.keys["set"], '"set"', " and ".join(f'"{target}"' for target in wanted))
    node = with_key(node, "set", wanted[0])
    for target in wanted:
        keys = {name: made_text(name, key) if name != key.value else key for name, key, _ in parts[target]}
        values = {name: value for name, _, value in parts[target]}
        block = Mapping(keys, values, written.span, written.path, made=True)
        node = with_value(node, target, block, node.keys[wanted[0]])
    return node


def _name_backoff(node: Mapping, rewriting: Rewriting) -> Mapping:
    word, others = _CONSTANT_WORDS[rewriting.dialect.rules]
    backoff = node.get("backoff")
    if isinstance(backoff, Scalar) and backoff.value in others:
        rewriting.note(backoff, f"backoff: {backoff.value}", f"backoff: {word}")
        node = with_value(node, "backoff", made_text(word, backoff))
    return node


SPELLINGS = (
    Spelling(
        id="rule-cond",
        where=Where.RULE,
        older="`cond`, `condition`, `if` of a rule",
        canonical="`when`",
        dialects=EVERYWHERE,
        rewrite=_name_condition,
    ),
    Spelling(
        id="rule-then-list",
        where=Where.RULE,
        older="`then: [{set_ctx: …}, {do: …}]`, `then: retry`",
        canonical="`then: {do: …, set_ctx: …}`",
        dialects=(V10,),
        rewrite=_merge_actions,
    ),
    Spelling(
        id="set-pairs",
        where=Where.ACTION,
        older="`set_ctx: [{name: n, value: v}]`, and `set`, `set_iter`, `set_vars` so",
        canonical="`set_ctx: {n: v}`",
        dialects=EVERYWHERE,
        rewrite=read_pairs,
    ),
    Spelling(
        id="rule-set",
        where=Where.ACTION,
        older="`set: {name: …, iter.name: …}` of a rule",
        canonical="`set_ctx: {name: …}`, `set_iter: {name: …}`",
        dialects=(V10_IO, V2_EVAL),
        own=V10_IO,
        rewrite=_name_set,
    ),
    Spelling(
        id="rule-backoff-fixed",
        where=Where.ACTION,
        older="`backoff: fixed`, `backoff: constant`",
        canonical="`backoff: none`",
        own=V10_IO,
        dialects=(V10, V2_EVAL),
        rewrite=_name_backoff,
    ),
    Spelling(
        id="rule-max-attempts",
        where=Where.ACTION,
        older="`max_attempts`, `initial_delay` of a rule",
        canonical="`attempts`, `delay`",
        dialects=(V10, V2_EVAL),
        rewrite=renames("a rule", {"max_attempts": "attempts", "initial_delay": "delay"}),
    ),
)
