"""`then` lists of v2-case in other words: `step`, `call`, `log` and `collect` beside tasks, `set` and `retry`."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import V2_CASE, Rewriting, Spelling, Where
from noetl.language.reading.spellings.trees import made_mapping, made_text, with_items, with_value, without_keys

_ACTIONS = ("set", "retry", "next", "step", "log", "call", "collect", "sink")
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
        yield from (
            Mapping({key: item.keys[key]}, {key: item.values[key]}, item.span, item.path, True) for key in item.values
        )
    else:
        yield item


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
        case "collect", Mapping() if (written := _collected(body)) is not None:
            rewriting.note(key, '"collect" in a then list', '"set"')
            return made_mapping([("set", made_mapping([written], body))], item)
    return item


def made_sequence(body: Node) -> Sequence:
    return Sequence((body,), body.span, body.path, made=True)


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


_RULE = """
- step: start
  tool: {kind: noop}
  case:
    - when: "{{ event.name == 'call.done' }}"
      then: [%s]
- step: a
  tool: {kind: noop}
"""

SPELLINGS = (
    Spelling(
        id="case-then-list",
        where=Where.RULE,
        older="`then: [{log: …}, {step: …}, {call: {kind: …}}, {collect: …}]`",
        canonical="tasks of the step, `set_ctx`, and arcs",
        dialects=(V2_CASE,),
        before=_RULE % "{log: seen}, {call: {kind: noop}}, {set: {n: 1}}, {step: a}",
        after=_RULE
        % "{log: {tool: {kind: log, message: seen}}}, {call: {tool: {kind: noop}}}, {set: {n: 1}}, {next: a}",
        rewrite=_name_actions,
    ),
    Spelling(
        id="case-then-collect",
        where=Where.RULE,
        older="`then: [{collect: {path, into, strategy}}]`",
        canonical="`set_ctx` with the folded value",
        dialects=(V2_CASE,),
        before=_RULE % "{collect: {path: items, into: all, strategy: push}}, {next: a}",
        after=_RULE % '{set: {all: "{{ (vars.all | default([], true)) + [response.items] }}"}}, {next: a}',
        rewrite=_name_actions,
    ),
)
