"""Constructs of the older dialects, for the pages: their own readers read them, `noetl migrate` rewrites them."""

from __future__ import annotations

from noetl.language.reading.spellings.model import V2_CASE, V2_EVAL, Spelling, Where

SPELLINGS = (
    Spelling(
        id="step-when",
        where=Where.STEP,
        older="`when` on a step",
        canonical="`step.spec.policy.admit.rules`",
        dialects=(V2_EVAL,),
    ),
    Spelling(
        id="task-eval",
        where=Where.TASK,
        older="`eval: [{expr, do}]`",
        canonical="`task.spec.policy.rules: [{when, then: {do}}]`",
        dialects=(V2_EVAL,),
    ),
    Spelling(
        id="step-next-mode",
        where=Where.STEP,
        older="`spec.next_mode`",
        canonical="`next.spec.mode`",
        dialects=(V2_EVAL,),
    ),
    Spelling(
        id="eval-label",
        where=Where.TASK,
        older="`- label: {kind: …}`",
        canonical="`- name: label` with `kind` beside it",
        dialects=(V2_EVAL,),
    ),
    Spelling(
        id="set-vars",
        where=Where.ACTION,
        older="`set_vars`",
        canonical="`set_iter`, or `set_ctx` under a key of its own",
        dialects=(V2_EVAL,),
    ),
    Spelling(
        id="case-vars",
        where=Where.STEP,
        older="`vars:` on a step",
        canonical="`set_ctx` on the step",
        dialects=(V2_CASE,),
    ),
    Spelling(
        id="case-retry",
        where=Where.STEP,
        older="`retry:` on a step",
        canonical="a rule with `do: retry`",
        dialects=(V2_CASE,),
    ),
    Spelling(
        id="case-sink",
        where=Where.STEP,
        older="`sink:`",
        canonical="a task that stores",
        dialects=(V2_CASE,),
    ),
    Spelling(
        id="case-events",
        where=Where.STEP,
        older="`case` on `call.done`, `call.error`",
        canonical="arcs on `step.done`, `step.failed`",
        dialects=(V2_CASE,),
    ),
)
