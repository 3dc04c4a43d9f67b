"""Case rules: what a v2-case step does on its events (V2C-06…14, C-35).

A rule's `then` is a mapping of four actions in a fixed order, or a list of labelled tasks; `else` holds either.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Action, CaseExit, CaseRuleSyntax, CaseSyntax, RetrySyntax, SetVars
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    choice,
    guard,
    known_keys,
    mapping,
    opening,
    sequence,
)
from noetl.language.v2_case.retry import read_retry
from noetl.language.v2_case.targets import is_next_tool, read_next_tool, read_targets, read_transition
from noetl.language.v2_case.tools import read_label, read_labelled_task, read_options, read_sink

RULE_KEYS = ("when", "then", "spec", "else")
_FORM = "write - when: …, then: […]"
_ACTIONS = ("sink", "set", "retry", "next")


def read_case(reading: ReadContext, node: Node | None) -> CaseSyntax | None:
    items = sequence(reading, node, "E_RULE_SHAPE", "case", f"{_FORM} in a list")
    if items is None:
        return None
    rules = []
    for position, item in enumerate(items):
        rule = _rule(reading, item, last=position == len(items) - 1)
        if rule is not None:
            rules.append(rule)
    return CaseSyntax(node=items, rules=tuple(rules))


def _rule(reading: ReadContext, node: Node, *, last: bool) -> CaseRuleSyntax | None:
    block = mapping(reading, node, "E_RULE_SHAPE", "a case rule", _FORM)
    if block is None:
        return None
    if "else" in block:
        return _else(reading, block, last=last)
    known_keys(reading, block, ("when", "then", "spec"), "E_RULE_SHAPE", "a case rule")
    for key in ("when", "then"):
        if key not in block or (key == "then" and _is_null(block.values[key])):
            reading.error("E_RULE_SHAPE", opening(block), f"this case rule has no {key}", _FORM)
    strict, cache = _condition_options(reading, block)
    when = guard(reading, block.get("when"))
    actions, retry = _then(reading, block.get("then"))
    if when is None:
        return None
    return CaseRuleSyntax(node=block, when=when, actions=actions, strict=strict, cache=cache, retry=retry)


def _else(reading: ReadContext, block: Mapping, *, last: bool) -> CaseRuleSyntax:
    if "when" in block:
        reading.error("E_RULE_SHAPE", block.keys["when"], "a rule has when or else, not both", _FORM)
    known_keys(reading, block, ("else", "when"), "E_RULE_SHAPE", "an else rule", closed=True)
    if not last:
        reading.error("E_ELSE_ORDER", block.keys["else"], "else must be the last rule", "move it to the end of case")
    held = block.get("else")
    if isinstance(held, Mapping) and list(held.values) == ["then"]:  # as v10 writes it (C-35)
        message = "else of a v2-case rule holds its actions itself, without then"
        reading.error("E_RULE_SHAPE", held.keys["then"], message, "leave then out: else: {next: [{step: …}]}")
        held = held.get("then")
    actions, retry = _then(reading, held)
    return CaseRuleSyntax(node=block, when=None, actions=actions, retry=retry)


def _condition_options(reading: ReadContext, block: Mapping) -> tuple[bool, bool]:
    """A condition's spec: whether undefined names are errors, and whether its value is kept (TPL-04)."""
    spec = read_options(reading, block, "when")
    if spec is None:
        return False, False
    strict = choice(reading, spec.get("eval"), ("strict", "lenient"), "E_SPEC_OPTION", "eval") == "strict"
    return strict, boolean(reading, spec.get("cache"), "E_SPEC_OPTION", "cache")


def _then(reading: ReadContext, node: Node | None) -> tuple[tuple[Action, ...], tuple[RetrySyntax, ...]]:
    if isinstance(node, Mapping):
        retry = read_retry(reading, node.get("retry"))
        return tuple(_mapped_actions(reading, node)), retry
    form = "write a list of tasks, or a mapping of sink, set, retry and next"
    tasks = sequence(reading, node, "E_RULE_SHAPE", "then", form)
    if tasks is None:
        return (), ()
    listed = tuple(_listed_actions(reading, tasks))
    return (
        tuple(action for action in listed if not isinstance(action, RetrySyntax)),
        tuple(action for action in listed if isinstance(action, RetrySyntax)),
    )


def _mapped_actions(reading: ReadContext, node: Mapping) -> Iterator[Action]:
    """`{sink, set, retry, next}`, done in that order however it is written (V2C-09)."""
    tasks = [
        key for key, _, value in node.items() if key not in _ACTIONS and isinstance(value, Mapping) and "tool" in value
    ]
    for key in tasks:
        hint = f"write a list: then: [{key}: {{tool: …}}, next: {{next: [{{step: …}}]}}]"
        reading.error("E_RULE_SHAPE", node.keys[key], f'"{key}" is a task, and a mapping under then holds none', hint)
    known_keys(reading, node, (*_ACTIONS, *tasks), "E_RULE_SHAPE", "then", closed=True)
    if "sink" in node:
        sink = read_sink(reading, node.values["sink"])
        if sink is not None:
            yield sink
    values = mapping(reading, node.get("set"), "E_RULE_SHAPE", "set", "write set: {name: value}")
    if values is not None:
        yield SetVars(node=values, values=values)
    if "next" in node:
        targets = read_targets(reading, node.values["next"])
        if targets:
            yield CaseExit(node=node.values["next"], targets=targets)


def _listed_actions(reading: ReadContext, tasks: Sequence) -> Iterator[Action | RetrySyntax]:
    """Labelled tasks, `set` and `retry`; `next`, or the kind next under another name, leads away and ends the list
    (V2C-10, V2C-12)."""
    ended: Scalar | None = None
    for item in tasks:
        label = read_label(reading, item)
        if label is None:
            continue
        name, body = label
        if ended is not None:
            hint = "move it before the transition"
            reading.error("E_RULE_SHAPE", name, f'"{name.value}" is never run: the task before it leads away', hint)
        if name.value == "retry" and not _is_task(body):
            yield from read_retry(reading, body)
            continue
        action = _listed_action(reading, name, body)
        if isinstance(action, CaseExit) and action.guard is None:
            ended = name
        if action is not None:
            yield action


def _listed_action(reading: ReadContext, name: Scalar, body: Node) -> Action | None:
    if name.value == "next":
        return read_transition(reading, name, body)
    if isinstance(body, Mapping) and is_next_tool(body.get("tool")):
        return read_next_tool(reading, body.values["tool"], body)
    if name.value == "set" and not _is_task(body):
        values = mapping(reading, body, "E_RULE_SHAPE", "set", "write set: {name: value}")
        return SetVars(node=values, values=values) if values is not None else None
    return read_labelled_task(reading, name, body)


def _is_task(body: Node) -> bool:
    return isinstance(body, Mapping) and "tool" in body


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None
