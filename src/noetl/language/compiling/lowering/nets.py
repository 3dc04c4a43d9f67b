"""The net itself: root sections lowered, steps in YAML order, and the place `end` where v2-case leads to it (C-40)."""

from __future__ import annotations

from typing import Any

from noetl.base.durations import seconds
from noetl.language.compiling.lowering.debug_map import Lowering
from noetl.language.compiling.lowering.steps import lower_step
from noetl.language.compiling.lowering.values import authored, flag, inner, lower_concurrency, table, word
from noetl.language.compiling.step_names import END, arcs_of, candidates, entry_step
from noetl.language.reading.nodes import data
from noetl.language.reading.playbook import ArcSyntax, Dialect, NotificationSyntax, Playbook
from noetl.net.debug import DebugMap, step_address
from noetl.net.kinds import Kinds, has_policy
from noetl.net.net import FORMAT, Destination, Executor, KeychainEntry, Net, Notification, Transition, Trigger
from noetl.net.task import Directive


def lower_playbook(playbook: Playbook, kinds: Kinds, debug: DebugMap) -> Net | None:
    """The net of a playbook, and its debug map filled; None without a step to begin with."""
    # A playbook with other errors still becomes a net: later checks find more mistakes in it. Without a beginning there
    # is none.
    entry = entry_step(playbook)
    if entry is None:
        return None
    return Net(
        format=FORMAT,
        dialect=playbook.dialect.value,
        name=playbook.name,
        path=playbook.catalog_path,
        version=playbook.version,
        # As written, with labels and retention: servers read them from the net, long after the text is gone.
        metadata={"name": playbook.name, "path": playbook.catalog_path, **table(playbook.metadata)},
        entry=entry,
        workload=table(playbook.workload),
        ctx=authored(playbook.ctx),
        keychain=_keychain(playbook),
        executor=_executor(playbook, kinds),
        trigger=_trigger(playbook),
        notifications=tuple(_notification(one) for one in playbook.notifications),
        transitions=_transitions(_lowering(playbook, kinds, debug)),
    )


def _lowering(playbook: Playbook, kinds: Kinds, debug: DebugMap) -> Lowering:
    spec = playbook.executor.spec if playbook.executor else None
    unmatched = word(inner(spec, "policy", "defaults", "on_unmatched"), "continue")
    return Lowering(
        playbook=playbook,
        kinds=kinds,
        debug=debug,
        on_unmatched=Directive.FAIL if unmatched == "fail" else Directive.CONTINUE,
        unguarded_always=word(inner(spec, "unguarded"), "") == "always",
    )


def _transitions(lowering: Lowering) -> tuple[Transition, ...]:
    playbook = lowering.playbook
    named = {step.name: step for step in reversed(playbook.steps)}  # of two with one name the first counts
    steps = [step for step in playbook.steps if named[step.name] is step]
    transitions = [lower_step(lowering, step) for step in steps]
    to_end = _first_arc_to_end(playbook)
    if playbook.dialect is Dialect.V2_CASE and END not in named and to_end is not None:
        lowering.trace(step_address(END), to_end.target, "implicit end")
        # A step that nobody wrote: v2-case lets arcs lead to `end`, and tokens need a place to end at.
        transitions.append(Transition(name=END))
    return tuple(transitions)


def _first_arc_to_end(playbook: Playbook) -> ArcSyntax | None:
    for step in playbook.steps:
        for arc in arcs_of(step):
            if END in candidates(arc) if arc.template else arc.target.value == END:
                return arc
    return None


def _keychain(playbook: Playbook) -> tuple[KeychainEntry, ...]:
    return tuple(
        KeychainEntry(
            name=entry.name,
            kind=entry.kind,
            lookup={key: data(value) for key, _, value in entry.node.items() if key not in ("name", "kind")},
        )
        for entry in playbook.keychain
    )


def _executor(playbook: Playbook, kinds: Kinds) -> Executor:
    written = playbook.executor
    if written is None:
        return Executor()
    policy = inner(written.spec, "policy")
    spec: dict[str, Any] = {key: value for key, value in table(written.spec).items() if key != "policy"}
    return Executor(
        kind=written.kind,
        version=written.version,
        spec=spec,
        limits=table(inner(policy, "limits")),
        defaults=table(inner(policy, "defaults")),
        reference_first=flag(inner(policy, "results", "reference_first")),
        fail_fast=word(inner(policy, "failure", "mode"), "") == "fail_fast",
        auto_compensate="auto"
        in (word(inner(policy, "compensation"), ""), word(inner(policy, "compensation", "mode"), "")),
        tool_policies={key: table(inner(policy, key)) for key in table(policy) if has_policy(kinds, key)},
        placement=table(inner(policy, "placement")),
        cost=table(inner(policy, "cost")),
        pool=authored(inner(written.spec, "pool")),
        concurrency=lower_concurrency(inner(written.spec, "concurrency")),
    )


def _notification(written: NotificationSyntax) -> Notification:
    return Notification(
        event=written.event,
        notify=tuple(Destination(kind=one.kind, options=table(one.node)) for one in written.notify),
        after_s=seconds(written.after.value) if written.after is not None else None,
        throttle_s=seconds(written.throttle.value) if written.throttle is not None else 0.0,
        subject=authored(written.subject),
        text=authored(written.text),
    )


def _trigger(playbook: Playbook) -> Trigger | None:
    trigger = playbook.trigger
    if trigger is None:
        return None
    timezone = str(trigger.timezone.value) if trigger.timezone is not None else "UTC"
    options = {key: value for key, value in table(trigger.spec).items() if key != "timezone"}
    return Trigger(cron=str(trigger.cron.value), timezone=timezone, options=options)
