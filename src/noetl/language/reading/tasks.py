"""Tasks and the shapes of `tool` (TASK-01…06, V2E-01): a list of tasks, or one mapping.

A task's own keys but name, kind, desc, spec (and v2-eval's eval) are its inputs; which inputs a kind has is the
compiler's business, and so are the names of unnamed tasks.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.language.grammar.tasks import ROUNDS, SUGAR, TASK
from noetl.language.reading import shared_checks
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.old_keys import REFUSED_IN_TASKS, hint_for_foreign_word, refuse
from noetl.language.reading.playbook import Branch, Dialect, PolicySyntax, Sugar, TaskSyntax
from noetl.language.reading.policies import read_eval, read_policy
from noetl.language.reading.routers import read_condition, read_ordered_rules
from noetl.language.reading.shared_checks import ReadContext

_TOOL = "tool: {kind: …}, or a list of {name: …, kind: …}"


def read_tool(reading: ReadContext, node: Node | None, what: str = "tool") -> tuple[TaskSyntax | Sugar, ...]:
    """The tasks of `tool` in any of its shapes; `what` names the key in messages."""
    match node:
        case None:
            return ()
        case Sequence():
            read = (_read_item(reading, item) for item in node)
            return tuple(task for task in read if task is not None)
        case Mapping():
            return _read_single(reading, node)
        case Scalar():
            if node.value is not None:
                message = f"{what} must be a task or a list of tasks, and this is {describe(node)}"
                is_word = isinstance(node.value, str) and node.value.isidentifier()
                hint = f"tool: {{kind: {node.value}, …}}, with its inputs inside" if is_word else _TOOL
                reading.error("E_TOOL_KIND", node, message, hint)
            return ()


def is_single(node: Node | None) -> bool:
    """Whether `tool` is one mapping, whose task takes its name from the step (TASK-03)."""
    return isinstance(node, Mapping) and "kind" in node


def read_task(reading: ReadContext, node: Node, label: Scalar | None = None) -> TaskSyntax | None:
    """One task as a mapping with `kind`; `label` is its name if that is outside of it."""
    if not isinstance(node, Mapping):
        message = f"a task must be a mapping with kind, and this is {describe(node)}"
        reading.error("E_TOOL_KIND", node, message, "{kind: …}")
        return None
    refusals = REFUSED_IN_TASKS[reading.dialect]
    refuse(reading, node, refusals)
    own = (*TASK.names(reading.dialect.rules), *refusals)
    name = label or _read_name(reading, node)
    kind = _read_kind(reading, node)
    spec = shared_checks.mapping(reading, node.get("spec"), "E_TASK_KEY", "a task's spec", "spec: {timeout: 30}")
    shared_checks.timeout(reading, spec.get("timeout") if spec else None, "timeout")
    inputs = {key: value for key, value in node.values.items() if key not in own}
    if kind and kind.value == "workbook" and label is not None and label is not node.get("name") and "name" in node:
        # With a label, `name` is the workbook task that is referred to (design.md §5).
        inputs["name"] = node.values["name"]
    return TaskSyntax(
        node=node,
        name=str(name.value) if name else None,
        # A placeholder kind keeps the task, so that jumps to it and reads of its result are still checked.
        kind=str(kind.value) if kind else "noop",
        # Without a kind the inputs are unknown, and each of them would get a diagnostic.
        inputs=inputs if kind else {},
        spec=spec,
        policy=_read_policy(reading, node, spec),
        name_node=name,
        kind_node=kind,
    )


def _read_policy(reading: ReadContext, node: Mapping, spec: Mapping | None) -> PolicySyntax | None:
    if reading.dialect is Dialect.V10:
        return read_policy(reading, spec.get("policy") if spec else None, _read_hooks)
    if reading.dialect is Dialect.V2_EVAL:
        if spec and "policy" in spec:
            hint = "write eval on the task, or migrate to v10"
            reading.error("E_SPEC_OPTION", spec.keys["policy"], "v2-eval has no task policy", hint)
        return read_eval(reading, node.get("eval"))
    return None


def _read_name(reading: ReadContext, node: Mapping) -> Scalar | None:
    return shared_checks.text(reading, node.get("name"), "E_TASK_KEY", "name", "name: a word of its own in this step")


def _read_kind(reading: ReadContext, node: Mapping) -> Scalar | None:
    if "kind" in node:
        return shared_checks.text(reading, node.values["kind"], "E_TOOL_KIND", "kind", "kind: http")
    misspelt = next((key for key in node.values if shared_checks.is_typo(key, ("kind",))), None)
    if misspelt:
        message = f'"{misspelt}" is not a key of a task'
        reading.error("E_TASK_KEY", node.keys[misspelt], message, 'did you mean "kind"?')
    elif foreign := _word_of_others(node):
        if foreign not in REFUSED_IN_TASKS[reading.dialect.rules]:  # already reported
            message = f'"{foreign}" is not a key of a task'
            reading.error("E_TASK_KEY", node.keys[foreign], message, hint_for_foreign_word(foreign) or "")
    else:
        reading.error(
            "E_TOOL_KIND", shared_checks.opening(node), "this task has no kind", "kind: http, python, postgres, noop, …"
        )
    return None


def _word_of_others(node: Mapping) -> str | None:
    """The word for a whole task, as in `- sleep: 5`."""
    # Beside a word that is not in the table only the kind was forgotten: `form` is an input of http, beside its url.
    words = [key for key in node.values if key not in ("name", "desc", "spec")]
    return words[0] if words and all(hint_for_foreign_word(key) for key in words) else None


def _read_hooks(reading: ReadContext, node: Node, what: str) -> tuple[TaskSyntax, ...]:
    """Tasks without control flow: no policies of their own, no sugar (POL-13)."""
    plain = []
    for task in read_tool(reading, node, what):
        if isinstance(task, Sugar):
            message = f'"{task.construct}" in {what}: hooks have no control flow'
            reading.error("E_POLICY_SCOPE", shared_checks.opening(task.node), message, "list plain tasks")
        else:
            if task.policy is not None:
                reading.error("E_POLICY_SCOPE", task.policy, f"a task in {what} has no policy", "leave the policy out")
            plain.append(task)
    return tuple(plain)


def _read_single(reading: ReadContext, node: Mapping) -> tuple[TaskSyntax | Sugar, ...]:
    """One task; or labels without their list, which no dialect writes."""
    if "kind" in node or not _looks_labelled(node):
        task = _read_item(reading, node) if reading.dialect is Dialect.V10 else read_task(reading, node)
        return (task,) if task is not None else ()
    tasks = []
    for label, label_node, value in node.items():
        _refuse_label(reading, label_node, f'this task is labelled "{label}", and tool is not a list')
        tasks.append(read_task(reading, value, label_node))
    return tuple(task for task in tasks if task is not None)


def _read_item(reading: ReadContext, item: Node) -> TaskSyntax | Sugar | None:
    """One item of a task list, in the dialect's own form."""
    if not isinstance(item, Mapping):
        return read_task(reading, item)
    if any(construct in item for construct in CONSTRUCTS):
        return read_sugar(reading, item, read_tool)
    if reading.dialect is Dialect.V10:
        return _read_canonical(reading, item)
    return _read_labelled(reading, item)


