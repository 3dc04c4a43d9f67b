"""The table: every accepted spelling with its v10 form. The rewriting, the pages and `noetl migrate` read it."""

from __future__ import annotations

from noetl.language.reading.spellings import (
    case_actions,
    constructs,
    input_output,
    loop_done,
    loops,
    options,
    retries,
    roots,
    routing,
    rules,
    steps,
)
from noetl.language.reading.spellings.model import Spelling, Where

SPELLINGS: tuple[Spelling, ...] = (
    *roots.SPELLINGS,
    *steps.SPELLINGS,
    *retries.SPELLINGS,
    *input_output.SPELLINGS,  # after retries: what a task sets goes behind its rules for errors
    *loops.SPELLINGS,
    *routing.SPELLINGS,
    *rules.SPELLINGS,
    *case_actions.SPELLINGS,
    *loop_done.SPELLINGS,
    *options.SPELLINGS,
    *constructs.SPELLINGS,
)

BY_ID: dict[str, Spelling] = {spelling.id: spelling for spelling in SPELLINGS}
BY_PLACE: dict[Where, tuple[Spelling, ...]] = {
    where: tuple(one for one in SPELLINGS if one.where is where and one.rewrite is not None) for where in Where
}
