"""Tool kinds as the checker sees them: names, inputs and schemas, no code (docs/style.md §1). Also the pieces of JSON
Schema that inputs of several kinds share.

The compiler gets a table of these, so that checking a file imports no driver. `noetl.tools` builds the table; the
editor's JSON Schema and docs/tools/ are made from the same declarations. Schemas describe rendered values;
`noetl.language.grammar` adds "or a template" to each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class NeededInput(msgspec.Struct, frozen=True):
    """The input `name` must be there when another has one of `values`; with `beside`, only where that is there too."""

    name: str
    values: tuple[str, ...]
    beside: str = ""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a task. `schema` is JSON Schema for its value, before templates are allowed for."""

    name: str
    schema: dict[str, Any] = {}
    doc: str = ""
    required: bool = False
    from_name: bool = False  # the task's own name, where the input is left out
    aliases: tuple[str, ...] = ()  # accepted spellings; the compiler renames them to `name` with an I_ALIAS note
    verbatim: bool = False  # never rendered as a template (python's code)
    sql: bool = False  # SQL text: templates in value positions are bound (design.md §8)
    quoted: bool = False  # command text: each template value is one argument (design.md §8)
    prose: bool = False  # words for people or models: a form asks for several lines of text
    read_strictly: bool = False  # a value that is written out is checked against the schema
    needs: NeededInput | None = None  # another input that some values of this one ask for
    credential: bool = False  # of a plug-in: it names credentials, which the server then gives to its tasks


class BoundInputs(msgspec.Struct, frozen=True):
    """The inputs of a kind whose templates are never pasted in as text (design.md §8)."""

    sql: frozenset[str] = frozenset()  # each value becomes a parameter of the statement
    commands: frozenset[str] = frozenset()  # each value becomes one argument of the command


NOTHING_BOUND = BoundInputs()


