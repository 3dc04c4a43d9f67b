"""Dependencies: a workflow in which every step names the one before it, and none says what comes next.

A step that waits for several others is left as it is: what a join does when one of them ends early is for its author
to say.
"""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import EVERYWHERE, V2_CASE, V10, Rewriting, Spelling, Where

_WORDS = ("depends_on", "needs", "after")
_LEADING = ("next", "case", "arcs", "transitions", "on_success", "on_failure", "on_error", *_WORDS)


def _turn_round(node: Mapping, rewriting: Rewriting) -> Mapping:
    workflow = node.get("workflow")
    steps = [step for step in workflow if isinstance(step, Mapping)] if isinstance(workflow, Sequence) else []
    before = {str(step.values["step"].value): _predecessor(step) for step in steps if _is_named(step)}  # type: ignore[union-attr]
    if not isinstance(workflow, Sequence) or len(before) != len(workflow) or not _is_tree(before):
        return node
    if any(key in step for step in steps for key in _LEADING if key not in _WORDS):
        return node
    after: dict[str, list[Scalar]] = {}
    for step in steps:
        name, word = step.values["step"], _word(step)
        if word is not None and isinstance(name, Scalar):
            rewriting.note(step.keys[word], f'"{word}" of a step', "next of the step before it")
            after.setdefault(before[str(name.value)] or "", []).append(name)
    turned = [_leading(step, after, rewriting) for step in steps]
    return model.with_value(node, "workflow", model.with_items(workflow, turned))


def _is_named(step: Mapping) -> bool:
    name = step.get("step")
    return isinstance(name, Scalar) and isinstance(name.value, str)


def _word(step: Mapping) -> str | None:
    return next((key for key in _WORDS if key in step), None)


def _predecessor(step: Mapping) -> str | None:
    """The one step before this one; "" where that is not one name, None where nothing is said."""
    word = _word(step)
    given = step.get(word) if word is not None else None
    if isinstance(given, Sequence) and len(given) == 1:
        given = given.items[0]
    if word is None:
        return None
    return given.value if isinstance(given, Scalar) and isinstance(given.value, str) else ""


def _is_tree(before: dict[str, str | None]) -> bool:
    """Whether all steps hang from one first step, and at least one says so."""
    if len(before) < 2 or list(before.values()).count(None) != 1:
        return False
    for name in before:
        at: str | None = name
        for _ in before:  # more rounds than steps is a circle
            at = before.get(at, "") if at is not None else None
        if at is not None:
            return False
    return True


def _leading(step: Mapping, after: dict[str, list[Scalar]], rewriting: Rewriting) -> Mapping:
    targets = after.get(str(step.values["step"].value), [])  # type: ignore[union-attr]
    step = model.without_keys(step, *(key for key in _WORDS if key in step)) if _word(step) is not None else step
    if not targets:
        return step
    arcs: Node = model.made_list([model.made_mapping([("step", target)], target) for target in targets], targets[0])
    if rewriting.dialect is V2_CASE:
        return model.with_value(step, "next", arcs)
    router: list[tuple[str, Node]] = [("arcs", arcs)]
    mode = model.made_text("inclusive", targets[0])
    if rewriting.dialect.rules is V10:
        spec = [("spec", model.made_mapping([("mode", mode)], targets[0]))] if len(targets) > 1 else []
        return model.with_value(step, "next", model.made_mapping([*spec, *router], targets[0]))
    if len(targets) > 1:
        held = step.get("spec")
        block = held if isinstance(held, Mapping) else model.made_mapping((), targets[0])
        step = model.with_value(step, "spec", model.with_value(block, "next_mode", mode))
    return model.with_value(step, "next", arcs)


SPELLINGS = (
    Spelling(
        id="step-depends-on",
        where=Where.DOCUMENT,
        older="`depends_on: [name]` of steps, none of which has `next`",
        canonical="`next: {arcs: [{step: …}]}` of the step before",
        dialects=EVERYWHERE,
        refused_by_v10=True,
        rewrite=_turn_round,
    ),
)
