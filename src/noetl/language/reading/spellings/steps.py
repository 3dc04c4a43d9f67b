"""Steps and tasks in other words: `vars`, `description`, labels."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import (
    EVERYWHERE,
    V2_EVAL,
    V10,
    Rewriting,
    Spelling,
    Where,
    made_text,
    renames,
    with_key,
    with_names,
    with_value,
)
from noetl.language.reading.spellings.routing import CONDITIONS
from noetl.language.reading.spellings.rules import read_pairs

_OLDER_STORE = "vars"
_KIND_WORDS = {
    "event_log": "log",
    **dict.fromkeys(("postgresql", "pg"), "postgres"),
    "py": "python",
    **dict.fromkeys(("rest", "https"), "http"),
    **dict.fromkeys(("csv", "excel", "xlsx", "parquet", "json", "xml"), "convert"),
    **dict.fromkeys(("zip", "tar"), "archive"),
}
_EVENT_NAMES = {"response": "event.result", "result": "event.result", "this.data": "event.result", "this": "event"}


def _name_vars(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`vars` writes when the call has answered, as `set_ctx` on the step does; its templates read the result."""
    if "vars" not in node or "set_ctx" in node:
        return node
    rewriting.note(node.keys["vars"], '"vars" of a step', '"set_ctx"')
    node = with_key(node, "vars", "set_ctx")
    return with_value(node, "set_ctx", with_names(node.values["set_ctx"], _EVENT_NAMES))


def _read_vars_from_ctx(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`vars` in a template is the older word for `ctx`, unless the document calls something of its own so."""
    workflow = node.get("workflow")
    if not isinstance(workflow, Sequence) or _OLDER_STORE in _own_names(node, workflow):
        return node
    changed = with_names(workflow, {_OLDER_STORE: "ctx"})
    if changed is workflow:
        return node
    rewriting.note(node.keys["workflow"], "vars.NAME in templates", "ctx.NAME")
    return with_value(node, "workflow", changed)


def _own_names(root: Mapping, workflow: Sequence) -> set[str]:
    """The names that a document gives: keys of its workload, its steps, iterators and arguments; and `vars`, where
    tasks write variables of their step."""
    workload = root.get("workload")
    found = set(workload.values) if isinstance(workload, Mapping) else set()
    waiting: list[Node] = [workflow]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Sequence):
            waiting.extend(node)
        elif isinstance(node, Mapping):
            waiting.extend(node.values.values())
            given = (node.get(key) for key in ("step", "name", "iterator", "element"))
            found |= {str(one.value) for one in given if isinstance(one, Scalar)}
            found |= {_OLDER_STORE} if {"set_vars", "set_shared"} & node.values.keys() else set()
            args = node.get("args")
            found |= set(args.values) if isinstance(args, Mapping) else set()
    return found


def _name_task(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`{label: {kind: …}}` as a task with a name."""
    if len(node) != 1:
        return node
    ((label, key, inside),) = node.items()
    if not isinstance(inside, Mapping) or "kind" not in inside or "name" in inside:
        return node
    rewriting.note(key, f'the label "{label}" of a task', f"name: {label}")
    keys = {"name": made_text("name", key), **inside.keys}
    values: dict[str, Node] = {"name": made_text(label, key), **inside.values}
    return Mapping(keys, values, node.span, node.path, made=True)


def _name_kind(node: Mapping, rewriting: Rewriting) -> Mapping:
    kind = node.get("kind")
    if isinstance(kind, Scalar) and isinstance(kind.value, str) and kind.value in _KIND_WORDS:
        word = _KIND_WORDS[kind.value]
        rewriting.note(kind, f"kind: {kind.value}", f"kind: {word}")
        return with_value(node, "kind", made_text(word, kind))
    return node


_ABOUT = renames("a step or task", {"description": "desc"})

SPELLINGS = (
    Spelling(
        id="vars-reads",
        where=Where.DOCUMENT,
        older="`{{ vars.name }}`",
        canonical="`{{ ctx.name }}`",
        dialects=(V10,),
        refused_by_v10=True,
        rewrite=_read_vars_from_ctx,
    ),
    Spelling(
        id="step-vars",
        where=Where.STEP,
        older="`vars: {name: …}` on a step",
        canonical="`set_ctx: {name: …}` on the step",
        dialects=(V10, V2_EVAL),
        refused_by_v10=True,
        rewrite=_name_vars,
    ),
    Spelling(
        id="step-set-pairs",
        where=Where.STEP,
        older="`set_ctx: [{name: n, value: v}]` on a step",
        canonical="`set_ctx: {n: v}`",
        dialects=EVERYWHERE,
        rewrite=read_pairs,
    ),
    Spelling(
        id="step-if",
        where=Where.STEP,
        older="`if`, `cond`, `condition` of a step",
        canonical="`spec.policy.admit.rules`",
        dialects=(V2_EVAL,),
        rewrite=renames("a step", dict.fromkeys(CONDITIONS, "when")),
    ),
    Spelling(
        id="step-description",
        where=Where.STEP,
        older="`description` of a step",
        canonical="`desc`",
        dialects=EVERYWHERE,
        rewrite=_ABOUT,
    ),
    Spelling(
        id="task-event-log",
        where=Where.TASK,
        older="`kind: event_log`, `postgresql`, `pg`, `py`, `rest`, `csv` (`excel`, `parquet`, …), `zip`",
        canonical="`kind: log`, `postgres`, `python`, `http`, `convert`, `archive`",
        dialects=EVERYWHERE,
        rewrite=_name_kind,
    ),
    Spelling(
        id="task-label",
        where=Where.TASK,
        older="`- label: {kind: …}`",
        canonical="`- {name: label, kind: …}`",
        dialects=(V10,),
        refused_by_v10=True,
        rewrite=_name_task,
    ),
)
