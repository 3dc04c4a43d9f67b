"""Repairs of `eval`: v2-eval's rules of a task as a policy, with its default for unmatched errors written out; and the
variables of a step."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.template_names import paths
from noetl.language.migrating.eval_vars import prefix
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, scalars
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting

ON_ERROR = "{{ outcome.status == 'error' }}"


def write_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    entries, spec = node.get("eval"), node.get("spec")
    if not isinstance(entries, Sequence) or (isinstance(spec, Mapping) and "policy" in spec):
        return node
    rules = [_rule(entry) for entry in entries]
    if any(rule is None for rule in rules):
        return node
    rewriting.note(node.keys["eval"], '"eval"', "spec.policy.rules")
    written: list[Node] = [rule for rule in rules if rule is not None]
    last = written[-1] if written else None
    if not (isinstance(last, Mapping) and "else" in last):
        written += [_when(model.made_text(ON_ERROR, entries), _do("fail", entries), entries), _otherwise(entries)]
    held = spec if isinstance(spec, Mapping) else model.made_mapping((), entries)
    policy = model.made_mapping([("rules", model.made_list(written, entries))], entries)
    return model.with_value(
        model.without_keys(node, "eval"), "spec", model.with_value(held, "policy", policy), node.keys["eval"]
    )


def _rule(entry: Node) -> Mapping | None:
    """`{expr, do, …}` or `{else: {do, …}}` as a rule."""
    if not isinstance(entry, Mapping):
        return None
    if "else" in entry:
        inner = entry.values["else"]
        if not isinstance(inner, Mapping) or len(entry) > 1:
            return None
        return (
            entry if "then" in inner else model.with_value(entry, "else", model.made_mapping([("then", inner)], inner))
        )
    condition = next((key for key in ("expr", "when", "cond") if key in entry), None)
    if condition is None:
        return None
    named = entry if condition == "when" else model.with_key(entry, condition, "when")
    if "then" in named:
        return named
    then = model.without_keys(named, "when")
    if not len(then):
        then = _do("continue", entry)
    keys = {"when": named.keys["when"], "then": model.made_text("then", entry)}
    return Mapping(keys, {"when": named.values["when"], "then": then}, entry.span, entry.path, made=True)


def _do(word: str, at: Node) -> Mapping:
    return model.made_mapping([("do", model.made_text(word, at))], at)


def _when(condition: Scalar, then: Mapping, at: Node) -> Mapping:
    return model.made_mapping([("when", condition), ("then", then)], at)


def _otherwise(at: Node) -> Mapping:
    return model.made_mapping([("else", model.made_mapping([("then", _do("continue", at))], at))], at)


def place_variables(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step's variables: in `iter` where only its pipeline reads them, else in `ctx` under a key of the step's own."""
    written = {name for block in _blocks(node) for name in block.values}
    if not written:
        return node
    homes = _homes(node, written)
    placed = _placed(node, homes, rewriting)
    names = {f"vars.{name}": f"{store}.{key}" for name, (store, key) in homes.items()}
    renamed = model.with_names(placed, names)
    assert isinstance(renamed, Mapping)
    return renamed


def _homes(step: Mapping, written: set[str]) -> dict[str, tuple[str, str]]:
    """Where each variable lives, and its key there."""
    named = step.get("step")
    label = prefix(str(named.value)) if isinstance(named, Scalar) else "step"
    routed, read = _reads(step.get("next")), _reads(step)
    kept = routed | (read if "loop" in step else set())  # the next iteration may read it
    return {name: ("ctx", f"{label}_{name}") if name in kept else ("iter", name) for name in sorted(written)}


def _reads(node: Node | None) -> set[str]:
    """The variables that templates below `node` read."""
    texts = [str(scalar.value) for scalar in scalars(node)] if node is not None else []
    return {path[1] for text in texts for path in paths(text) if path[0] == "vars" and len(path) > 1}


def _blocks(node: Node) -> Iterator[Mapping]:
    """Every `set_vars` below `node`."""
    if isinstance(node, Mapping):
        block = node.get("set_vars")
        if isinstance(block, Mapping):
            yield block
        for value in node.values.values():
            yield from _blocks(value)
    elif isinstance(node, Sequence):
        for item in node:
            yield from _blocks(item)


def _placed(node: Mapping, homes: dict[str, tuple[str, str]], rewriting: Rewriting) -> Mapping:
    for key, value in node.values.items():
        if isinstance(value, Mapping):
            node = model.with_value(node, key, _placed(value, homes, rewriting))
        elif isinstance(value, Sequence):
            items = [_placed(item, homes, rewriting) if isinstance(item, Mapping) else item for item in value]
            node = model.with_value(node, key, model.with_items(value, items))
    block = node.get("set_vars")
    return _moved(node, block, homes, rewriting) if isinstance(block, Mapping) else node


def _moved(node: Mapping, block: Mapping, homes: dict[str, tuple[str, str]], rewriting: Rewriting) -> Mapping:
    """`node` with the entries of its `set_vars` under `set_iter` and `set_ctx`."""
    at = node.keys["set_vars"]
    changed = model.without_keys(node, "set_vars")
    for name, place, value in block.items():
        store, key = homes[name]
        rewriting.note(place, f"{name} of set_vars (a variable of this step)", f"{store}.{key}")
        held = changed.get(f"set_{store}")
        home = held if isinstance(held, Mapping) else model.made_mapping((), at)
        changed = model.with_value(changed, f"set_{store}", model.with_value(home, key, value, place), at)
    return changed