class TriggerKind(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs and the items of a trigger of a kind: its tool has a method `poll`."""

    doc: str  # the source of starts
    item: str  # the contents of `workload.item`
    inputs: tuple[Input, ...] = ()


class ToolKind(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs and options of a kind.

    `one_of`: groups of inputs of which at least one must be present. `plugin`: the kind is of a plug-in that cannot be
    imported here; the text says what would run it. `unwraps`: the payload of its result is the `data` member (O-22).
    `result_keys`: members that each of its results has; none where they are not known. `defaults`: kind defaults of the
    effective spec (SPEC-02). `open_inputs`: further keys are passed on unchecked.
    """

    name: str
    doc: str = ""
    inputs: tuple[Input, ...] = ()
    spec: tuple[Input, ...] = ()  # knobs it reads from its effective spec, besides COMMON_SPEC
    one_of: tuple[tuple[str, ...], ...] = ()
    plugin: str | None = None
    unwraps: bool = False
    result_keys: tuple[str, ...] = ()
    defaults: dict[str, Any] = {}
    open_inputs: bool = False
    error_kinds: tuple[str, ...] = ()  # of the errors it ends with, besides COMMON_ERRORS; empty: unknown
    credential_types: tuple[str, ...] = ()  # of stored credentials that its tool can try (`check`)
    error_aliases: tuple[str, ...] = ()  # further names of some of them for policies
    policy_doc: str = ""  # executor.spec.policy.NAME holds hints for all its tasks: their description
    # Values of `op` that submit a job which runs on after the task has ended; "" where `op` is left out (SRV-11).
    job_ops: tuple[str, ...] = ()
    trigger: TriggerKind | None = None  # items that its tool finds can start playbooks

    @property
    def takes_anything(self) -> bool:
        """Whether any key is passed on. The inputs of a plug-in that is not installed are unknown (design.md §5)."""
        return self.open_inputs or self.plugin is not None

    @property
    def bound_inputs(self) -> BoundInputs:
        return BoundInputs(
            sql=frozenset(one.name for one in self.inputs if one.sql),
            commands=frozenset(one.name for one in self.inputs if one.quoted),
        )

    def input(self, name: str) -> Input | None:
        """The input called `name`, or having it as an alias."""
        return next((i for i in self.inputs if i.name == name or name in i.aliases), None)


Kinds = Mapping[str, ToolKind]


def has_policy(kinds: Kinds, name: str) -> bool:
    """Whether `name` is a kind that reads hints from `executor.spec.policy.NAME`."""
    return name in kinds and bool(kinds[name].policy_doc)


# Kinds of errors that a task of any kind may end with (requirements.md §5).
COMMON_ERRORS = (
    *("template.error", "timeout", "deadline", "tool.exception", "tool.not_allowed", "tool.unknown_kind"),
    *("keychain.unresolved", "result.missing", "result.corrupt", "result.schema", "result.too_large"),
    *("lease.lost", "cancelled"),
)
# How a step can end besides with the error of one of its tasks.
STEP_ERRORS = (
    *(
        "policy.fail",
        "retry.exhausted",
        "pipeline.budget",
        "execution.budget",
        "execution.input",
        "loop.collection",
        "loop.reduce",
    ),
    *("ctx.conflict", "join.unfilled", "message.timeout", "route.target", "tool.unreachable", "compensation.failed"),
)


# Options of every kind's effective spec (SPEC-05); `policy` is not an option and is read in its place (SPEC-03).
COMMON_SPEC: tuple[Input, ...] = (
    Input(
        name="timeout",
        schema={
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {
                        part: {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]}
                        for part in ("connect", "read", "total")
                    },
                    "additionalProperties": False,
                },
            ]
        },
        doc="Longest time of one task run: seconds, duration text, or {connect, read}.",
    ),
    Input(
        name="retry",
        schema={
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {
                    "type": "object",
                    "properties": {
                        "attempts": {"type": "integer", "minimum": 1},
                        "delay": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]},
                        "backoff": {"type": "string", "enum": ["none", "linear", "exponential"]},
                    },
                    "additionalProperties": False,
                },
            ]
        },
        doc="Runs the tool again after any error, before the policy sees the outcome: how many runs, or "
        "{attempts, delay, backoff}.",
    ),
    Input(
        name="resources",
        schema={"type": "object"},
        doc="Limits of its process: {memory, cpu_time, file_size, open_files, processes}, of python, shell, script, "
        "dbt, dlt, dask and ray; memory, of duckdb and convert, too; {memory, cpus, processes}, of container. Further "
        "keys, and those of other kinds, are hints that nothing acts on.",
    ),
    Input(name="async", schema={"type": "boolean"}, doc="Report success once accepted, go on, and await it later."),
    Input(
        name="on_lost",
        schema={"type": "string", "enum": ["retry", "fail"]},
        doc="What happens to a task run whose worker was lost; retry when left out.",
    ),
    Input(name="result_schema", schema={"type": "string"}, doc="Registered schema the result must have."),
    Input(
        name="result",
        schema={"type": "object"},
        doc="Where the result is kept, and which fields stay inline: {store: {kind}, output_select: [paths]}.",
    ),
)


Schema = dict[str, Any]

ANYTHING: Schema = {}
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 1}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
TEXTS: Schema = {"type": "array", "items": TEXT}
TEXT_OR_TEXTS: Schema = {"anyOf": [TEXT, TEXTS]}
DURATION: Schema = {"anyOf": [{"type": "number", "minimum": 0}, TEXT]}


def one_of(*words: str) -> Schema:
    """The schema of a text that must be one of `words`."""
    return {"type": "string", "enum": list(words)}


def script_source(*places: str) -> Schema:
    """The schema of code in another place: `{uri, source: {type: file}}`; the tool can read it from `places`."""
    source = {"anyOf": [one_of(*places), {"type": "object", "properties": {"type": one_of(*places)}}]}
    reference = {"type": "object", "properties": {"uri": TEXT, "source": source}, "required": ["uri"]}
    return {"anyOf": [TEXT, reference]}


_AUTH_FORMS = "the name of a credential, {credential: NAME}, or its fields"
AUTH = Input(
    name="auth",
    schema={"anyOf": [TEXT, {**OBJECT, "minProperties": 1}], "description": _AUTH_FORMS},
    read_strictly=True,
    doc="Name of a keychain entry or stored credential.",
    aliases=("credential", "credentials", "connection"),
)
ARGS = Input(name="args", schema=OBJECT, doc="Arguments by name.")
