"""Playbook: a document as its author wrote it, understood but not yet lowered.

The readers (`reader.py`, `language/v2_case/reader.py`) check shapes and fill these; the compiler makes a `Net` of them.
Every authored value stays a `Node`, so that a later mistake can be shown in its place. The fields of older dialects
(`case`, `retry`, `sink`, `vars`, `set_vars` …) are empty in a v10 document.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from noetl.base.diagnostics import Source, Span
from noetl.language.reading.nodes import Mapping, Node, Scalar


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
    """The action of a task policy rule. Fields that may be templates stay nodes."""

    do: str = "continue"  # retry | jump | continue | break | fail
    to: Scalar | None = None
    attempts: Node | None = None
    backoff: str | None = None  # none | linear | exponential (`fixed` is read as none)
    delay: Node | None = None
    max_delay: Node | None = None
    jitter: Node | None = None
    on_exhausted: str | None = None  # continue | fail
    error: Node | None = None  # of fail
    set_iter: Mapping | None = None
    set_ctx: Mapping | None = None
    set_vars: Mapping | None = None
    set_shared: Mapping | None = None
    set_prev: Node | None = None


class RuleSyntax(_Part, frozen=True, kw_only=True):
    """`when` is None for else."""

    when: Scalar | None
    then: Then


class PolicySyntax(_Part, frozen=True, kw_only=True):
    """A task's outcome policy. `strict` (v2-eval): an unmatched error fails, regardless of on_unmatched."""

    rules: tuple[RuleSyntax, ...]
    on_unmatched: str | None = None  # continue | fail
    strict: bool = False
    before: tuple[TaskSyntax, ...] = ()
    after: tuple[TaskSyntax, ...] = ()
    finally_: tuple[TaskSyntax, ...] = ()


class TaskSyntax(_Part, frozen=True, kw_only=True):
    """One tool call. `inputs` are its keys but name, kind, desc, spec and policy; `name` is None if not given.

    The last fields are the compiler's: `generated` names the sugar a task was made from, `bound` holds the args of
    the workbook references it was reached through (outermost first), `knobs` the options written beside kind.
    """

    name: str | None
    kind: str
    inputs: dict[str, Node]
    spec: Mapping | None = None  # as written, policy included
    policy: PolicySyntax | None = None
    name_node: Scalar | None = None
    kind_node: Scalar | None = None
    generated: str | None = None  # choose | while | until
    bound: tuple[Mapping, ...] = ()
    knobs: dict[str, Node] = {}


class Branch(_Part, frozen=True, kw_only=True):
    """A branch of `choose` (`when` None for else)."""

    when: Scalar | None
    body: tuple[TaskSyntax | Sugar, ...]


class Sugar(_Part, frozen=True, kw_only=True):
    """choose (several branches), while and until (one each), expanded by the compiler (SUGAR-01…05)."""

    construct: str  # choose | while | until
    name: str | None
    branches: tuple[Branch, ...]
    max_rounds: Node | None = None
    name_node: Scalar | None = None


class LoopSyntax(_Part, frozen=True, kw_only=True):
    """One level of a loop; `inner` is the loop inside it (LOOP-07)."""

    items: Node  # `in`
    iterator: Scalar
    spec: Mapping | None = None  # as written; policy included
    mode: str = "sequential"  # sequential | parallel
    max_in_flight: Node | None = None
    on_error: str | None = None  # v2-case: fail | continue
    inner: LoopSyntax | None = None


class AdmitRuleSyntax(_Part, frozen=True, kw_only=True):
    when: Scalar | None
    allow: bool
    park: bool = False
    set_token: Mapping | None = None


class Admit(_Part, frozen=True, kw_only=True):
    rules: tuple[AdmitRuleSyntax, ...]
    mode: str = "exclusive"


class ArcSyntax(_Part, frozen=True, kw_only=True):
    """A way to the next step. `template` says that the target is computed (v2-case only)."""

    target: Scalar
    when: Scalar | None = None
    args: Mapping | None = None
    set_ctx: Mapping | None = None
    spec: Mapping | None = None
    template: bool = False


class RouterSyntax(_Part, frozen=True, kw_only=True):
    arcs: tuple[ArcSyntax, ...]
    mode: str = "exclusive"
    spec: Mapping | None = None  # as written


class TimerSyntax(_Part, frozen=True, kw_only=True):
    id: Node | None = None
    duration: Node | None = None
    until: Node | None = None
    cancellable: bool = False


class MessageSyntax(_Part, frozen=True, kw_only=True):
    name: Node
    correlation: Mapping | None = None
    timeout: Node | None = None
    timeout_action: str = "escalate"  # escalate | fail | ignore


class SignalSyntax(_Part, frozen=True, kw_only=True):
    name: Node


class FormFieldSyntax(_Part, frozen=True, kw_only=True):
    field: str
    type: str = "string"
    options: tuple[Node, ...] = ()
    required: bool = False
    default: Node | None = None


class HumanTaskSyntax(_Part, frozen=True, kw_only=True):
    title: Node | None = None
    description: Node | None = None
    data: Node | None = None
    role: Node | None = None
    user: Node | None = None
    form: tuple[FormFieldSyntax, ...] = ()
    due_date: Node | None = None
    escalate_after: Node | None = None
    escalate_to_role: Node | None = None
    escalate_to_user: Node | None = None
    escalation_mode: str = "reassign"  # reassign | notify


