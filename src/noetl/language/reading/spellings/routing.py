"""Ways out of a step in other words: `next` as a name or a list, `parallel` for `inclusive`, `cond` for `when`."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import (
    EVERYWHERE,
    V2_CASE,
    V2_EVAL,
    V10,
    Rewriting,
    Spelling,
    Where,
    renames,
)
from noetl.language.reading.spellings.trees import made_list, made_mapping, made_text, moved_into, with_value

CONDITIONS = ("cond", "condition", "if")
_INCLUSIVE_WORDS = ("parallel", "all", "fork")
_MODES = {V2_EVAL: "next_mode", V2_CASE: "case_mode"}


def _read_router(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`next` of a step: a name, a list of arcs, or one arc, as a router."""
    written = node.get("next")
    arcs = _arcs_of(written)
    if arcs is None or written is None:
        return node
    found = {Scalar: "next as a name", Sequence: "next as a list", Mapping: "next as one arc"}[type(written)]
    if rewriting.dialect.rules is V10:
        rewriting.note(node.keys["next"], found, "next: {arcs: [{step: …}]}")
        return with_value(node, "next", made_mapping([("arcs", arcs)], written))
    if arcs is written:
        return node
    rewriting.note(node.keys["next"], found, "next: [{step: …}]")
    return with_value(node, "next", arcs)


def _arcs_of(node: Node | None) -> Sequence | None:
    """The arcs of an older `next`; None when it is none, or when its meaning differs between dialects."""
    match node:
        case Scalar() if isinstance(node.value, str) and node.value.strip():
            return made_list([made_mapping([("step", node)], node)], node)
        case Mapping() if "step" in node and "arcs" not in node:
            return made_list([node], node)
        case Sequence() if (
            len(node) == 1 and isinstance(node.items[0], Scalar) and isinstance(node.items[0].value, str)
        ):
            return made_list([made_mapping([("step", node.items[0])], node.items[0])], node)
        case Sequence() if all(isinstance(item, Mapping) for item in node):
            return node
    return None


def _read_single_target(node: Mapping, rewriting: Rewriting) -> Mapping:
    """v2-case takes a name or a list; one mapping is a list of one."""
    written = node.get("next")
    if not isinstance(written, Mapping) or "step" not in written or "arcs" in written:
        return node
    rewriting.note(node.keys["next"], "next as one target", "next: [{step: …}]")
    return with_value(node, "next", made_list([written], written))


def _move_mode(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    if "mode" not in node or (isinstance(spec, Mapping) and "mode" in spec):
        return node
    rewriting.note(node.keys["mode"], "next.mode", "next.spec.mode")
    return moved_into(node, "spec", "mode", "mode")


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
    return with_value(node, "spec", with_value(spec, key, made_text("inclusive", mode)))


SPELLINGS = (
    Spelling(
        id="next-list",
        where=Where.STEP,
        older="`next: name`, `next: [{step, when}]`",
        canonical="`next: {arcs: [{step, when}]}`",
        dialects=(V10, V2_EVAL),
        rewrite=_read_router,
    ),
    Spelling(
        id="next-one-target",
        where=Where.STEP,
        older="`next: {step: name}`",
        canonical="`next: {arcs: [{step: name}]}`",
        dialects=(V2_CASE,),
        rewrite=_read_single_target,
    ),
    Spelling(
        id="next-mode-beside-arcs",
        where=Where.ROUTER,
        older="`next.mode`",
        canonical="`next.spec.mode`",
        dialects=(V10,),
        rewrite=_move_mode,
    ),
    Spelling(
        id="next-mode-parallel",
        where=Where.ROUTER,
        older="`next.spec.mode: parallel`",
        canonical="`next.spec.mode: inclusive`",
        dialects=(V10,),
        rewrite=_name_inclusive,
    ),
    Spelling(
        id="step-mode-parallel",
        where=Where.STEP,
        older="`spec.next_mode: parallel`, `spec.case_mode: parallel`",
        canonical="`next.spec.mode: inclusive`",
        dialects=(V2_EVAL, V2_CASE),
        rewrite=_name_inclusive_on_step,
    ),
    Spelling(
        id="arc-cond",
        where=Where.ARC,
        older="`cond`, `condition`, `if` of an arc",
        canonical="`when`",
        dialects=EVERYWHERE,
        rewrite=renames("an arc", dict.fromkeys(CONDITIONS, "when")),
    ),
)
