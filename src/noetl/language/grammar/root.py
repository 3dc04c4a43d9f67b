"""The root of a playbook and its sections: identity, credentials, executor, workbook, trigger."""

from __future__ import annotations

from noetl.language.grammar import model, policies, steps, tasks
from noetl.language.grammar.model import ONLY_V2_CASE, Construct, Key, RenderedAt, Unknown
from noetl.language.grammar.policies import EXECUTOR_POLICY
from noetl.language.grammar.steps import CONCURRENCY, LEASE
from noetl.net.kinds import Kinds
from noetl.net.net import DESTINATIONS, EVENTS
from noetl.templates.scope import TemplateSite

API_V2, API_V10 = "noetl.io/v2", "noetl.io/v10"

# The root `on`: events, and the destinations to notify (NTF-01).
_ADDRESSES: model.Schema = {"anyOf": [model.TEXT, model.array(model.TEXT)]}
_OPTIONS = {
    "to": Key("to", _ADDRESSES, "E-mail addresses."),
    "cc": Key("cc", _ADDRESSES, "Addresses that get a copy."),
    "bcc": Key("bcc", _ADDRESSES, "Addresses that get a copy and are not shown to the others."),
    "from": Key("from", model.TEXT, "The sender; else the one of the credential."),
    "reply_to": Key("reply_to", model.TEXT, "Address that answers go to."),
    "url": Key("url", model.TEXT, "Address of the webhook; it may be in the credential instead."),
    "auth": Key("auth", model.TEXT, "Name of the credential."),
    "headers": Key("headers", model.FREE, "Further headers of the request."),
}
DESTINATION = {
    kind: Construct(kind, tuple(_OPTIONS[option] for option in options)) for kind, options in DESTINATIONS.items()
}
_PLACE = model.mapping({kind: construct.schema() for kind, construct in DESTINATION.items()})
_NOTICE = RenderedAt(TemplateSite.NOTICE, "a notice")
_KEYS = (
    Key("notify", {"anyOf": [model.array(_PLACE, minItems=1), _PLACE]}, "Where the notice is sent.", required=True),
    Key("throttle", model.DURATION, "Repeats within this time become one notice with their count."),
    Key(
        "subject", model.TEXT, "Template of the subject; it reads notice, execution, error and task.", rendered=_NOTICE
    ),
    Key("text", model.TEXT, "Template of the text; it reads notice, execution, error and task.", rendered=_NOTICE),
)
_AFTER = Key("after", model.DURATION, "The expected duration: an open execution that is older is late.", required=True)
NOTIFICATION = {name: Construct(f"on.{name}", (_AFTER, *_KEYS) if name == "late" else _KEYS) for name in EVENTS}
_HAPPENS = {
    "failed": "An execution failed.",
    "completed": "An execution completed.",
    "cancelled": "An execution was cancelled.",
    "late": "An execution is still open after its expected duration.",
    "task_assigned": "A human task was created, or passed to somebody else.",
    "task_overdue": "A human task passed its due date.",
}
ON = Construct(
    "on",
    tuple(Key(name, NOTIFICATION[name], _HAPPENS[name]) for name in EVENTS),
    doc="Notifications that servers send when an execution fails, completes, is late or assigns a task.",
)


NAME = model.TEXT | {"minLength": 1}
PLACES = model.words("local", "distributed")


def _workbook() -> model.Schema:
    """The three spellings of DOC-09; a task may be nested under its own `tool` (design.md §5)."""
    task = {
        "if": {"required": ["tool"], "not": {"required": ["kind"]}},
        "then": WORKBOOK_TASK.schema(),
        "else": model.ref("task"),
    }
    by_name: model.Schema = {"type": "object", "additionalProperties": task}
    wrapped = model.mapping({"tasks": by_name}, "tasks")
    listed = {"type": "object", "required": ["name"], **task}
    return {"anyOf": [wrapped, by_name, model.array(listed)]}


