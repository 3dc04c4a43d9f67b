"""`then` lists of v2-case in other words: `step`, `call`, `log` and `collect` beside tasks, `set` and `retry`."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import V2_CASE, Rewriting, Spelling, Where
from noetl.language.reading.spellings.trees import (
    made_list,
    made_mapping,
    made_text,
    with_items,
    with_value,
    without_keys,
)

_ACTIONS = ("set", "retry", "next", "step", "log", "call", "collect", "sink", "fail")
_RAISE = "raise RuntimeError(message)"
_FOLDS = {
    "append": (
        "(vars.{into} | default([], true)) + ({found} if {found} is sequence and {found} is not string else [{found}])"
    ),
    "push": "(vars.{into} | default([], true)) + [{found}]",
    "replace": "{found}",
}


def _name_actions(node: Mapping, rewriting: Rewriting) -> Mapping:
    for holder in ("then", "else"):
        held = node.get(holder)
        if isinstance(held, Mapping) and "fail" in held and "next" not in held and set(held.values) <= set(_ACTIONS):
            last = [key for key in held.values if key != "fail"] + ["fail"]  # what is set is set before
            held = made_list([_one(held, key) for key in last], held)
            node = with_value(node, holder, held)
        if isinstance(held, Sequence):
            node = with_value(node, holder, _listed(held, rewriting))
    return node


def _listed(items: Sequence, rewriting: Rewriting) -> Sequence:
    found: list[Node] = []
    logs = 0
    for item in items:
        for action in _split_actions(item, rewriting):
            changed = _action(action, rewriting, logs) if isinstance(action, Mapping) and len(action) == 1 else action
            logs += isinstance(action, Mapping) and "log" in action
            found.append(changed)
    return with_items(items, found)


def _split_actions(item: Node, rewriting: Rewriting) -> Iterator[Node]:
    """One entry for each action; a task with its name beside its tool stands under its name."""
    if not isinstance(item, Mapping) or len(item) < 2:
        yield item
        return
    name = item.get("name")
    if isinstance(name, Scalar) and isinstance(name.value, str) and ("kind" in item or "tool" in item):
        rewriting.note(item.keys["name"], "a task with name in a then list", f"- {name.value}: {{tool: …}}")
        inside = without_keys(item, "name")
        yield made_mapping([(name.value, inside if "tool" in item else made_mapping([("tool", inside)], item))], item)
    elif all(key in _ACTIONS for key in item.values):
        rewriting.note(item, "several actions in one entry", "one entry for each")
        yield from (_one(item, key) for key in item.values)
    else:
        yield item


def _one(item: Mapping, key: str) -> Mapping:
    return Mapping({key: item.keys[key]}, {key: item.values[key]}, item.span, item.path, True)


def _action(item: Mapping, rewriting: Rewriting, logs: int) -> Mapping:
    ((word, key, body),) = item.items()
    match word, body:
        case "step", Scalar() | Mapping() if not (isinstance(body, Mapping) and "tool" in body):
            target = body.get("step") if isinstance(body, Mapping) and len(body) == 1 else body
            rewriting.note(key, '"step" in a then list', '"next"')
            listed = target if isinstance(target, Scalar) else made_sequence(body)
            return made_mapping([("next", listed)], item)
        case "call", Mapping() if "kind" in body:
            rewriting.note(key, '"call" with kind', "call: {tool: {kind: …}}")
            return with_value(item, "call", made_mapping([("tool", body)], body))
        case "log", _ if not (isinstance(body, Mapping) and "tool" in body):
            rewriting.note(key, '"log" in a then list', "log: {tool: {kind: log, message: …}}")
            return _log_task(body, key, logs)
        case "fail", _ if (message := _message(body, key)) is not None:
            rewriting.note(key, '"fail" in then', "a task that fails: {kind: python, code: raise …}")
            return made_mapping([("fail", _failing_task(message, key))], item)
        case "collect", Mapping() if (written := _collected(body)) is not None:
            rewriting.note(key, '"collect" in a then list', '"set"')
            return made_mapping([("set", made_mapping([written], body))], item)
    return item


def made_sequence(body: Node) -> Sequence:
    return Sequence((body,), body.span, body.path, made=True)


def _message(body: Node, key: Scalar) -> Node | None:
    """What `fail` says: a text, `{message}` or `{reason}`, or nothing of its own."""
    if isinstance(body, Scalar):
        return body if isinstance(body.value, str) else made_text("the rule says fail", key)
    if isinstance(body, Mapping) and len(body) == 1:
        return next((value for name, value in body.values.items() if name in ("message", "reason", "error")), None)
    return None


def _failing_task(message: Node, key: Scalar) -> Mapping:
    args = made_mapping([("message", message)], key)
    entries: list[tuple[str, Node]] = [("kind", made_text("python", key)), ("args", args)]
    tool = made_mapping([*entries, ("code", made_text(_RAISE, key))], key)
    return made_mapping([("tool", tool)], key)


def _log_task(body: Node, key: Scalar, logs: int) -> Mapping:
    given: list[tuple[str, Node]] = [("message", body)]
    if isinstance(body, Mapping):
        given = [(name, value) for name, value in body.values.items() if name != "kind"]
    tool = made_mapping([("kind", made_text("log", key)), *given], body)
    return made_mapping([(f"log_{logs + 1}" if logs else "log", made_mapping([("tool", tool)], body))], body)


def _collected(body: Mapping) -> tuple[str, Node] | None:
    """The variable that `{path, into, strategy}` writes, and what it holds then."""
    path, into, strategy = (body.get(key) for key in ("path", "into", "strategy"))
    word = strategy.value if isinstance(strategy, Scalar) else "append"
    if not (isinstance(path, Scalar) and isinstance(into, Scalar) and isinstance(word, str) and word in _FOLDS):
        return None
    text = _FOLDS[word].format(into=into.value, found=f"response.{path.value}")
    return str(into.value), made_text(f"{{{{ {text} }}}}", path)


SPELLINGS = (
    Spelling(
        id="case-then-list",
        where=Where.RULE,
        older="`then: [{log: …}, {step: …}, {call: {kind: …}}, {collect: …}]`",
        canonical="tasks of the step, `set_ctx`, and arcs",
        dialects=(V2_CASE,),
        rewrite=_name_actions,
    ),
    Spelling(
        id="case-then-fail",
        where=Where.RULE,
        older="`then: {fail: …}`, `then: [{fail: …}]`",
        canonical="a rule with `do: fail`, or a task that raises the message",
        dialects=(V2_CASE,),
        rewrite=_name_actions,
    ),
    Spelling(
        id="case-then-collect",
        where=Where.RULE,
        older="`then: [{collect: {path, into, strategy}}]`",
        canonical="`set_ctx` with the folded value",
        dialects=(V2_CASE,),
        rewrite=_name_actions,
    ),
)
