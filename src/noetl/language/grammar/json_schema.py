"""The JSON Schema (draft 2020-12) of a playbook in its canonical v10 form (DOC-13).

It says what a schema can say: shapes, words and keys. References between steps, names, templates and proofs are the
checker's, and so is the place of `else`, which must be the last rule.
"""

from __future__ import annotations

from noetl.language.grammar import policies, steps, tasks
from noetl.language.grammar.root import ROOT
from noetl.language.grammar.shapes import GUARD, TEMPLATE, Schema, described_schema
from noetl.net.kinds import Kinds


def playbook_schema(kinds: Kinds) -> Schema:
    """The schema for these tool kinds."""
    shared = (*policies.SHARED, *steps.SHARED)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "NoETL playbook (v10)",
        **ROOT.schema(),
        "$defs": {
            "template": TEMPLATE,
            "guard": described_schema(GUARD, "A condition: a template, or true or false."),
            **{construct.ref: construct.schema() for construct in shared},
            "executor_policy": policies.executor_policy(kinds).schema(),
            "join": steps.JOIN_FORMS,
            **tasks.definitions(kinds),
        },
    }
