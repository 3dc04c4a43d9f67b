"""Net: a playbook compiled, as plain data. It serialises to JSON and back, and has a content hash. Also every task of a
transition, in any place, and further parts of a transition: waits, timeouts, handlers, compensation (TMR, MSG, HUM,
SAGA, ADV).

Nothing of the text's layout is in here, and nothing of the dialect but its name: a net runs the same in every dialect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from noetl.net.routing import Admission, Case, Join, Router
from noetl.net.task import Task, _Data, with_hooks
from noetl.templates.values import Authored


class Timer(_Data, frozen=True, kw_only=True, omit_defaults=True):
    id: Authored
    duration: Authored | None = None
    until: Authored | None = None
    cancellable: bool = False


class Message(_Data, frozen=True, kw_only=True, omit_defaults=True):
    name: Authored
    correlation: Authored = Authored({})
    timeout: Authored | None = None
    # escalate: the wait ends with `message.timeout` as its event; fail: the step fails; ignore: it waits on.
    timeout_action: str = "escalate"


class Signal(_Data, frozen=True, kw_only=True, omit_defaults=True):
    name: Authored


class FormField(_Data, frozen=True, kw_only=True, omit_defaults=True):
    field: str
    type: str = "string"
    options: tuple[Any, ...] = ()
    required: bool = False
    default: Authored | None = None


class HumanTask(_Data, frozen=True, kw_only=True, omit_defaults=True):
    title: Authored | None = None
    description: Authored | None = None
    data: Authored | None = None  # data for the decision
    role: Authored | None = None
    user: Authored | None = None
    form: tuple[FormField, ...] = ()
    due_date: Authored | None = None
    escalate_after: Authored | None = None
    escalate_to_role: Authored | None = None
    escalate_to_user: Authored | None = None
    escalation_mode: str = "reassign"


class Timeout(_Data, frozen=True, kw_only=True, omit_defaults=True):
    duration: Authored
    # alternative | fail | ignore; only `alternative` sends the token elsewhere.
    on_timeout: str = "fail"
    alternative: str | None = None


class Compensation(_Data, frozen=True, kw_only=True, omit_defaults=True):
    tasks: tuple[Task, ...]
    # Whether it may run again after its worker was lost; otherwise an operator has to decide (SAGA-03).
    idempotent: bool = False


class Handler(_Data, frozen=True, kw_only=True, omit_defaults=True):
    event: str
    when: Authored | None = None
    tasks: tuple[Task, ...] = ()


class Handlers(_Data, frozen=True, kw_only=True, omit_defaults=True):
    handlers: tuple[Handler, ...]
    # Whether the step run is stopped when its handler begins.
    interrupting: bool = False


FORMAT = 1  # of the serialised net; raised when a reader of the old form would misread the new one


class Loop(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """One loop level. The pipeline belongs to the innermost (`inner` None)."""

    items: Authored  # the collection, evaluated once when the level opens (LOOP-01)
    iterator: str  # the author's name for the element, read as `iter.NAME` and as a bare name
    parallel: bool = False
    # How many iterations may be begun and not ended; None: the executor's default.
    max_in_flight: Authored | None = None
    distributed: bool | None = None  # None: local for sequential, distributed for parallel (LOOP-11)
    # index | shuffle; `shuffle` only changes the order in which parallel iterations are handed out.
    ordering: str = "index"
    # By key of `ctx`: append, sum and others. Iterations contribute to such a key instead of writing it (LOOP-14).
    reducers: dict[str, str] = {}
    ctx_writes: str = "once"  # once | last
    # Iterations with equal keys run one after another, in one lane (LOOP-15).
    partition: Authored | None = None
    max_queue: Authored | None = None  # how many may be handed out before a worker has claimed them
    complete_when: Authored | None = None  # ends the level early once it holds
    extend: bool = False  # iterations may add elements to the collection
    inner: Loop | None = None


class Lifecycle(_Data, frozen=True, kw_only=True, omit_defaults=True):
    timeout_s: Authored | None = None
    deadline_s: Authored | None = None


class Emit(_Data, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    when: Authored | None = None
    data: Authored | None = None


class Concurrency(_Data, frozen=True, kw_only=True, omit_defaults=True):
    # A template, so that a limit may come from the workload; checked to be a whole number when it is rendered.
    limit: Authored
    key: Authored | None = None
    on_limit: str = "queue"  # queue | drop | cancel_oldest


class Rate(_Data, frozen=True, kw_only=True, omit_defaults=True):
    limit: Authored
    per: Authored
    key: Authored | None = None


class StepResult(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """Where a step's result is kept, and which fields stay inline (design.md §5)."""

    store: str | None = None  # any kind asks for a reference, at any size; None: by its size
    output_select: tuple[str, ...] = ()  # paths of fields that stay in the event when the rest is stored apart


