"""Other spellings of the arcs of a step: `next` as a name or a list, `parallel` for `inclusive`, `cond` for `when`;
arcs with `to` for `step`, `with` for `args`, `else`, or the event that an arc is for as `on`."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where

CONDITIONS = ("cond", "condition", "if")
_INCLUSIVE_WORDS = ("parallel", "all", "fork")
_MODES = {model.V2_EVAL: "next_mode", model.V2_CASE: "case_mode"}


def _read_router(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`next` of a step: a name, a list of arcs, or one arc, as a router."""
    written = node.get("next")
    arcs = _arcs_of(written)
    if arcs is None or written is None:
        return node
    found = {Scalar: "next as a name", Sequence: "next as a list", Mapping: "next as one arc"}[type(written)]
    if rewriting.dialect.rules is model.V10:
        rewriting.note(node.keys["next"], found, "next: {arcs: [{step: …}]}")
        return model.with_value(node, "next", model.made_mapping([("arcs", arcs)], written))
    if arcs is written:
        return node
    rewriting.note(node.keys["next"], found, "next: [{step: …}]")
    return model.with_value(node, "next", arcs)


_TARGETS = frozenset({"step", "to", "goto", "target", "name"})


def _arcs_of(node: Node | None) -> Sequence | None:
    """The arcs of an older `next`; None when it is none, or when its meaning differs between dialects."""
    match node:
        case Scalar() if isinstance(node.value, str) and node.value.strip():
            return model.made_list([model.made_mapping([("step", node)], node)], node)
        case Mapping() if _TARGETS & node.values.keys() and "arcs" not in node:
            return model.made_list([node], node)
        # One name alone: the meaning of several names differs between dialects (C-09).
        case Sequence() if (
            len(node) == 1 and isinstance(node.items[0], Scalar) and isinstance(node.items[0].value, str)
        ):
            return model.made_list([model.made_mapping([("step", node.items[0])], node.items[0])], node)
        case Sequence() if all(isinstance(item, Mapping) for item in node):
            return node
    return None


def _read_single_target(node: Mapping, rewriting: Rewriting) -> Mapping:
    """v2-case takes a name or a list; one mapping is a list of one."""
    written = node.get("next")
    if not isinstance(written, Mapping) or not _TARGETS & written.values.keys() or "arcs" in written:
        return node
    rewriting.note(node.keys["next"], "next as one target", "next: [{step: …}]")
    return model.with_value(node, "next", model.made_list([written], written))


