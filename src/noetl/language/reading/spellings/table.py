"""The table: every accepted spelling with its v10 form. The rewriting, the pages and `noetl migrate` read it."""

from __future__ import annotations

from noetl.language.reading.spellings import (
    dependencies,
    eval_entries,
    input_output,
    loops,
    options,
    policy_shapes,
    retries,
    retry_words,
    roots,
    routing,
    rules,
    steps,
    task_shapes,
)
from noetl.language.reading.spellings.model import Spelling, Where
from noetl.language.v2_case import port as v2_case

# The order is that of the rewriting: shapes come before the words within them.
SPELLINGS: tuple[Spelling, ...] = (
    *roots.SPELLINGS,
    *dependencies.SPELLINGS,
    *task_shapes.SPELLINGS,  # before the words of tasks and loops, which it makes
    *policy_shapes.SPELLINGS,
    *steps.SPELLINGS,
    *v2_case.retry_spellings(),
    *retry_words.SPELLINGS,  # before retries, which turn what they know into rules
    *retries.SPELLINGS,
    *eval_entries.SPELLINGS,
    *input_output.SPELLINGS,  # after retries: what a task sets goes behind its rules for errors
    *loops.SPELLINGS,
    *routing.SPELLINGS,
    *rules.SPELLINGS,
    *v2_case.rule_spellings(),
    *options.SPELLINGS,
)

BY_ID: dict[str, Spelling] = {spelling.id: spelling for spelling in SPELLINGS}
BY_PLACE: dict[Where, tuple[Spelling, ...]] = {
    where: tuple(one for one in SPELLINGS if one.where is where and one.rewrite is not None) for where in Where
}
