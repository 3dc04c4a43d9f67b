"""Compiling: a playbook of any dialect becomes a net, and every mistake that the readers cannot find is reported.

The passes, in order, are one tuple. Those before `lower_playbook` rewrite the playbook into canonical tasks or check
it; none of them knows the layout of the text, and of the dialect the net has only the name.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.diagnostics import Findings, guesses_of_one_text
from noetl.base.durations import seconds
from noetl.language.compiling import (
    accepted_errors,
    embedded_code,
    expansion,
    foreign_words,
    guards,
    inputs,
    misread_values,
    plain_secrets,
    step_names,
    task_names,
    template_sites,
    tool_kinds,
    undefined_names,
)
from noetl.language.compiling.lowering.steps import lower_step
from noetl.language.compiling.lowering.values import Lowering, authored, flag, lower_concurrency, table, word
from noetl.language.compiling.passes import Compilation, Pass
from noetl.language.reading.nodes import data, inner
from noetl.language.reading.playbook import ArcSyntax, Dialect, NotificationSyntax, Playbook
from noetl.net.debug import DebugMap, step_address
from noetl.net.kinds import Kinds, has_policy
from noetl.net.net import FORMAT, Destination, Executor, KeychainEntry, Net, Notification, Transition, Trigger
from noetl.net.task import Directive


def check_sql_text(playbook: Playbook, compilation: Compilation) -> Playbook:
    """The pass of that name."""
    # In a module of its own, imported here: most playbooks have no SQL, and a run should not wait for its lexer.
    if not embedded_code.has_sql(playbook, compilation):
        return playbook
    from noetl.language.compiling.sql_flaws import check_sql_text

    return check_sql_text(playbook, compilation)


# The order matters: tasks must have names before sugar is expanded into jumps between them, references to the workbook
# must be resolved before kinds and inputs are checked, and templates are looked at last, in what will run.
PASSES: tuple[Pass, ...] = (
    step_names.check_step_names,
    # rewriting: to canonical task lists
    task_names.name_tasks,
    expansion.expand_sugar,
    task_names.check_task_names,
    expansion.resolve_workbook,
    tool_kinds.check_tool_kinds,
    inputs.check_inputs,
    foreign_words.read_credentials,
    inputs.check_input_shapes,
    # checking: references between the parts
    task_names.check_jumps,
    step_names.check_targets,
    step_names.check_writes,
    tool_kinds.check_credentials,
    tool_kinds.check_spec_keys,
    embedded_code.check_python_code,
    embedded_code.check_workload_values,
    plain_secrets.check_plain_secrets,
    task_names.check_step_results,
    # checking: templates
    template_sites.check_template_syntax,
    undefined_names.check_scope_names,
    task_names.check_task_results,
    undefined_names.check_undefined_keys,
    misread_values.check_unwritten_variables,
    misread_values.check_own_results,
    misread_values.check_whole_results,
    misread_values.check_loop_variables,
    misread_values.check_text_truths,
    misread_values.check_status_texts,
    foreign_words.check_misread_results,
    foreign_words.check_foreign_braces,
    embedded_code.check_sql_fragments,
    check_sql_text,
    # advice (VAL-20)
    guards.check_unmatched,
    accepted_errors.check_accepted_errors,
    accepted_errors.check_accepted_failures,
    accepted_errors.check_exhausted_retries,
    accepted_errors.check_error_kinds,
    misread_values.check_outcome_statuses,
    guards.check_shadows,
    guards.check_event_names,
)


class Compiled(msgspec.Struct, frozen=True):
    """`net` is None only when it cannot be built; a playbook with errors may still have one."""

    net: Net | None
    debug: DebugMap


@guesses_of_one_text()
def compile_playbook(playbook: Playbook, kinds: Kinds, findings: Findings, *, extensions: bool = False) -> Compiled:
    """Run every pass, then lower what they made."""
    compilation = Compilation(kinds, findings, extensions)
    for each in PASSES:
        playbook = each(playbook, compilation)
    debug: DebugMap = {}
    net = lower_playbook(playbook, kinds, debug)
    if net is not None:
        # After lowering: only the net says which steps run before which.
        undefined_names.check_undefined_names(playbook, net, compilation)
        undefined_names.check_collected_names(playbook, net, compilation)
        embedded_code.check_main_parameters(playbook, net, compilation)
    return Compiled(net, debug)


# The net itself: root sections lowered, steps in YAML order, and the place `end` where v2-case leads to it (C-40).


def lower_playbook(playbook: Playbook, kinds: Kinds, debug: DebugMap) -> Net | None:
    """The net of a playbook, and its debug map filled; None without a step to begin with."""
    # A playbook with other errors still becomes a net: later checks find more mistakes in it. Without a beginning there
    # is none.
    entry = step_names.entry_step(playbook)
    if entry is None:
        return None
    return Net(
        format=FORMAT,
        dialect=playbook.dialect.value,
        name=playbook.name,
        path=playbook.catalog_path,
        version=playbook.version,
        # The metadata as written, with labels and retention: servers read it from the net, and need no text for that.
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
    # If two steps have the same name, the first one counts.
    named = {step.name: step for step in reversed(playbook.steps)}
    steps = [step for step in playbook.steps if named[step.name] is step]
    transitions = [lower_step(lowering, step) for step in steps]
    to_end = _first_arc_to_end(playbook)
    if playbook.dialect is Dialect.V2_CASE and step_names.END not in named and to_end is not None:
        lowering.trace(step_address(step_names.END), to_end.target, "implicit end")
        # An implicit step: v2-case lets arcs lead to `end`, and tokens need a place to end at.
        transitions.append(Transition(name=step_names.END))
    return tuple(transitions)


def _first_arc_to_end(playbook: Playbook) -> ArcSyntax | None:
    for step in playbook.steps:
        for arc in step_names.arcs_of(step):
            if step_names.END in step_names.candidates(arc) if arc.template else arc.target.value == step_names.END:
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