class Transition(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """One step: what consumes a token, runs, and sends tokens on. Its fields stay side by side because nets are stored
    in this form, and the content hash of every registered playbook is computed from it."""

    name: str
    desc: str | None = None
    # What lets a token in.
    admission: Admission | None = None  # None: every token is admitted
    join: Join | None = None  # None: tokens of a fork group are admitted one by one
    # What runs.
    loop: Loop | None = None  # None: the tasks run once
    tasks: tuple[Task, ...] = ()  # in order; the pipeline
    args: Authored | None = None  # defaults, under the arguments that the token brings
    set_ctx: Authored | None = None  # step-level set_ctx, and the vars block of v2-case
    result: StepResult | None = None  # None: kept by its size
    # What the step waits for when its tasks have ended; the first one that ends withdraws the others.
    timer: Timer | None = None
    message: Message | None = None
    signal: Signal | None = None
    human_task: HumanTask | None = None
    # What runs beside the tokens.
    compensation: Compensation | None = None
    handlers: Handlers | None = None
    # Rules of v2-case.
    case: Case | None = None  # None: the step is a plain pipeline
    sink: Task | None = None  # stores the result
    # How the step ends.
    timeout: Timeout | None = None  # None: `lifecycle` alone bounds its time
    router: Router | None = None  # None: its tokens end here
    lifecycle: Lifecycle | None = None  # the times at which a run of it ends as failed
    best_effort: bool = False  # failure.mode, on_error: continue
    on_error_continue: bool = False  # v2-case spec.on_error: continue (V2C-15)
    emit: tuple[Emit, ...] = ()  # events that the author names, recorded at its end
    # Where and how often it runs. The mappings are as written: read at run time, checked when the playbook is.
    tracing: dict[str, Any] = {}
    quotas: dict[str, Any] = {}
    pool: Authored | None = None  # None: the executor's
    lease: dict[str, Any] = {}
    concurrency: Concurrency | None = None
    rate: Rate | None = None
    ends_execution: bool = False  # spec.end: execution

    @property
    def waits(self) -> bool:
        return bool(self.timer or self.message or self.signal or self.human_task)


class KeychainEntry(_Data, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    kind: str
    # Where the resolver finds it: a path, fields, a scope. Never a value.
    lookup: dict[str, Any] = {}


class Executor(_Data, frozen=True, kw_only=True, omit_defaults=True):
    kind: str | None = None
    version: str | None = None
    spec: dict[str, Any] = {}  # as written, without policy
    # `policy.limits` as written: max_step_runs, max_payload_bytes and others (O-33).
    limits: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    reference_first: bool = False  # every result is stored separately, at any size (RES-04)
    fail_fast: bool = False  # the first failure ends all other tokens (ROUTE-08)
    auto_compensate: bool = False  # a failed execution undoes what it did before it ends
    tool_policies: dict[str, Any] = {}  # by tool kind, as written: hints for all its tasks
    placement: dict[str, Any] = {}
    cost: dict[str, Any] = {}
    pool: Authored | None = None
    concurrency: Concurrency | None = None


class Trigger(_Data, frozen=True, kw_only=True, omit_defaults=True):
    cron: str
    timezone: str = "UTC"
    options: dict[str, Any] = {}  # missed, overlap, jitter, paused, as written


class Net(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """A compiled playbook. `transitions` are in YAML order; `entry` names the one that gets the start token."""

    format: int  # FORMAT, always written: a reader must see it
    dialect: str
    name: str
    path: str
    version: str | None = None
    metadata: dict[str, Any] = {}  # as written: labels, retention, description
    entry: str
    workload: dict[str, Any] = {}  # defaults; the payload of a request lies over them
    ctx: Authored | None = None  # start values of the context
    keychain: tuple[KeychainEntry, ...] = ()
    executor: Executor = Executor()
    trigger: Trigger | None = None
    notifications: tuple[Notification, ...] = ()
    transitions: tuple[Transition, ...] = ()

    @property
    def required_inputs(self) -> tuple[str, ...]:
        """The inputs that every start has to bring."""
        return tuple(self.executor.spec.get("required_inputs", ()))


# Notifications: notices of a playbook about its executions to people and other programs (NTF-01).

EVENTS = ("failed", "completed", "cancelled", "late", "task_assigned", "task_overdue")
# The options of each kind of destination; the first one is required.
DESTINATIONS = {
    "email": ("to", "auth", "cc", "bcc", "from", "reply_to"),
    "webhook": ("url", "auth", "headers"),
    "slack": ("auth",),
    "teams": ("auth",),
}


class Destination(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """Where a notice goes. `auth` of its options is the name of a credential."""

    kind: str
    options: dict[str, Any] = {}


class Notification(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """One event and where its notice is sent. `after_s`: the expected duration of `late`. With `throttle_s`, repeats
    within that time become one notice with their count."""

    event: str
    notify: tuple[Destination, ...] = ()
    after_s: float | None = None
    throttle_s: float = 0.0
    subject: Authored | None = None
    text: Authored | None = None


# Nets as JSON text, and their content hash (the key of certificates and of the catalogue's versions).

_encoder = msgspec.json.Encoder()
# Only for the hash: two texts that differ in the order of their keys are the same playbook.
_canonical = msgspec.json.Encoder(order="sorted")


def to_json(net: Net) -> bytes:
    """Mappings keep the order they were written in: a loop may run over one (LOOP-12)."""
    return _encoder.encode(net)


def from_json(text: bytes | str) -> Net:
    return _decoder().decode(text)


@cache
def _decoder() -> msgspec.json.Decoder[Net]:
    """Made when it is first used: that takes as long as importing the package, and a run that begins reads no net."""
    return msgspec.json.Decoder(Net)


def content_hash(net: Net) -> str:
    """SHA-256 of the net with all keys sorted: equal for equal nets, for any layout of the text."""
    return hashlib.sha256(_canonical.encode(net)).hexdigest()


# Every task of a transition, in any place: its pipeline, sinks, case rules, hooks, compensation, handlers.


def tasks_of(step: Transition) -> Iterable[Task]:
    """In document order, hooks after the task they belong to."""
    # Most steps have nothing around their tasks. When a net runs for the first time, ten analyses ask each step for
    # its tasks; generators would cost each of them ten times as much as the tuple that is there already.
    if step.sink is not None or step.case is not None or step.compensation is not None or step.handlers is not None:
        return _all_tasks(step)
    for task in step.tasks:
        if task.repeat or task.policy is not None:
            return _all_tasks(step)
    return step.tasks


def _all_tasks(step: Transition) -> Iterator[Task]:
    return with_hooks((*_own_tasks(step), *_side_tasks(step)))


def pipeline_of(step: Transition) -> Iterator[Task]:
    """The tasks that an order of the step may run; compensations and handlers have orders of their own."""
    return with_hooks(_own_tasks(step))


def _own_tasks(step: Transition) -> Iterator[Task]:
    yield from step.tasks
    if step.sink is not None:
        yield step.sink
    for rule in step.case.rules if step.case else ():
        yield from (action.task for action in rule.actions if action.task is not None)
        yield from (policy.sink for policy in rule.repeat if policy.sink is not None)


def _side_tasks(step: Transition) -> Iterator[Task]:
    if step.compensation is not None:
        yield from step.compensation.tasks
    for handler in step.handlers.handlers if step.handlers else ():
        yield from handler.tasks


def submitting_task(step: Transition) -> Task | None:
    """The first task, as it is written, that submits a job to a provider, which goes on when the task is over
    (QNT-01)."""
    return next((task for task in pipeline_of(step) if task.submits_job), None)
