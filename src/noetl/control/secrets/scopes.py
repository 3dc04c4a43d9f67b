"""Secret scopes: the names that a template can render to for an order, by what the server itself has recorded.

What the holder of the order has reported since does not count: neither results of its tasks nor their writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from noetl.base.diagnostics import is_template
from noetl.base.errors import NoetlError, TemplateError
from noetl.engine.execution import Execution, StepLease, StepRun
from noetl.engine.loops.levels import iterations_of
from noetl.engine.loops.state import Range
from noetl.engine.pipeline import preparation
from noetl.engine.pipeline.scopes import Iteration, Load, PipelineScope, task_scope
from noetl.engine.pipeline.secret_grants import NOTHING_KNOWN, Known, Naming
from noetl.engine.plan import Plan
from noetl.engine.scopes import surroundings_of
from noetl.engine.side_runs.orders import side_run_fields
from noetl.engine.side_runs.state import SideRunKind
from noetl.engine.v2_case.port import collects_of
from noetl.events.orders import Iterations, Position
from noetl.net.net import Transition, tasks_of
from noetl.net.secret_reads import texts_in
from noetl.net.task import Task
from noetl.templates.expression import GuardReference, parse
from noetl.templates.render import render
from noetl.templates.scope import is_reserved
from noetl.templates.values import Authored

# Beyond it the answer is "not all is known", which grants by the fixed parts of the template alone.
_MOST = 10_000  # iterations of one order that are examined
_FIXED = frozenset({"workload", "execution_id", "token", "_task"})
_OWN_WORDS = frozenset({"page", "status_code"})  # names in v2-case about the call that was made; others are reserved
_IMPLICIT = frozenset({"index", "parent"})


def reads_ctx(naming: Naming, ctx: Mapping[str, Any]) -> bool:
    """Whether some name may come of `ctx`, directly or by a bare name; no key ever leaves it."""
    read = (one for task, text in naming.templates() for one in (*_references(text), *_workbook_references(task)))
    return bool(ctx) and any(_key(one) is None or _key(one) in ctx for one in read)


def _key(reference: GuardReference) -> str | None:
    """The key of `ctx` that is read if the name is not found before; None for any."""
    if reference.root not in ("ctx", "vars"):
        return reference.root
    return str(reference.path[0]) if reference.path else None


def _references(text: str) -> Sequence[GuardReference]:
    try:
        return parse(text).references
    except TemplateError:
        return ()  # it will not be rendered either


def _workbook_references(task: Task) -> list[GuardReference]:
    """The names read by the arguments of the reference to a workbook task (TOOL-10)."""
    given = (written.data for written in (task.args, *task.inner_args) if written is not None)
    return [one for data in given for text in texts_in(data) for one in _references(text)]


class SecretScopes:
    """`ctx` is as it was when the order was given out; None: as it is now. `at` is the one iteration that is meant.
    `changed` are steps whose results may be others than the worker was given."""

    def __init__(
        self,
        plan: Plan,
        execution: Execution,
        run: StepRun,
        lease: StepLease | Range,
        ctx: dict[str, Any] | None,
        load: Load,
        *,
        at: tuple[int, ...] | None = None,
        changed: frozenset[str] = frozenset(),
    ) -> None:
        self._plan, self._run, self._load, self._step = plan, run, load, plan.step(run.step)
        self._at, self._changed = at, changed
        self._writes = _written_keys(self._step)
        self._tasks = {task.name for task in tasks_of(self._step)}
        # `load` is given by the caller: a value that is not here yet must be fetched and the question asked again.
        around = msgspec.structs.replace(surroundings_of(plan, execution, run), load=load)
        if ctx is not None:
            around = msgspec.structs.replace(around, ctx=ctx)
        if around.vars is not None:
            around = msgspec.structs.replace(around, vars={})  # all of them were written by the step's own tasks
        self._its: Iterations | None = None
        if isinstance(lease, Range):
            self._its = iterations_of(plan, run, lease)
            region = run.loop.region_of(run.loop.frames[lease.path]) if run.loop is not None else None
            around = around if region is None else msgspec.structs.replace(around, ctx=region.ctx)
        self._around = around if run.side_run is None else _of_side_run(execution, run, around)

    def read(self, task: Task, text: str) -> Known:
        """The values that the template can render to, over all iterations of the order if it reads them."""
        try:
            references = parse(text).references
        except TemplateError:
            return NOTHING_KNOWN
        behind = _workbook_references(task)
        # A template may render to another name in each iteration, and the worker may ask for any of them.
        arounds = list(islice(self._possible_scopes([*references, *behind]), _MOST)) or [self._around]
        has_args = all(self._is_known(one, arounds[0], True) for one in behind)
        try:
            # Whether a name is known does not depend on the iteration, so the first one represents all.
            inner = preparation.with_reference_args(task, arounds[0], Position(task=task.name), now=0.0)
        except NoetlError:
            inner, has_args = arounds[0], False
        is_all = len(arounds) < _MOST and all(self._is_known(one, inner, has_args) for one in references)
        return Known(self._values(task, text, arounds), is_all)

    def _values(self, task: Task, text: str, arounds: Sequence[PipelineScope]) -> Iterator[Any]:
        position = Position(task=task.name)
        for around in arounds:
            try:
                own = preparation.with_reference_args(task, around, position, now=0.0)
                yield render(text, task_scope(own, position, task))
            except NoetlError:
                continue  # it needs a value that is unknown here, or cannot be rendered at all

    def _possible_scopes(self, references: Sequence[GuardReference]) -> Iterator[PipelineScope]:
        if self._its is None:
            yield self._around
            return
        its, (parent, bare) = self._its, preparation.enclosing_iterations(self._its.outer)
        indices = its.indices if its.indices is not None else range(its.first, its.last + 1)
        items = its.items
        if items is None:
            assert its.items_ref is not None
            stored = self._load(its.items_ref) or []
            items = [stored[index] if index < len(stored) else None for index in indices]
        _, each = preparation.split_args(self._step)
        named = {"iter", its.iterator, "loop", "loop_index", *(("args", *each) if each else ())}
        is_read = any(one.root in named for one in references)
        pairs: Iterator[tuple[int, Any]] = zip(indices, items, strict=True)
        if self._at is not None:
            pairs = (pair for pair in pairs if (*its.path, pair[0]) == self._at)
        for index, item in islice(pairs, None if is_read else 1):
            names = {its.iterator: item, "index": index, "parent": parent}
            iteration = Iteration(
                path=(*its.path, index), iterator=its.iterator, names=names, bare={**bare, its.iterator: item}
            )
            around = msgspec.structs.replace(self._around, iteration=iteration)
            try:
                yield preparation.with_iteration_args(self._step, around, Position(task=None), now=0.0)
            except NoetlError:
                yield around  # a template that cannot be rendered here fails in the worker too

    def _is_known(self, reference: GuardReference, around: PipelineScope, has_args: bool) -> bool:
        """Whether it does not depend on anything that the worker has reported."""
        root, path = reference.root, reference.path
        if root in _FIXED or root in around.names:
            return True
        if root == "args":
            return has_args
        if root == "ctx" or (root == "vars" and around.vars_in_ctx):
            return self._is_left_alone(str(path[0]) if path else None)
        if root in ("iter", "loop_index"):
            own = _IMPLICIT if around.iteration is None else around.iteration.names.keys()
            return root == "loop_index" or (bool(path) and path[0] in own)
        return not is_reserved(root) and self._is_known_bare(root, around, has_args)

    def _is_known_bare(self, root: str, around: PipelineScope, has_args: bool) -> bool:
        """The scopes in the order in which a bare name is looked up (TPL-06)."""
        if around.iteration is not None and root in around.iteration.bare:
            return True
        if root in self._tasks or (around.vars_in_ctx and root in self._reserved_words()):
            return False
        if self._plan.has_step(root):
            return root not in self._changed
        if root in around.args:
            return has_args
        return self._is_left_alone(root) and (root in around.ctx or root in around.workload)

    def _reserved_words(self) -> frozenset[str]:
        return _OWN_WORDS.union(each.into for each in collects_of(self._step))

    def _is_left_alone(self, key: str | None) -> bool:
        """Whether no task of the step writes this key of `ctx`; None: any of them may be read."""
        return self._writes is not None and (not self._writes if key is None else key not in self._writes)


def _of_side_run(execution: Execution, run: StepRun, around: PipelineScope) -> PipelineScope:
    given = side_run_fields(execution, run)
    assert run.side_run is not None
    kept = ("results",) if run.side_run.kind is SideRunKind.ASYNC and not run.side_run.around else ("ctx", "results")
    changes = {name: given[name] for name in kept if name in given}
    if (
        run.side_run.kind is SideRunKind.COMPENSATION
        and execution.side_work.saga is not None
        and execution.side_work.saga.under_way is not None
    ):
        changes["ctx"] = execution.side_work.saga.under_way.ctx  # as captured; later writes come from the worker itself
    return preparation.side_run_surroundings(given["side_run"], msgspec.structs.replace(around, **changes))


# Own writes: which keys of `ctx` the tasks of a step may write while it runs, from the net alone.


def _written_keys(step: Transition) -> frozenset[str] | None:
    """The keys that the tasks may write; None if a template computes a key, since that may be any key."""
    keys: set[str] = set()
    for written in _writes(step):
        if not isinstance(written.data, dict) or any(is_template(key) for key in written.data):
            return None
        keys.update(key.partition(".")[0] for key in written.data)
    return frozenset(keys)


def _writes(step: Transition) -> Iterator[Authored]:
    for task in tasks_of(step):
        for rule in task.policy.rules if task.policy is not None else ():
            if rule.mutations is not None:
                given = (rule.mutations.set_ctx, rule.mutations.set_shared)
                yield from (written for written in given if written is not None)
    for case_rule in step.case.rules if step.case is not None else ():
        yield from (action.set_ctx for action in case_rule.actions if action.set_ctx is not None)
