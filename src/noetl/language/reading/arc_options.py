"""Options of an arc: priority, dedupe, partition, delay, tokens, cancel, compensation (C-31, ADV-03…05, beyond.md
§1)."""

from __future__ import annotations

from noetl.language.grammar.steps import ARC_SPEC
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.numbers import found_text, is_templated, whole_number
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.policy_keys import check_dedupe
from noetl.language.reading.scope_policies import CONTROL, refuse_control
from noetl.language.reading.shared_checks import ReadContext, boolean, check_keys
from noetl.language.reading.waits.times import duration

_CODE = "E_SPEC_OPTION"


def check_arc_options(reading: ReadContext, spec: Mapping | None) -> None:
    """Note every option of an arc that it does not have, or that holds what it cannot mean."""
    if spec is None:
        return
    handled = (*CONTROL, "guard", "mode", "policy")
    check_keys(reading, spec, ARC_SPEC, _CODE, handled=handled)
    refuse_control(reading, spec, "an arc's spec")
    _refuse_misplaced(reading, spec)
    duration(reading, spec.get("delay"), "delay")
    whole_number(reading, spec.get("priority"), _CODE, "priority")
    if "dedupe" in spec:
        check_dedupe(reading, spec.values["dedupe"], "dedupe", _CODE)
    _check_partition(reading, spec.get("partition"))
    _check_tokens(reading, spec.get("tokens"))
    _check_cancel(reading, spec.get("cancel"))
    boolean(reading, spec.get("trigger_compensation"), _CODE, "trigger_compensation")


def _refuse_misplaced(reading: ReadContext, spec: Mapping) -> None:
    mode = "next.spec.mode" if reading.dialect is Dialect.V10 else "step.spec.next_mode"
    for key, hint in (("guard", "write the condition as the arc's when"), ("mode", f"write {mode}")):
        if key in spec:
            reading.error(_CODE, spec.keys[key], f'"{key}" is not an option of an arc', hint)
    if "policy" in spec:
        hint = "write next.spec.policy, or the option itself: priority, dedupe, partition"
        reading.error("E_POLICY_SCOPE", spec.keys["policy"], "an arc has no policy", hint)


def _check_partition(reading: ReadContext, node: Node | None) -> None:
    if node is not None and not isinstance(node, Scalar):
        reading.error(
            _CODE, node, f"partition must be an expression, and this is {describe(node)}", 'partition: "{{ … }}"'
        )


def _check_tokens(reading: ReadContext, node: Node | None) -> None:
    """A number, not a template: how many tokens an arc makes is part of the net (beyond.md §1)."""
    whole = isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool)
    if node is not None and not (whole and isinstance(node, Scalar) and int(node.value or 0) >= 1):
        found = "a template" if is_templated(node) else found_text(node)
        reading.error(_CODE, node, f"tokens must be a whole number of at least 1, and this is {found}", "tokens: 2")


def _check_cancel(reading: ReadContext, node: Node | None) -> None:
    if node is None or (isinstance(node, Scalar) and node.value == "execution"):
        return
    names = isinstance(node, Sequence) and all(
        isinstance(item, Scalar) and isinstance(item.value, str) and item.value and not is_templated(item)
        for item in node
    )
    if not names:
        hint = "cancel: [step, …], or cancel: execution"
        reading.error(_CODE, node, f"cancel must list steps, and this is {found_text(node)}", hint)