METADATA = Construct(
    "metadata",
    (
        Key("name", NAME, "Name of the playbook.", required=True),
        Key("path", NAME, "Its path in the catalogue.", required=True),
        Key("version", model.SCALAR, "Its version."),
        Key("description", model.TEXT, "What it is for."),
        Key("dialect", model.words("v10"), "Reads the document as this dialect, whatever its shape."),
        Key("labels", {}, "Labels of your own."),
        Key("retention", model.DURATION, "How long finished executions are kept."),
    ),
    doc="Who this playbook is; further keys are kept as they are.",
    unknown=Unknown.KEPT,
)
# Those that are built in (`secrets/contract.py`); plug-ins bring others.
KEYCHAIN_KINDS = (
    *("credential", "env", "file", "static", "secret_manager", "postgres_credential", "bearer", "basic", "oauth2"),
)
KEYCHAIN_ENTRY = Construct(
    "a keychain entry",
    (
        Key("name", NAME, "Read as keychain.<name>, or named by auth.", required=True),
        Key("kind", NAME, f"{', '.join(KEYCHAIN_KINDS)}, or one of a plug-in.", required=True),
    ),
    unknown=Unknown.KEPT,
)
EXECUTOR_SPEC = Construct(
    "executor.spec",
    (
        Key("policy", EXECUTOR_POLICY, "Limits, defaults, how results are kept, and what a failure leads to."),
        Key("entry_step", model.TEXT, "The step to begin with; start when left out."),
        Key(
            "required_inputs",
            model.array(model.STATIC),
            "Inputs that every start must give; without one of them it is refused.",
        ),
        Key("unguarded", model.words("always"), "Arcs without when take failures too."),
        Key(
            "pool",
            model.TEXT,
            "Workers that may run it.",
            rendered=RenderedAt(TemplateSite.INITIAL_CTX, "executor.spec.pool"),
        ),
        Key("concurrency", CONCURRENCY, rendered=RenderedAt(TemplateSite.INITIAL_CTX, "executor.spec.concurrency")),
        Key("lease", LEASE, "How long a worker may hold an order without renewing it, for all steps."),
    ),
    doc="Options of the execution; further keys are defaults for all tasks.",
    unknown=Unknown.KEPT,
    rules=model.with_knobs(),
)
EXECUTOR = Construct(
    "the executor",
    (
        Key("kind", PLACES, "Where it runs."),
        Key("profile", PLACES, "The same as kind."),
        Key("version", model.SCALAR, "A hint for people that is kept with the net; nothing acts on it."),
        Key("spec", EXECUTOR_SPEC),
    ),
    doc="Where and under which defaults the playbook runs.",
    unknown=Unknown.WARNED,
)
WORKBOOK_TASK = Construct(
    "a workbook task with a tool",
    (Key("name", model.TEXT), Key("desc", model.TEXT), Key("tool", model.ref("task"), required=True)),
    unknown=Unknown.WARNED,
)
TRIGGER_SPEC = Construct(
    "trigger.timer.spec",
    (
        Key("timezone", model.TEXT, "Zone of the schedule: America/New_York."),
        Key(
            "missed",
            model.words("all", "last", "none"),
            "What is made up for after no server ran: every time, the last one (when left out), or none.",
        ),
        Key(
            "overlap",
            model.words("skip", "queue", "allow", "cancel"),
            "What happens while the execution before still runs: allow (when left out), skip this time, queue it, or "
            "cancel the other.",
        ),
        Key("jitter", model.DURATION, "The longest random delay of a start."),
        Key("paused", model.FLAG, "Begins paused: starts nothing until it is resumed."),
    ),
)
TRIGGER_TIMER = Construct(
    "trigger.timer",
    (
        Key("cron", model.TEXT, "Five fields: minute, hour, day of month, month, day of week.", required=True),
        Key("spec", TRIGGER_SPEC, "Time zone, missed and overlapping times, jitter."),
    ),
)
TRIGGER = Construct(
    "trigger", (Key("timer", TRIGGER_TIMER, "The schedule.", required=True),), doc="Starts the playbook by the clock."
)
ROOT = Construct(
    "a playbook",
    (
        Key("apiVersion", model.words(API_V10, API_V2), "Version of the language.", required=True),
        Key("kind", {"const": "Playbook"}, "Always Playbook.", required=True),
        Key("name", NAME, "Name of the playbook, where v2-case writes it.", dialects=ONLY_V2_CASE),
        Key("path", NAME, "Its path in the catalogue, where v2-case writes it.", dialects=ONLY_V2_CASE),
        Key("metadata", METADATA, required=True),
        Key("keychain", KEYCHAIN_ENTRY, "Credentials this playbook needs.", items=True),
        Key("executor", EXECUTOR),
        Key("trigger", TRIGGER),
        Key("on", ON),
        Key("workload", model.FREE, "Defaults of the input; literal data, never templates."),
        Key(
            "ctx",
            model.FREE,
            "What the context begins with; templates read workload.",
            rendered=RenderedAt(TemplateSite.INITIAL_CTX, "ctx", names=True, into_ctx=True),
        ),
        Key("workbook", _workbook(), "Reusable tasks by name."),
        Key(
            "workflow",
            model.array(model.ref("step"), minItems=1),
            "The steps; execution begins at the one named start.",
            required=True,
            last=True,
        ),
    ),
    doc="A workflow: steps joined by guarded arcs, each a pipeline of tasks.",
    unknown=Unknown.WARNED,
)


# The JSON Schema (draft 2020-12) of a playbook in its canonical v10 form (DOC-13).


def playbook_schema(kinds: Kinds) -> model.Schema:
    """The schema for these tool kinds."""
    shared = (*policies.SHARED, *steps.SHARED)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "NoETL playbook (v10)",
        **ROOT.schema(),
        "$defs": {
            "template": model.TEMPLATE,
            "guard": model.described_schema(model.GUARD, "A condition: a template, or true or false."),
            **{construct.ref: construct.schema() for construct in shared},
            "executor_policy": policies.executor_policy(kinds).schema(),
            "join": steps.JOIN_FORMS,
            **tasks.definitions(kinds),
        },
    }