def _read_canonical(reading: ReadContext, item: Mapping) -> TaskSyntax | None:
    if "kind" not in item and len(item) == 1 and _looks_labelled(item):
        label, label_node, value = next(item.items())
        _refuse_label(reading, label_node, f'this task is labelled "{label}", and v10 names tasks with name', value)
        return read_task(reading, value, label_node)
    return read_task(reading, item)


def _read_labelled(reading: ReadContext, item: Mapping) -> TaskSyntax | None:
    if "kind" not in item and len(item) == 1:
        _, label_node, value = next(item.items())
        return read_task(reading, value, label_node)
    empty = next((key for key, _, value in item.items() if isinstance(value, Scalar) and value.value is None), None)
    message = "a task of v2-eval stands under its label"
    hint = f"indent its keys under {empty}:" if empty else "- label: {kind: …}"
    reading.error("E_TASK_LABEL", shared_checks.opening(item), message, hint)
    return read_task(reading, item)


def _looks_labelled(node: Mapping) -> bool:
    """Whether every key could be a label: its value is a task."""
    return len(node) > 0 and all(isinstance(value, Mapping) and "kind" in value for value in node.values.values())


def _refuse_label(reading: ReadContext, label: Scalar, message: str, task: Node | None = None) -> None:
    kind = task.get("kind") if isinstance(task, Mapping) else None
    found = kind.value if isinstance(kind, Scalar) else "…"
    hint = f"- {label.value}: {{kind: {found}}}"
    if reading.dialect is Dialect.V10:
        hint = f"- name: {label.value}, kind: {found}"
    reading.error("E_TASK_LABEL", label, message, hint)


# Sugar in a v10 task list: `choose`, `while` and `until` (SUGAR-01, SUGAR-02, O-35).

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
    name = shared_checks.text(reading, item.get("name"), "E_TASK_KEY", "name")
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
    shared_checks.check_keys(reading, item, SUGAR[construct], "E_TASK_KEY", handled=handled)
    if "max_rounds" in item:
        hint = "choose runs once" if construct == "choose" else f"{construct}: {{when: …, max_rounds: …, then: […]}}"
        message = f"max_rounds stands beside {construct}"
        reading.error("E_TASK_KEY", item.keys["max_rounds"], message, hint)


def _read_choose(reading: ReadContext, node: Node, read_tasks: TaskListReader) -> tuple[Branch, ...]:
    shape = "choose: [{when: …, then: [tasks]}, {else: {then: [tasks]}}]"
    listed = shared_checks.sequence(reading, node, "E_RULE_SHAPE", "choose", shape)
    if listed is None or not len(listed):
        if listed is not None or isinstance(node, Scalar):
            reading.error("E_RULE_SHAPE", node, "choose has no branches", shape)
        return ()
    return tuple(
        Branch(node=rule.node, when=rule.when, body=_read_then(reading, rule.body, read_tasks))
        for rule in read_ordered_rules(reading, listed)
    )


def _read_rounds(
    reading: ReadContext, node: Node, construct: str, read_tasks: TaskListReader
) -> tuple[tuple[Branch, ...], Node | None]:
    """`{when, then: [tasks], max_rounds?}`."""
    shape = f"{construct}: {{when: …, then: [tasks]}}"
    if not isinstance(node, Mapping):
        reading.error("E_RULE_SHAPE", node, f"{construct} must be a mapping, and this is {describe(node)}", shape)
        return (), None
    shared_checks.check_keys(reading, node, ROUNDS, "E_RULE_SHAPE", what=construct)
    for key in ("when", "then"):
        if key not in node:
            reading.error("E_RULE_SHAPE", shared_checks.opening(node), f"{construct} needs both when and then", shape)
    max_rounds = shared_checks.count(reading, node.get("max_rounds"), "E_RULE_SHAPE", "max_rounds")
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
