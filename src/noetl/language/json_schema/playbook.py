"""The JSON Schema (draft 2020-12) of a playbook in its canonical v10 form (DOC-13).

It says what a schema can say: shapes, words and keys. References between steps, names, templates and proofs are the
checker's, and so is the place of `else`, which must be the last rule.
"""

from __future__ import annotations

from noetl.language.json_schema import policies, steps, tasks
from noetl.language.json_schema.fragments import (
    DURATION,
    FLAG,
    FREE,
    SCALAR,
    TEMPLATE,
    TEXT,
    Schema,
    array,
    described_schema,
    mapping,
    ref,
    words,
)
from noetl.net.kinds import Kinds


def playbook_schema(kinds: Kinds) -> Schema:
    """The schema for these tool kinds."""
    root = mapping(
        {
            "apiVersion": described_schema(words("noetl.io/v10", "noetl.io/v2"), "Version of the language."),
            "kind": described_schema({"const": "Playbook"}, "Always Playbook."),
            "metadata": _metadata(),
            "keychain": _keychain(),
            "executor": _executor(),
            "workload": described_schema(FREE, "Defaults of the input; literal data, never templates."),
            "ctx": described_schema(FREE, "What the context begins with; templates read workload."),
            "workflow": described_schema(
                array(ref("step"), minItems=1), "The steps; execution begins at the one named start."
            ),
            "workbook": _workbook(),
            "trigger": _trigger(),
        },
        "apiVersion",
        "kind",
        "metadata",
        "workflow",
        doc="A workflow: steps joined by guarded arcs, each a pipeline of tasks.",
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "NoETL playbook (v10)",
        **root,
        "$defs": {
            "template": TEMPLATE,
            **policies.definitions(kinds),
            **tasks.definitions(kinds),
            **steps.definitions(),
        },
    }


def _metadata() -> Schema:
    return mapping(
        {
            "name": described_schema(TEXT | {"minLength": 1}, "Name of the playbook."),
            "path": described_schema(TEXT | {"minLength": 1}, "Its path in the catalogue."),
            "version": described_schema(SCALAR, "Its version."),
            "description": described_schema(TEXT, "What it is for."),
            "dialect": described_schema(words("v10"), "Reads the document as this dialect, whatever its shape."),
            "labels": described_schema({}, "Labels of your own."),
            "retention": described_schema(DURATION, "How long finished executions are kept."),
        },
        "name",
        "path",
        closed=False,
        doc="Who this playbook is; further keys are kept as they are.",
    )


def _keychain() -> Schema:
    entry = mapping(
        {
            "name": described_schema(TEXT | {"minLength": 1}, "Read as keychain.<name>, or named by auth."),
            "kind": described_schema(
                TEXT | {"minLength": 1}, "secret_manager, postgres_credential, env, file, oauth2, …"
            ),
        },
        "name",
        "kind",
        closed=False,
    )
    return described_schema(array(entry), "Credentials this playbook needs.")


def _executor() -> Schema:
    spec = mapping(
        {
            "policy": ref("executor_policy"),
            "entry_step": described_schema(TEXT, "The step to begin with; start when left out."),
            "unguarded": described_schema(words("always"), "Arcs without when take failures too."),
            "pool": described_schema(TEXT, "Workers that may run it."),
            "concurrency": ref("concurrency"),
            "lease": ref("lease"),
        },
        closed=False,
        doc="Options of the execution; further keys are defaults for all tasks.",
    )
    kinds = words("local", "distributed")
    return mapping(
        {
            "kind": described_schema(kinds, "Where it runs."),
            "profile": described_schema(kinds, "The same as kind."),
            "version": SCALAR,
            "spec": steps.with_knobs(spec),
        },
        doc="Where and under which defaults the playbook runs.",
    )


def _workbook() -> Schema:
    """The three spellings of DOC-09; a task may stand under a `tool` of its own (design.md §5)."""
    task = {
        "if": {"required": ["tool"], "not": {"required": ["kind"]}},
        "then": mapping({"name": TEXT, "desc": TEXT, "tool": ref("task")}, "tool"),
        "else": ref("task"),
    }
    by_name: Schema = {"type": "object", "additionalProperties": task}
    wrapped = mapping({"tasks": by_name}, "tasks")
    listed = {"type": "object", "required": ["name"], **task}
    return {"description": "Reusable tasks by name.", "anyOf": [wrapped, by_name, array(listed)]}


def _trigger() -> Schema:
    spec = mapping(
        {
            "timezone": described_schema(TEXT, "Zone of the schedule: America/New_York."),
            "missed": words("all", "last", "none"),
            "overlap": words("skip", "queue", "allow", "cancel"),
            "jitter": DURATION,
            "paused": described_schema(FLAG, "Begins paused: starts nothing until it is resumed."),
        }
    )
    cron = described_schema(TEXT, "Five fields: minute, hour, day of month, month, day of week.")
    timer = mapping({"cron": cron, "spec": spec}, "cron")
    return mapping({"timer": timer}, "timer", doc="Starts the playbook by the clock.")
