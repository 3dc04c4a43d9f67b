"""Playbook: a document as its author wrote it, understood but not yet lowered.

The readers (`v10`, `v2_eval`, `v2_case`) check shapes and fill these; the compiler turns them into a `Net`.
Every authored value stays a `Node`, so that whatever is wrong with it later can be shown in place. The fields
of older dialects (`case`, `retry`, `sink`, `vars`, `set_vars` …) are empty in a v10 document.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from noetl.document.nodes import Mapping, Node, Scalar
from noetl.source import Source, Span


class Dialect(StrEnum):
    """How a document is written. `rules`: the dialect by whose rules it runs."""

    V10 = "v10"
    V10_IO = "v10-io"  # another spelling of v10
    V2_EVAL = "v2-eval"
    V2_CASE = "v2-case"

    @property
    def rules(self) -> Dialect:
        return Dialect.V10 if self is Dialect.V10_IO else self


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """Something written in the document; `node` is where."""

    node: Node

    @property
    def path(self) -> str:
        return self.node.path

    @property
    def span(self) -> Span:
        return self.node.span


class Then(_Part, frozen=True, kw_only=True):
    """What a task policy rule does. Fields that may be templates stay nodes."""

    do: str = "continue"  # retry | jump | continue | break | fail
    to: Scalar | None = None
    attempts: Node | None = None
    backoff: str | None = None  # none | linear | exponential (`fixed` is read as none)
    delay: Node | None = None
    max_delay: Node | None = None
    jitter: Node | None = None
    on_exhausted: str | None = None  # continue | fail
    set_iter: Mapping | None = None
    set_ctx: Mapping | None = None
    set_vars: Mapping | None = None
    set_shared: Mapping | None = None
    set_prev: Node | None = None


class Rule(_Part, frozen=True, kw_only=True):
    """`when` is None for else."""

    when: Scalar | None
    then: Then


class Policy(_Part, frozen=True, kw_only=True):
    """A task's outcome policy. `strict` (v2-eval): an unmatched error fails, whatever on_unmatched says."""

    rules: tuple[Rule, ...]
    on_unmatched: str | None = None  # continue | fail
    strict: bool = False
    before: tuple[Task, ...] = ()
    after: tuple[Task, ...] = ()
    finally_: tuple[Task, ...] = ()


class Task(_Part, frozen=True, kw_only=True):
    """One tool call. `inputs` are its keys but name, kind, desc, spec and policy; `name` is None if not given.

    The last fields are the compiler's: `generated` names the sugar a task was made from, `bound` holds the args of
    the workbook references it was reached through (outermost first), `knobs` the options written beside kind.
    """

    name: str | None
    kind: str
    inputs: dict[str, Node]
    spec: Mapping | None = None  # as written, policy included
    policy: Policy | None = None
    name_node: Scalar | None = None
    kind_node: Scalar | None = None
    generated: str | None = None  # choose | while | until
    bound: tuple[Mapping, ...] = ()
    knobs: dict[str, Node] = {}


class Branch(_Part, frozen=True, kw_only=True):
    """A branch of `choose` (`when` None for else)."""

    when: Scalar | None
    body: tuple[Task | Sugar, ...]


class Sugar(_Part, frozen=True, kw_only=True):
    """choose (several branches), while and until (one each), expanded by the compiler (SUGAR-01…05)."""

    construct: str  # choose | while | until
    name: str | None
    branches: tuple[Branch, ...]
    max_rounds: Node | None = None
    name_node: Scalar | None = None


class Loop(_Part, frozen=True, kw_only=True):
    """One level of a loop; `inner` is the loop inside it (LOOP-07)."""

    items: Node  # `in`
    iterator: Scalar
    spec: Mapping | None = None  # as written; policy included
    mode: str = "sequential"  # sequential | parallel
    max_in_flight: Node | None = None
    on_error: str | None = None  # v2-case: fail | continue
    inner: Loop | None = None


class AdmitRule(_Part, frozen=True, kw_only=True):
    when: Scalar | None
    allow: bool
    park: bool = False
    set_token: Mapping | None = None


class Admit(_Part, frozen=True, kw_only=True):
    rules: tuple[AdmitRule, ...]
    mode: str = "exclusive"


class Arc(_Part, frozen=True, kw_only=True):
    """A way to the next step. `template` says that the target is computed (v2-case only)."""

    target: Scalar
    when: Scalar | None = None
    args: Mapping | None = None
    set_ctx: Mapping | None = None
    spec: Mapping | None = None
    template: bool = False


class Router(_Part, frozen=True, kw_only=True):
    arcs: tuple[Arc, ...]
    mode: str = "exclusive"
    spec: Mapping | None = None  # as written


class Timer(_Part, frozen=True, kw_only=True):
    id: Node | None = None
    duration: Node | None = None
    until: Node | None = None
    cancellable: bool = False


class Message(_Part, frozen=True, kw_only=True):
    name: Node
    correlation: Mapping | None = None
    timeout: Node | None = None
    timeout_action: str = "escalate"  # escalate | fail | ignore