def _move_mode(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    if "mode" not in node or (isinstance(spec, Mapping) and "mode" in spec):
        return node
    rewriting.note(node.keys["mode"], "next.mode", "next.spec.mode")
    return model.moved_into(node, "spec", "mode", "mode")


def _name_inclusive(node: Mapping, rewriting: Rewriting) -> Mapping:
    return _inclusive_option(node, "mode", "next.spec.mode", rewriting)


def _name_inclusive_on_step(node: Mapping, rewriting: Rewriting) -> Mapping:
    key = _MODES[rewriting.dialect]
    return _inclusive_option(node, key, f"spec.{key}", rewriting)


def _inclusive_option(node: Mapping, key: str, shown: str, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    mode = spec.get(key) if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(mode, Scalar) or mode.value not in _INCLUSIVE_WORDS:
        return node
    rewriting.note(mode, f"{shown}: {mode.value}", "inclusive")
    return model.with_value(node, "spec", model.with_value(spec, key, model.made_text("inclusive", mode)))


_WORDS = {
    **dict.fromkeys(("to", "goto", "target", "name"), "step"),
    **dict.fromkeys(("with", "inputs", "payload", "data", "params", "parameters", "vars"), "args"),
}


def _name_keys(node: Mapping, rewriting: Rewriting) -> Mapping:
    held = node.get("else")
    if len(node) == 1 and (isinstance(held, Scalar) or (isinstance(held, Mapping) and "step" in held)):
        rewriting.note(node.keys["else"], "an arc with else", "an arc without when")
        return held if isinstance(held, Mapping) else model.made_mapping([("step", held)], held)
    flag = node.get("default")
    if isinstance(flag, Scalar) and flag.value is True and "when" not in node:
        rewriting.note(node.keys["default"], "default: true of an arc", "an arc without when")
        node = model.without_keys(node, "default")
    # `data` and similar keys are args only if they hold names with values.
    words = {key: new for key, new in _WORDS.items() if new == "step" or isinstance(node.get(key), Mapping)}
    return model.renames("an arc", words)(node, rewriting)


def _list_arcs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`arcs` as one arc, or as names."""
    arcs = node.get("arcs")
    if isinstance(arcs, Mapping) and "step" in arcs:
        rewriting.note(node.keys["arcs"], "arcs as one arc", "a list of arcs")
        return model.with_value(node, "arcs", model.made_list([arcs], arcs))
    if not isinstance(arcs, Sequence):
        return node
    return model.with_value(node, "arcs", model.with_items(arcs, [_named_arc(one, rewriting) for one in arcs]))


def _named_arc(node: Node, rewriting: Rewriting) -> Node:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return node
    rewriting.note(node, "an arc as a name", f"{{step: {node.value}}}")
    return model.made_mapping([("step", node)], node)


def _gather_arcs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`arcs` or `transitions` on a step, and `on_success`, `on_failure`, `on_error` with the step to go to."""
    for key in ("arcs", "transitions"):
        if "next" not in node and isinstance(node.get(key), Sequence | Mapping):
            rewriting.note(node.keys[key], f'"{key}" of a step', "next")
            node = model.with_key(node, key, "next")
    events = [(key, target) for key in _EVENTS if _is_step(target := node.get(key), rewriting)]
    after = node.get("next")
    listed = list(after) if isinstance(after, Sequence) else [] if after is None else None
    if not events or listed is None:
        return node
    arcs = []
    for key, target in events:
        rewriting.note(node.keys[key], f'"{key}" of a step', "an arc with when")
        # A looped step has no step.done (LOOP-09).
        event = "loop.done" if key == "on_success" and "loop" in node else _EVENTS[key]
        when = model.made_text(f"{{{{ event.name == '{event}' }}}}", node.keys[key])
        if isinstance(target, Scalar):
            arcs.append(model.made_mapping([("step", target), ("when", when)], target))
    at = node.keys[events[0][0]]
    rest = model.without_keys(node, *(key for key, _ in events))
    # Before the others: of guarded arcs the first that holds is taken.
    return model.with_value(rest, "next", model.made_list([*arcs, *listed], at), at)


def _is_step(node: Node | None, rewriting: Rewriting) -> bool:
    return isinstance(node, Scalar) and node.value in rewriting.step_names


def _name_event(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`on: step.failed`, or a list of events."""
    events = node.get("on")
    names = [events] if isinstance(events, Scalar) else list(events) if isinstance(events, Sequence) else []
    words = [one.value for one in names if isinstance(one, Scalar) and isinstance(one.value, str)]
    if not words or len(words) != len(names) or "when" in node:
        return node
    rewriting.note(node.keys["on"], '"on" of an arc', "when: {{ event.name == … }}")
    text = f"event.name == '{words[0]}'" if len(words) == 1 else f"event.name in {words}"
    return model.with_value(model.with_key(node, "on", "when"), "when", model.made_text(f"{{{{ {text} }}}}", names[0]))


_EVENTS = {"on_success": "step.done", "on_failure": "step.failed", "on_error": "step.failed"}
_PRIORITIES = {"lowest": -20, "low": -10, "normal": 0, "medium": 0, "high": 10, "highest": 20, "critical": 20}


def _number_priority(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`priority: high` of a router's policy, or of an arc."""
    spec = node.get("spec")
    policy = spec.get("policy") if isinstance(spec, Mapping) else None
    for holder in (spec, policy):
        word = holder.get("priority") if isinstance(holder, Mapping) else None
        if not isinstance(word, Scalar) or not isinstance(word.value, str) or word.value.lower() not in _PRIORITIES:
            continue
        number = _PRIORITIES[word.value.lower()]
        rewriting.note(word, f"priority: {word.value}", f"priority: {number}")
        if isinstance(holder, Mapping) and isinstance(spec, Mapping):
            changed = model.with_value(holder, "priority", model.made_text(number, word))
            spec = changed if holder is spec else model.with_value(spec, "policy", changed)
    return model.with_value(node, "spec", spec) if spec is not None else node


SPELLINGS = (
    Spelling(
        id="next-arcs-shape",
        where=Where.ROUTER,
        older="`arcs: [name]`, `arcs: {step: name}`",
        canonical="`arcs: [{step: name}]`",
        dialects=(model.V10,),
        rewrite=_list_arcs,
    ),
    Spelling(
        id="step-arcs",
        where=Where.STEP,
        older="`arcs` or `transitions` of a step; `on_success`, `on_failure`, `on_error` with a step's name",
        canonical="`next: {arcs: [{step, when}]}`",
        dialects=(model.V2_EVAL, model.V10),
        rewrite=_gather_arcs,
    ),
    Spelling(
        id="arc-words",
        where=Where.ARC,
        older="`to`, `goto`, `target`, `name` of an arc; `with`, `payload`, `data`, `params`; `{else: name}`; "
        "`default: true`",
        canonical="`step`, `args`; an arc without `when`",
        dialects=model.EVERYWHERE,
        rewrite=_name_keys,
    ),
    Spelling(
        id="arc-on",
        where=Where.ARC,
        older="`on: step.failed` of an arc",
        canonical="`when: \"{{ event.name == 'step.failed' }}\"`",
        dialects=(model.V10, model.V2_EVAL),
        rewrite=_name_event,
    ),
    *(
        Spelling(
            id=f"{name}-priority",
            where=where,
            older=f"`priority: high` of {what}",
            canonical="`priority: 10`",
            dialects=dialects,
            rewrite=_number_priority,
        )
        for name, where, what, dialects in (
            ("next", Where.ROUTER, "a router's policy", (model.V10,)),
            ("arc", Where.ARC, "an arc", (model.V10, model.V2_EVAL)),
        )
    ),
    Spelling(
        id="next-list",
        where=Where.STEP,
        older="`next: name`, `next: [{step, when}]`",
        canonical="`next: {arcs: [{step, when}]}`",
        dialects=(model.V10, model.V2_EVAL),
        rewrite=_read_router,
    ),
    Spelling(
        id="next-one-target",
        where=Where.STEP,
        older="`next: {step: name}`",
        canonical="`next: {arcs: [{step: name}]}`",
        dialects=(model.V2_CASE,),
        rewrite=_read_single_target,
    ),
    Spelling(
        id="next-mode-beside-arcs",
        where=Where.ROUTER,
        older="`next.mode`",
        canonical="`next.spec.mode`",
        dialects=(model.V10,),
        rewrite=_move_mode,
    ),
    Spelling(
        id="next-mode-parallel",
        where=Where.ROUTER,
        older="`next.spec.mode: parallel`",
        canonical="`next.spec.mode: inclusive`",
        dialects=(model.V10,),
        rewrite=_name_inclusive,
    ),
    Spelling(
        id="step-mode-parallel",
        where=Where.STEP,
        older="`spec.next_mode: parallel`, `spec.case_mode: parallel`",
        canonical="`next.spec.mode: inclusive`",
        dialects=(model.V2_EVAL, model.V2_CASE),
        rewrite=_name_inclusive_on_step,
    ),
    Spelling(
        id="arc-cond",
        where=Where.ARC,
        older="`cond`, `condition`, `if` of an arc",
        canonical="`when`",
        dialects=model.EVERYWHERE,
        rewrite=model.renames("an arc", dict.fromkeys(CONDITIONS, "when")),
    ),
)
