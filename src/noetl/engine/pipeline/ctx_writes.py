"""Own writes: which keys of `ctx` the tasks of a step may write while it runs, told from the net alone."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.source import is_template
from noetl.net.net import Transition
from noetl.net.tasks import tasks_of
from noetl.templates.authored import Authored


def written_keys(step: Transition) -> frozenset[str] | None:
    """The keys; None where a template says which, so that it may be any."""
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
