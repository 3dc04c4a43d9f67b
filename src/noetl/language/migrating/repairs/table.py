"""The table of repairs, with the diagnostics that each one is the way out of."""

from __future__ import annotations

from noetl.language.migrating.repairs import conditions, evals, roots, routes, steps
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.spellings.model import (
    V2_CASE,
    V2_EVAL,
    V10,
    Rewrite,
    Rewriting,
    Spelling,
    Where,
    moved_into,
)

KNOBS = ("timeout", "verify_ssl", "follow_redirects", "async", "auth_mode")


def move_knobs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Run-time options beside `kind`, which v10 reads under `spec` alone (SPEC-05)."""
    if "kind" not in node:
        return node
    for key in KNOBS:
        spec = node.get("spec")
        if key in node and not (isinstance(spec, Mapping) and key in spec):
            rewriting.note(node.keys[key], f'"{key}" beside kind', f"spec.{key}")
            node = moved_into(node, "spec", key, key)
    return node


def _row(name: str, where: Where, older: str, canonical: str, rewrite: Rewrite) -> Spelling:
    return Spelling(id=name, where=where, older=older, canonical=canonical, dialects=(V10,), rewrite=rewrite)


def _own(name: str, where: Where, older: str, canonical: str, rewrite: Rewrite) -> Spelling:
    return Spelling(
        id=name, where=where, older=older, canonical=canonical, dialects=(V2_CASE, V2_EVAL), rewrite=rewrite
    )


REPAIRS: tuple[Spelling, ...] = (
    _row(
        "root-version", Where.DOCUMENT, "no apiVersion, or an older one", "apiVersion: noetl.io/v10", roots.name_version
    ),
    _row("root-steps", Where.DOCUMENT, "`steps`", "`workflow`", roots.name_workflow),
    _row(
        "root-identity", Where.DOCUMENT, "`name`, `path`, `version`, … at the root", "`metadata`", roots.move_identity
    ),
    _row("root-spec", Where.DOCUMENT, "`spec` at the root", "`executor.spec`", roots.move_spec),
    _row("root-vars", Where.DOCUMENT, "`vars` at the root", "`workload`", roots.move_vars),
    _row("root-entry", Where.DOCUMENT, "no step `start`", "`executor.spec.entry_step`", roots.name_entry),
    _row("root-end", Where.DOCUMENT, "`end` without a step of that name", "`- step: end`", roots.add_end),
    _row("step-pipe", Where.STEP, "`pipe`", "`tool`", steps.name_pipe),
    _row("step-policy", Where.STEP, "`policy` on a step", "`spec.policy`", steps.move_policy),
    _row("step-when", Where.STEP, "`when` on a step", "`spec.policy.admit.rules`", conditions.write_admission),
    _row("set-vars", Where.STEP, "`set_vars`", "`set_iter`, or `set_ctx`", evals.place_variables),
    _row("step-case", Where.STEP, "`case` that only leads on", "`next.arcs`", routes.write_arcs),
    _row("next-then", Where.STEP, "`next: [{when, then}, {else}]`", "`next.arcs`", routes.write_conditions),
    _row("next-names", Where.STEP, "`next: [a, b]`", "`next: {spec: {mode: inclusive}, arcs}`", routes.write_fork),
    _row("step-mode", Where.STEP, "`spec.next_mode`, `spec.case_mode`", "`next.spec.mode`", routes.move_mode),
    _row("step-on-error", Where.STEP, "`spec.on_error`", "`spec.policy.failure.mode`", steps.write_failure_mode),
    _row("step-sink", Where.STEP, "`sink`", "a task that stores", steps.write_sink),
    _row("task-when", Where.STEP, "`when` on a task", "`choose`", conditions.write_choose),
    _row("task-eval", Where.TASK, "`eval: [{expr, do}]`", "`spec.policy.rules`", evals.write_rules),
    _row("task-policy", Where.TASK, "`policy` on a task", "`spec.policy`", steps.move_policy),
    _row("task-policy-list", Where.TASK, "`policy: [{when, then}]`", "`policy: {rules: […]}`", steps.list_rules),
    _row("task-knobs", Where.TASK, "`timeout`, `verify_ssl`, … beside `kind`", "`spec`", move_knobs),
    _row("rule-order", Where.TASK, "`else` that is not the last rule", "`else` at the end", conditions.order_rules),
    _row("rule-expr", Where.RULE, "`expr`", "`when`", conditions.name_expression),
    _row("retry-bound", Where.ACTION, "`do: retry` without `attempts`", "`attempts: 3`", steps.bound_retry),
    _row(
        "retry-backoff",
        Where.ACTION,
        "`backoff` in another word",
        "`none`, `linear`, `exponential`",
        steps.name_backoff,
    ),
    _row("loop-iterator", Where.LOOP, "a loop without `iterator`", "`iterator: item`", steps.name_iterator),
    _row("rule-stray", Where.RULE, "`do` beside `when`", "`then: {do: …}`", conditions.move_actions),
    _row("rule-guard", Where.RULE, "a condition without braces", "`{{ … }}`", conditions.write_braces),
    _row("arc-expr", Where.ARC, "`expr`", "`when`", conditions.name_expression),
    _row("arc-guard", Where.ARC, "a condition without braces", "`{{ … }}`", conditions.write_braces),
)

# What may be put right before it is known which dialect reads the rest: a document that lacks nothing else is then
# migrated by the rules of its own dialect, which know more than the repairs of single constructs.
OWN_DIALECT_REPAIRS: tuple[Spelling, ...] = (
    _own("retry-bound", Where.RETRY, "a retry without `max_attempts`", "`max_attempts: 3`", steps.bound_policy),
    _own("retry-mode", Where.RETRY, "`spec.mode` in another word", "`fixed`, `linear`, `exponential`", steps.name_mode),
    _own("loop-words", Where.LOOP, "a loop in the words of two spellings", "`in`, `iterator`", steps.name_iterator),
    Spelling(
        id="root-entry",
        where=Where.DOCUMENT,
        older="no step `start`",
        canonical="`executor.spec.entry_step`",
        dialects=(V2_EVAL, V2_CASE),
        rewrite=roots.name_entry,
    ),
    Spelling(
        id="step-empty",
        where=Where.STEP,
        older="a step that does nothing",
        canonical="`tool: {kind: noop}`",
        dialects=(V2_CASE,),
        rewrite=steps.add_noop,
    ),
)
