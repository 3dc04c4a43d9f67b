"""`next` of a step in other shapes: by how the step ended, as a decision (`{if, then, else}`), as a choice
(`{case: [{when, step}]}`), or as steps that run side by side (`{parallel: [a, b]}`)."""

from __future__ import annotations

from noetl.base.diagnostics import is_template
from noetl.base.template_names import expression, template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where

_ENDS = {
    **dict.fromkeys(("success", "on_success", "succeeded", "done", "ok"), "step.done"),
    **dict.fromkeys(("failure", "on_failure", "failed", "error", "on_error"), "step.failed"),
}
_CONDITIONS = ("if", "when", "condition", "cond")
_CHOICES = ("case", "cases", "switch", "choices", "branches")
_OTHERWISE = ("else", "default", "otherwise")
_TARGETS = ("step", "then", "next", "goto", "to")
_FORKS = ("parallel", "all", "fork")


def read_next(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step whose `next` is a mapping of such a shape, with a list of arcs in its place."""
    written = node.get("next")
    if not isinstance(written, Mapping) or not len(written):
        return node
    arcs = _by_end(written, "loop" in node) or _decision(written) or _side_by_side(written)
    arcs = arcs or _choices(written) or _cases(written)
    if arcs is None:
        return node
    rewriting.note(node.keys["next"], "next in this shape", "next: {arcs: [{step, when}]}")
    return model.with_value(node, "next", arcs)


def _by_end(written: Mapping, is_looped: bool) -> Node | None:
    if not written.values.keys() <= _ENDS.keys() or not all(map(_is_name, written.values.values())):
        return None
    arcs = []
    for key, place, target in written.items():
        # A looped step has no step.done (LOOP-09).
        event = "loop.done" if is_looped and _ENDS[key] == "step.done" else _ENDS[key]
        arcs.append(_arc(target, model.made_text(f"{{{{ event.name == '{event}' }}}}", place)))
    return model.made_list(arcs, written)


def _decision(written: Mapping) -> Node | None:
    words = [key for key in _CONDITIONS if key in written]
    then, otherwise = written.get("then"), written.get("else")
    if len(words) != 1 or not written.values.keys() <= {words[0], "then", "else"} or then is None:
        return None
    if not _is_name(then) or (otherwise is not None and not _is_name(otherwise)):
        return None
    arcs = [_arc(then, written.values[words[0]])]
    return model.made_list([*arcs, _arc(otherwise, None)] if otherwise is not None else arcs, written)


def _choices(written: Mapping) -> Node | None:
    """`{case: [{when, step}, {else: name}]}`."""
    ((word, _, choices), *more) = written.items()
    if more or word not in _CHOICES or not isinstance(choices, Sequence) or not len(choices):
        return None
    arcs = [_choice(one, is_last=one is choices.items[-1]) for one in choices]
    return model.made_list([arc for arc in arcs if arc is not None], choices) if None not in arcs else None


def _choice(choice: Node, *, is_last: bool) -> Mapping | None:
    if not isinstance(choice, Mapping):
        return None
    (word, _, first), *_ = choice.items() if len(choice) else [("", None, choice)]
    if len(choice) == 1 and word in _OTHERWISE and is_last and _is_name(first):
        return _arc(first, None)
    whens = [key for key in _CONDITIONS if key in choice]
    targets = [key for key in _TARGETS if key in choice]
    if len(choice) != 2 or len(whens) != 1 or len(targets) != 1 or not _is_name(choice.values[targets[0]]):
        return None
    return _arc(choice.values[targets[0]], choice.values[whens[0]])


def _cases(written: Mapping) -> Node | None:
    """`{switch: "{{ … }}", cases: {value: name}, default: name}`."""
    value, cases, otherwise = written.get("switch"), written.get("cases"), written.get("default")
    text = value.value if isinstance(value, Scalar) and isinstance(value.value, str) else ""
    asked = expression(text) if is_template(text) else None
    if asked is None or not isinstance(cases, Mapping) or not written.values.keys() <= {"switch", "cases", "default"}:
        return None
    # A key is text, and a number that is compared with it would never be the same.
    if any(key.isdigit() or key.lower() in ("true", "false", "null") for key in cases.values):
        return None
    if not all(map(_is_name, cases.values.values())) or (otherwise is not None and not _is_name(otherwise)):
        return None
    arcs = [
        _arc(target, model.made_text(template(f"({asked}) == {key.value!r}"), key)) for _, key, target in cases.items()
    ]
    return model.made_list([*arcs, _arc(otherwise, None)] if otherwise is not None else arcs, written)


def _side_by_side(written: Mapping) -> Node | None:
    ((word, _, targets), *more) = written.items()
    if more or word not in _FORKS or not isinstance(targets, Sequence) or not all(map(_is_name, targets)):
        return None
    mode = model.made_mapping([("mode", model.made_text("inclusive", targets))], targets)
    arcs = model.made_list([_arc(target, None) for target in targets], targets)
    return model.made_mapping([("spec", mode), ("arcs", arcs)], written)


def _arc(target: Node, when: Node | None) -> Mapping:
    """One arc; a target may be `{step: name}` itself, with what belongs to it."""
    arc = target if isinstance(target, Mapping) else model.made_mapping([("step", target)], target)
    return arc if when is None else model.with_value(arc, "when", when)


def _is_name(node: Node) -> bool:
    if isinstance(node, Mapping):
        return "step" in node and "when" not in node
    return isinstance(node, Scalar) and isinstance(node.value, str) and bool(node.value.strip())


SPELLINGS = (
    Spelling(
        id="next-shapes",
        where=Where.STEP,
        older="`next: {success: a, failure: b}`, `next: {if: …, then: a, else: b}`, `next: {parallel: [a, b]}`, "
        "`next: {case: [{when, step}, {else: name}]}`, `next: {switch: …, cases: {value: name}, default: name}`",
        canonical="`next: {arcs: [{step, when}]}`",
        dialects=(model.V10, model.V2_EVAL),
        refused_by_v10=True,
        rewrite=read_next,
    ),
)
