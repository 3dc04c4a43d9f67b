"""Sugar in a v10 task list: `choose`, `while` and `until` (SUGAR-01, SUGAR-02, O-35).

Only shapes are read here; the compiler expands them into plain tasks.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.language.grammar.tasks import ROUNDS, SUGAR
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.numbers import count
from noetl.language.reading.playbook import Branch, Dialect, Sugar, TaskSyntax
from noetl.language.reading.rule_lists import read_condition, read_ladder
from noetl.language.reading.shared_checks import ReadContext, check_keys, opening, sequence, text

TaskListReader = Callable[[ReadContext, Node, str], tuple[TaskSyntax | Sugar, ...]]
CONSTRUCTS = tuple(SUGAR)


def read_sugar(reading: ReadContext, item: Mapping, read_tasks: TaskListReader) -> Sugar | None:
    """The construct that `item` holds; `read_tasks` reads the bodies."""
    written = [construct for construct in CONSTRUCTS if construct in item]
    construct = written[0]
    if reading.dialect is not Dialect.V10:
        hint = "migrate to v10, or write it with jump"
        reading.error("E_TASK_KEY", item.keys[construct], f"{reading.dialect} has no {construct}", hint)
        return None
    for other in (*written[1:], *(("kind",) if "kind" in item else ())):
        message = f'"{other}" and "{construct}" stand in one task'
        reading.error("E_TASK_KEY", item.keys[other], message, "make them two tasks")
    _check_keys(reading, item, construct)
    name = text(reading, item.get("name"), "E_TASK_KEY", "name")
    body = item.values[construct]
    if construct == "choose":
        branches, max_rounds = _read_choose(reading, body, read_tasks), None
    else:
        branches, max_rounds = _read_rounds(reading, body, construct, read_tasks)
    if not branches:
        return None
    return Sugar(
        node=item,
        construct=construct,
        name=str(name.value) if name else None,
        branches=branches,
        max_rounds=max_rounds,
        name_node=name,
    )


def _check_keys(reading: ReadContext, item: Mapping, construct: str) -> None:
    handled = (*CONSTRUCTS, "kind", "max_rounds")
    check_keys(reading, item, SUGAR[construct], "E_TASK_KEY", handled=handled)
    if "max_rounds" in item:
        hint = "choose runs once" if construct == "choose" else f"{construct}: {{when: …, max_rounds: …, then: […]}}"
        message = f"max_rounds stands beside {construct}"
        reading.error("E_TASK_KEY", item.keys["max_rounds"], message, hint)


def _read_choose(reading: ReadContext, node: Node, read_tasks: TaskListReader) -> tuple[Branch, ...]:
    shape = "choose: [{when: …, then: [tasks]}, {else: {then: [tasks]}}]"
    ladder = sequence(reading, node, "E_RULE_SHAPE", "choose", shape)
    if ladder is None or not len(ladder):
        if ladder is not None or isinstance(node, Scalar):
            reading.error("E_RULE_SHAPE", node, "choose has no branches", shape)
        return ()
    return tuple(
        Branch(node=rung.node, when=rung.when, body=_read_then(reading, rung.body, read_tasks))
        for rung in read_ladder(reading, ladder)
    )


def _read_rounds(
    reading: ReadContext, node: Node, construct: str, read_tasks: TaskListReader
) -> tuple[tuple[Branch, ...], Node | None]:
    """`{when, then: [tasks], max_rounds?}`."""
    shape = f"{construct}: {{when: …, then: [tasks]}}"
    if not isinstance(node, Mapping):
        reading.error("E_RULE_SHAPE", node, f"{construct} must be a mapping, and this is {describe(node)}", shape)
        return (), None
    check_keys(reading, node, ROUNDS, "E_RULE_SHAPE", what=construct)
    for key in ("when", "then"):
        if key not in node:
            reading.error("E_RULE_SHAPE", opening(node), f"{construct} needs both when and then", shape)
    max_rounds = count(reading, node.get("max_rounds"), "E_RULE_SHAPE", "max_rounds")
    when = read_condition(reading, node.values["when"]) if "when" in node else None
    body = _read_then(reading, node.values["then"], read_tasks) if "then" in node else ()
    return ((Branch(node=node, when=when, body=body),) if when else ()), max_rounds


def _read_then(reading: ReadContext, node: Node, read_tasks: TaskListReader) -> tuple[TaskSyntax | Sugar, ...]:
    if isinstance(node, Sequence):
        return read_tasks(reading, node, "then")
    reading.error(
        "E_RULE_SHAPE", node, f"then must be a list of tasks, and this is {describe(node)}", "then: [{kind: …}]"
    )
    return ()