class TimeoutSyntax(_Part, frozen=True, kw_only=True):
    duration: Node
    on_timeout: str = "fail"  # alternative | fail | ignore
    alternative: Scalar | None = None


class Compensate(_Part, frozen=True, kw_only=True):
    tasks: tuple[TaskSyntax, ...]
    idempotent: bool = False


class HandlerSyntax(_Part, frozen=True, kw_only=True):
    event: Scalar
    when: Scalar | None
    tasks: tuple[TaskSyntax | Sugar, ...]


class OnEvent(_Part, frozen=True, kw_only=True):
    handlers: tuple[HandlerSyntax, ...]
    interrupting: bool = False


# v2-case only ---------------------------------------------------------------------------------------------------


class CollectSyntax(_Part, frozen=True, kw_only=True):
    path_text: str
    into: str
    strategy: str = "append"  # append | push | replace | merge


class RetrySyntax(_Part, frozen=True, kw_only=True):
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
    collect: CollectSyntax | None = None
    sink: TaskSyntax | None = None


class CaseExit(_Part, frozen=True, kw_only=True):
    """A `next` task: where a case rule leads."""

    targets: tuple[ArcSyntax, ...]
    delay: Node | None = None
    guard: Scalar | None = None
    trigger_compensation: bool = False


class SetVars(_Part, frozen=True, kw_only=True):
    values: Mapping


Action = TaskSyntax | CaseExit | SetVars


class CaseRuleSyntax(_Part, frozen=True, kw_only=True):
    """`when` None for else. `strict` and `cache` are the condition's spec (TPL-04)."""

    when: Scalar | None
    actions: tuple[Action, ...]
    strict: bool = False
    cache: bool = False
    retry: tuple[RetrySyntax, ...] = ()


class CaseSyntax(_Part, frozen=True, kw_only=True):
    rules: tuple[CaseRuleSyntax, ...]


# -----------------------------------------------------------------------------------------------------------------


class WaitBlocksSyntax(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks of a step that are read alike in v10 and v2-case; a block that was not written is None."""

    timer: TimerSyntax | None = None
    message: MessageSyntax | None = None
    signal: SignalSyntax | None = None
    human_task: HumanTaskSyntax | None = None
    timeout: TimeoutSyntax | None = None
    compensate: Compensate | None = None
    on_event: OnEvent | None = None


class CaseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `spec` that only v2-case has."""

    case_mode: str = "exclusive"  # exclusive | inclusive
    eval_mode: str = "on_entry"  # on_entry | on_event
    on_error: str | None = None  # fail | continue


class StepSyntax(_Part, frozen=True, kw_only=True):
    """One step. Everything optional is None or empty when it was not written."""

    node: Mapping
    name: str
    name_node: Scalar
    desc: str | None = None
    # As written. Several fields below are read from it.
    spec: Mapping | None = None
    args: Mapping | None = None
    set_ctx: Mapping | None = None
    result: Mapping | None = None
    admit: Admit | None = None
    loop: LoopSyntax | None = None
    tasks: tuple[TaskSyntax | Sugar, ...] = ()
    # `tool` was one mapping, not a list (TASK-03).
    single: bool = False
    router: RouterSyntax | None = None
    blocks: WaitBlocksSyntax = WaitBlocksSyntax()
    # v2-case
    case: CaseSyntax | None = None
    options: CaseOptions = CaseOptions()
    retry: tuple[RetrySyntax, ...] = ()
    sink: TaskSyntax | None = None
    vars: Mapping | None = None


class KeychainEntrySyntax(_Part, frozen=True, kw_only=True):
    node: Mapping
    name: str
    kind: str


class ExecutorSyntax(_Part, frozen=True, kw_only=True):
    """`kind` is local or distributed (its synonym `profile` is already resolved)."""

    kind: str | None = None
    version: str | None = None
    spec: Mapping | None = None


class TriggerSyntax(_Part, frozen=True, kw_only=True):
    cron: Scalar
    timezone: Scalar | None = None
    spec: Mapping | None = None


class DestinationSyntax(_Part, frozen=True, kw_only=True):
    """Where a notice goes; `node` holds its options."""

    node: Mapping
    kind: str  # email | webhook | slack | teams


class NotificationSyntax(_Part, frozen=True, kw_only=True):
    """One event of `on`, and where its notice is sent."""

    event: str
    notify: tuple[DestinationSyntax, ...] = ()
    after: Scalar | None = None  # late only
    throttle: Scalar | None = None
    subject: Scalar | None = None
    text: Scalar | None = None


class Playbook(_Part, frozen=True, kw_only=True):
    """A whole document, of one dialect."""

    node: Mapping
    dialect: Dialect
    api_version: str
    # --strict: unknown keys are errors under noetl.io/v2 too.
    strict: bool = False
    # The text, which is needed to find places inside block scalars.
    source: Source | None = None
    name: str
    catalog_path: str  # metadata.path
    version: str | None = None
    description: str | None = None
    metadata: Mapping | None = None
    keychain: tuple[KeychainEntrySyntax, ...] = ()
    executor: ExecutorSyntax | None = None
    workload: Mapping | None = None
    ctx: Mapping | None = None  # the initial context
    workbook: dict[str, TaskSyntax] = {}
    trigger: TriggerSyntax | None = None
    notifications: tuple[NotificationSyntax, ...] = ()
    steps: tuple[StepSyntax, ...] = ()
