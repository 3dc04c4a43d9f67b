"""The possible outcomes of a token at each step: the least solution of the equations of the net.

A fork group is solved on its own and is one move of its parent, so structured nets collapse level by level: series,
choices, loops, forks with their joins, and dead ends have few distinct outcomes. Cycles are solved by iteration;
outcomes are finite, so it ends. Cancel lists are over-approximated here (`soundness` lets the search confirm such
findings), and `rest: block` is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from noetl.language.proving.forks_and_joins import (
    NO_STEP,
    NOTHING,
    STOP,
    WITHDRAWN,
    Derivation,
    Derived,
    EndedDerivation,
    Forked,
    Member,
    MovedDerivation,
    Normal,
    Outcome,
    RefusedDerivation,
    SettledJoins,
    caps,
    group_outcomes,
    product,
    settle_joins,
)
from noetl.language.proving.graph import Firing, Graph, NetStep

# A step, and whether its token belongs to a fork group.
Node = tuple[int, bool]

# Different end steps recorded for one node. More would only repeat the same finding.
_ENDS_KEPT = 6


class OutOfBudget(Exception):  # noqa: N818 - control flow inside analysis, never shown as an error
    """The work budget is used up."""


class TokenOutcomes:
    """The solved table. `table[step, grouped]` maps outcomes of a token running there to how they came about."""

    def __init__(self, graph: Graph, budget: int) -> None:
        self.graph = graph
        self.table: dict[Node, Derived] = {}
        self.spent = 0
        self._budget = budget
        self._caps = caps(graph)
        self._withdrawn = graph.cancelled
        self._sweeping = any(step.sweeps for step in graph.steps)
        # Nodes that have read a node's outcomes, and are evaluated again when these grow.
        self._readers: dict[Node, dict[Node, None]] = {}
        # Nodes that the current evaluation has read and that were never solved.
        self._missing: list[Node] = []
        # An ordered set: nodes in the order in which they became dirty.
        self._dirty: dict[Node, None] = {}
        self.root: Node = (graph.entry, False)
        self._solve(self.root)

    def outcomes(self, step: int, grouped: bool) -> Derived:
        """The outcomes of a token running at `step`; empty if it was never needed or can never end."""
        return self.table.get((step, grouped), {})

    @property
    def can_end(self) -> bool:
        """Whether an execution can end at all. A withdrawn outcome does not count: nothing can withdraw the last
        token."""
        return any(not (isinstance(o, Normal) and o.withdrawn) for o in self.outcomes(*self.root))

    def enters(self, step: int, grouped: bool, reader: Node) -> list[Outcome]:
        """The outcomes of a token sent to `step`: at a join of its group it arrives, elsewhere it runs."""
        if grouped and self.graph[step].join is not None:
            arrived: list[Outcome] = [Normal(((step, 1),))]
            return [*arrived, NOTHING] if step in self._withdrawn else arrived
        return list(self._read((step, grouped), reader))

    def _read(self, node: Node, reader: Node) -> Derived:
        if node not in self.table:
            self._missing.append(node)
        self._readers.setdefault(node, {})[reader] = None
        return self.table.get(node, {})

    def _spend(self, work: int) -> None:
        self.spent += work
        if self.spent > self._budget:
            raise OutOfBudget

    def _solve(self, root: Node) -> None:
        """Solve on demand: first the nodes that a node reads; its own readers again when its outcomes grow."""
        stack, opened = [root], set[Node]()
        while stack or self._dirty:
            node = stack.pop() if stack else next(iter(self._dirty))
            self._dirty.pop(node, None)
            if node not in opened:
                opened.add(node)
                wanted = [n for n in self._needs(node) if n not in opened]
                if wanted:
                    # The node goes below the nodes it needs on the stack: it is evaluated after them.
                    stack += [node, *wanted]
                    continue
            grew = self._evaluate(node)
            # Steps behind joins are not in `_needs`: which joins fire is known only after the evaluation.
            missing = [n for n in dict.fromkeys(self._missing) if n not in opened]
            if missing:
                stack += [node, *missing]
            if grew:
                self._dirty |= dict.fromkeys(self._readers.get(node, ()))

    def _needs(self, node: Node) -> Iterable[Node]:
        step, grouped = node
        needs: dict[Node, None] = {}
        for firing in self.graph[step].firings:
            members = firing.ways if firing.most_tokens >= 2 else ()
            for ways, inside in ((members, True), (firing.alone, grouped)):
                for target in (target for way in ways for target in way.targets):
                    # A token that arrives at a join of its group does not run there: `settle_joins` handles it.
                    if not (inside and self.graph[target].join is not None):
                        needs[(target, inside)] = None
        return needs

    def _evaluate(self, node: Node) -> bool:
        known = self.table.setdefault(node, {})
        before = len(known)
        self._missing = []
        step = self.graph[node[0]]
        self._spend(1)
        if step.may_deny or step.index in self._withdrawn:
            known.setdefault(NOTHING, RefusedDerivation())
        if self._sweeping:
            known.setdefault(WITHDRAWN, RefusedDerivation())
        for firing in step.firings:
            self._fire(node, step, firing, known)
        # Outcomes are only ever added, so a larger number is the only possible change.
        return len(known) > before

    def _fire(self, node: Node, step: NetStep, firing: Firing, known: Derived) -> None:
        grouped = node[1]
        if firing.stops:
            known.setdefault(STOP, EndedDerivation(firing))
            return
        if firing.ends:
            # Outside of a group no join waits for the token, so it does not matter where it ended.
            _keep(known, Normal(ended=step.index) if grouped else NOTHING, EndedDerivation(firing))
        for way in firing.alone:
            for target in way.targets:
                for outcome in self.enters(target, grouped, node):
                    _keep(known, outcome, MovedDerivation(firing, Member(way, target, outcome)))
        if firing.most_tokens >= 2:
            self._fork(node, firing, known)

    def _fork(self, node: Node, firing: Firing, known: Derived) -> None:
        def enter(target: int) -> list[Outcome]:
            return self.enters(target, True, node)

        for outcome, members in group_outcomes(firing, enter, self._caps, self._spend):
            if not isinstance(outcome, Normal):
                # A stop or a fault of one member is the outcome of the whole fork, regardless of its joins.
                if outcome not in known:
                    known[outcome] = Forked(firing, members())
                continue
            meeting = settle_joins(self.graph, outcome)
            if outcome.withdrawn and not any(self._is_cancelling(join) for join in meeting.fired):
                # A join of an outer group withdrew it, and with it the tokens that wait here.
                known.setdefault(WITHDRAWN, RefusedDerivation())
                continue
            for fault in meeting.faults:
                if fault not in known and (fault.kind != "W_DEADLOCK" or self._goes_on(node, meeting)):
                    known[fault] = Forked(firing, members(), outcome)
            if meeting.stuck:
                if STOP not in known and (ender := self._ender(node, meeting)) is not None:
                    known[STOP] = Forked(firing, members(), outcome, ((ender, STOP),))
                continue
            for result, joined in self._outcomes_after_joins(node, outcome, meeting):
                if result not in known:
                    _keep(known, result, Forked(firing, members(), outcome, joined))

    def _outcomes_after_joins(
        self, node: Node, group: Normal, meeting: SettledJoins
    ) -> Iterable[tuple[Outcome, tuple[tuple[int, Outcome], ...]]]:
        """The contribution of the group to its outer group: the runs of its joins, or only an end."""
        if not meeting.fired:
            # All tokens ended. The outer group sees one token that ended, as if there had been no fork.
            return [(Normal(ended=group.ended) if node[1] else NOTHING, ())]
        sizes = range(len(meeting.maybe) + 1)
        extras = [extra for size in sizes for extra in combinations(meeting.maybe, size)]
        return [result for extra in extras for result in self._run_joins(node, meeting.fired + extra)]

    def _goes_on(self, node: Node, meeting: SettledJoins) -> bool:
        """Whether the execution can continue after the joins that have run, so that the other joins still wait. It
        cannot if the run of a join ends the whole execution or is withdrawn with its outer group."""
        runs = [self._read((join, node[1]), node) for join in meeting.fired]
        return all(any(outcome not in (STOP, WITHDRAWN) for outcome in run) for run in runs)

    def _ender(self, node: Node, meeting: SettledJoins) -> int | None:
        """A join that has run and may have ended the whole execution."""
        return next((join for join in meeting.fired if STOP in self._read((join, node[1]), node)), None)

    def _is_cancelling(self, join: int) -> bool:
        rule = self.graph[join].join
        return rule is not None and rule.rest == "cancel"

    def _run_joins(
        self, node: Node, fired: tuple[int, ...]
    ) -> Iterable[tuple[Outcome, tuple[tuple[int, Outcome], ...]]]:
        grouped = node[1]
        runs = [list(self._read((join, grouped), node)) for join in fired]
        if len(fired) == 1:
            return [(outcome, ((fired[0], outcome),)) for outcome in runs[0]]
        self._spend(sum(map(len, runs)))
        return [
            (outcome, tuple((join, _fitting_outcome(run, outcome)) for join, run in zip(fired, runs, strict=True)))
            for outcome in product(runs, self._caps)
        ]


def _keep(known: Derived, outcome: Outcome, derivation: Derivation) -> None:
    if outcome in known:
        return
    if isinstance(outcome, Normal) and outcome.ended != NO_STEP:
        alike = sum(isinstance(o, Normal) and o.ended != NO_STEP and o.arrived == outcome.arrived for o in known)
        # Further ends would only repeat the finding for another step, and outcomes multiply in forks.
        if alike >= _ENDS_KEPT:
            return
    known[outcome] = derivation


def _fitting_outcome(run: list[Outcome], wanted: Outcome) -> Outcome:
    """An outcome of one of several runs that fits their combined outcome, for the witness."""
    return wanted if wanted in run else next((o for o in run if isinstance(o, Normal)), run[0])
