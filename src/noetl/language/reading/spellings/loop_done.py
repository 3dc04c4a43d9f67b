"""Tasks of v2-case after a loop: a rule on `loop.done` is judged once by the server, which runs no tasks, so that they
are those of a step after the loop (V2C-23)."""

from __future__ import annotations

import re

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import V2_CASE, Rewriting, Spelling, Where
from noetl.language.reading.spellings.trees import (
    made_list,
    made_mapping,
    made_text,
    with_items,
    with_names,
    with_value,
)

_ASKED = re.compile(r"""["']loop\.done["']""")
_ENTERED = "{{ event.name == 'step.enter' }}"


def _move_tasks(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Every rule on `loop.done` with tasks leads to a step that runs them."""
    workflow = node.get("workflow")
    if not isinstance(workflow, Sequence):
        return node
    taken = {str(name.value) for step in workflow if isinstance(step, Mapping) for name in _names(step)}
    steps: list[Node] = []
    for step in workflow:
        changed, added = _without_tasks(step, taken, rewriting) if isinstance(step, Mapping) else (step, [])
        steps += [changed, *added]
    return with_value(node, "workflow", with_items(workflow, steps))


def _names(step: Mapping) -> list[Scalar]:
    name = step.get("step")
    return [name] if isinstance(name, Scalar) else []


def _without_tasks(step: Mapping, taken: set[str], rewriting: Rewriting) -> tuple[Mapping, list[Mapping]]:
    """The step, and those that run the tasks of its rules on `loop.done`."""
    case, names = step.get("case"), _names(step)
    if not isinstance(case, Sequence) or "loop" not in step or not names:
        return step, []
    rules: list[Node] = []
    added: list[Mapping] = []
    for rule in case:
        if not isinstance(rule, Mapping) or not _works_after_loop(rule):
            rules.append(rule)
            continue
        name = _free_name(f"{names[0].value}_after_loop", taken)
        rewriting.note(rule.keys["then"], "tasks after a loop", f'a step "{name}"')
        added.append(_following(step, rule, name))
        target = made_mapping([("next", made_text(name, rule.keys["then"]))], rule.keys["then"])
        rules.append(with_value(rule, "then", target))
    return with_value(step, "case", with_items(case, rules)), added


def _works_after_loop(rule: Mapping) -> bool:
    when, then = rule.get("when"), rule.get("then")
    if not isinstance(when, Scalar) or not _ASKED.search(str(when.value)):
        return False
    if isinstance(then, Mapping):
        return "sink" in then
    items = list(then) if isinstance(then, Sequence) else []
    return any(isinstance(held, Mapping) and "tool" in held for item in items for held in _held(item))


def _held(item: Node) -> list[Node]:
    return list(item.values.values()) if isinstance(item, Mapping) else []


def _following(step: Mapping, rule: Mapping, name: str) -> Mapping:
    """The step that does what the rule did, and then goes where the looped one would."""
    before = str(_names(step)[0].value)
    names = {"result": f"{before}.data", "response": f"{before}.result", "this": before}
    names |= {"loop.results": f"{before}.data", "event.result": f"{before}.data"}
    at, then = rule.keys["then"], with_names(rule.values["then"], names)
    entered = made_mapping([("when", made_text(_ENTERED, at)), ("then", then)], rule)
    entries: list[tuple[str, Node]] = [("step", made_text(name, at)), ("case", made_list([entered], rule))]
    if "next" in step and not _leads(then):
        entries.append(("next", step.values["next"]))
    return made_mapping(entries, rule)


def _leads(then: Node) -> bool:
    items = [then] if isinstance(then, Mapping) else list(then) if isinstance(then, Sequence) else []
    return any(isinstance(item, Mapping) and "next" in item for item in items)


def _free_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


SPELLINGS = (
    Spelling(
        id="case-loop-done",
        where=Where.DOCUMENT,
        older="tasks in a rule on `loop.done`",
        canonical="a step after the loop",
        dialects=(V2_CASE,),
        rewrite=_move_tasks,
    ),
)
