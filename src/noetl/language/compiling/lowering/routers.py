"""Routers, arcs, admission and joins, lowered (ROUTE-01, ROUTE-05, ADM-01, O-01, C-09, C-31)."""

from __future__ import annotations

from noetl.language.compiling.lowering.debug_map import Lowering
from noetl.language.compiling.lowering.values import authored, flag, inner, number, table, word, words
from noetl.language.compiling.passes import key_place
from noetl.language.compiling.step_names import candidates
from noetl.language.reading.nodes import Mapping, Node, data
from noetl.language.reading.playbook import Admit, StepSyntax
from noetl.language.reading.playbook import ArcSyntax as WrittenArc
from noetl.net.debug import arc_address, part_address
from noetl.net.routing import Admission, AdmitRule, Arc, Join, JoinMode, Mode, Router
from noetl.templates.values import Authored


def lower_router(lowering: Lowering, step: StepSyntax) -> Router | None:
    router = step.router
    if router is None:
        return None
    lowering.trace(part_address(step.name, "next"), key_place(step.node, "next", router))
    for index, arc in enumerate(router.arcs):
        address = arc_address(step.name, index)
        lowering.trace(address, arc.target)
        for name, part in (("when", arc.when), ("args", arc.args), ("set_ctx", arc.set_ctx)):
            if part is not None:
                lowering.trace(f"{address}/{name}", part)
    policy = inner(router.spec, "policy")
    return Router(
        arcs=tuple(lower_arc(arc, policy) for arc in router.arcs),
        mode=Mode(router.mode),
        unguarded_always=lowering.unguarded_always or word(inner(router.spec, "unguarded"), "") == "always",
        policy=table(policy),
    )


def lower_arc(arc: WrittenArc, policy: Node | None = None) -> Arc:
    """An arc with its options; the router's policy gives the defaults of three of them (ADV-03…05)."""
    spec = arc.spec
    cancel = inner(spec, "cancel")
    return Arc(
        target="" if arc.template else str(arc.target.value),
        when=authored(arc.when),
        args=authored(arc.args),
        set_ctx=authored(arc.set_ctx),
        computed=Authored(arc.target.value) if arc.template else None,
        candidates=candidates(arc) if arc.template else (),
        delay=authored(inner(spec, "delay")),
        priority=authored(inner(spec, "priority") or inner(policy, "priority")),
        dedupe=authored(inner(spec, "dedupe") or inner(policy, "dedupe")),
        partition=authored(inner(spec, "partition") or _partition_key(inner(policy, "partitioning"))),
        tokens=number(inner(spec, "tokens")) or 1,
        cancel=("*",) if word(cancel, "") == "execution" else words(cancel),
        trigger_compensation=flag(inner(spec, "trigger_compensation")),
    )


def _partition_key(node: Node | None) -> Node | None:
    """`partitioning: {key: …}`, or the expression itself."""
    return node.get("key") if isinstance(node, Mapping) else node


def lower_admission(lowering: Lowering, step: StepSyntax) -> Admission | None:
    admit: Admit | None = step.admit
    if admit is None:
        return None
    lowering.trace(part_address(step.name, "admission"), admit)
    for index, rule in enumerate(admit.rules):
        lowering.trace(part_address(step.name, f"admission/rules/{index}"), rule)
    rules = tuple(
        AdmitRule(when=authored(rule.when), allow=rule.allow, park=rule.park, set_token=authored(rule.set_token))
        for rule in admit.rules
    )
    return Admission(rules=rules, mode=Mode(admit.mode))


def lower_join(lowering: Lowering, step: StepSyntax) -> Join | None:
    """`all`, `any`, `active`, `{count: n}`, or the long form with `mode` and `rest` (O-01)."""
    node = inner(step.spec, "join")
    if node is None:
        return None
    lowering.trace(part_address(step.name, "join"), node)
    count = number(inner(node, "count"))
    mode = word(inner(node, "mode"), "") if isinstance(node, Mapping) else str(data(node))
    # `{count: 2}` needs no mode, and one that is written beside it is refused by the reader.
    if count is not None:
        mode = "count"
    if mode not in list(JoinMode):
        return None
    return Join(mode=JoinMode(mode), count=count, rest=word(inner(node, "rest"), "ignore"))