class Signal(_Part, frozen=True, kw_only=True):
    name: Node


class FormField(_Part, frozen=True, kw_only=True):
    field: str
    type: str = "string"
    options: tuple[Node, ...] = ()
    required: bool = False
    default: Node | None = None


class HumanTask(_Part, frozen=True, kw_only=True):
    title: Node | None = None
    role: Node | None = None
    user: Node | None = None
    form: tuple[FormField, ...] = ()
    due_date: Node | None = None
    escalate_after: Node | None = None
    escalate_to_role: Node | None = None
    escalate_to_user: Node | None = None
    escalation_mode: str = "reassign"  # reassign | notify


class Timeout(_Part, frozen=True, kw_only=True):
    duration: Node
    on_timeout: str = "fail"  # alternative | fail | ignore
    alternative: Scalar | None = None


class Compensate(_Part, frozen=True, kw_only=True):
    tasks: tuple[Task, ...]
    idempotent: bool = False


class Handler(_Part, frozen=True, kw_only=True):
    event: Scalar
    when: Scalar | None
    tasks: tuple[Task | Sugar, ...]


class OnEvent(_Part, frozen=True, kw_only=True):
    handlers: tuple[Handler, ...]
    interrupting: bool = False


# v2-case only ---------------------------------------------------------------------------------------------------


class Collect(_Part, frozen=True, kw_only=True):
    path_text: str
    into: str
    strategy: str = "append"  # append | push | replace | merge


class Retry(_Part, frozen=True, kw_only=True):
    """One retry policy of a v2-case step (V2C-16…19). `when` None: on errors."""

    when: Scalar | None
    max_attempts: Node | None = None
    initial_delay: Node | None = None
    multiplier: Node | None = None
    max_delay: Node | None = None
    mode: str | None = None  # exponential | linear | fixed (mapping form)
    jitter: Node | None = None
    on_exhausted: str | None = None
    next_call: Mapping | None = None
    collect: Collect | None = None
    sink: Task | None = None


class Transition(_Part, frozen=True, kw_only=True):
    """A `next` task: where a case rule leads."""

    targets: tuple[Arc, ...]
    delay: Node | None = None
    guard: Scalar | None = None
    trigger_compensation: bool = False


class SetVars(_Part, frozen=True, kw_only=True):
    values: Mapping


Action = Task | Transition | SetVars


class CaseRule(_Part, frozen=True, kw_only=True):
    """`when` None for else. `strict` and `cache` are the condition's spec (TPL-04)."""

    when: Scalar | None
    actions: tuple[Action, ...]
    strict: bool = False
    cache: bool = False
    retry: tuple[Retry, ...] = ()


class Case(_Part, frozen=True, kw_only=True):
    rules: tuple[CaseRule, ...]


# -----------------------------------------------------------------------------------------------------------------


class Step(_Part, frozen=True, kw_only=True):
    """One step. Everything optional is None or empty when it was not written."""

    node: Mapping
    name: str
    name_node: Scalar
    desc: str | None = None
    spec: Mapping | None = None  # as written; its parts below are read from it
    args: Mapping | None = None
    set_ctx: Mapping | None = None
    result: Mapping | None = None
    admit: Admit | None = None
    loop: Loop | None = None
    tasks: tuple[Task | Sugar, ...] = ()
    single: bool = False  # `tool` was one mapping, not a list (TASK-03)
    router: Router | None = None
    timer: Timer | None = None
    message: Message | None = None
    signal: Signal | None = None
    human_task: HumanTask | None = None
    timeout: Timeout | None = None
    compensate: Compensate | None = None
    on_event: OnEvent | None = None
    # v2-case
    case: Case | None = None
    case_mode: str = "exclusive"
    eval_mode: str = "on_entry"
    on_error: str | None = None  # fail | continue
    retry: tuple[Retry, ...] = ()
    sink: Task | None = None
    vars: Mapping | None = None


class KeychainEntry(_Part, frozen=True, kw_only=True):
    node: Mapping
    name: str
    kind: str


class Executor(_Part, frozen=True, kw_only=True):
    """`kind` is local or distributed (its synonym `profile` is already resolved)."""

    kind: str | None = None
    version: str | None = None
    spec: Mapping | None = None


class Trigger(_Part, frozen=True, kw_only=True):
    cron: Scalar
    timezone: Scalar | None = None
    spec: Mapping | None = None


class Playbook(_Part, frozen=True, kw_only=True):
    """A whole document, of one dialect."""

    node: Mapping
    dialect: Dialect
    api_version: str
    strict: bool = False  # --strict: unknown keys are errors under noetl.io/v2 too
    source: Source | None = None  # the text, for places inside block scalars
    name: str
    catalog_path: str  # metadata.path
    version: str | None = None
    description: str | None = None
    metadata: Mapping | None = None
    keychain: tuple[KeychainEntry, ...] = ()
    executor: Executor | None = None
    workload: Mapping | None = None
    ctx: Mapping | None = None  # the initial context
    workbook: dict[str, Task] = {}
    trigger: Trigger | None = None
    steps: tuple[Step, ...] = ()
