"""Step reads: whose results an order has to bring with it (WRK-04, performance.md §2).

A name is looked up only where a text says it: in a template, or in code that stands in the playbook. So the words of a
step's texts hold every step it can read, and often others, which does no harm. Where names are looked up that no text
shows, in a script that the worker opens or in the tool of a plug-in, the order brings all there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from noetl.engine.plan import Plan
from noetl.events.outcomes import TaskResult
from noetl.net.net import Transition, tasks_of
from noetl.net.secret_reads import texts_in
from noetl.net.task import Task
from noetl.tools.python.context_reads import reads_context
from noetl.tools.registry import BUILT_IN

_WORD = re.compile(r"\w+")
_encoder = msgspec.json.Encoder()
_PYTHON = "python"  # of the built-in kinds, the one that looks up names by itself: those in its code

_READS = "results read by"  # in the memo of a plan


def results_for(plan: Plan, step: str, results: Mapping[str, TaskResult]) -> dict[str, TaskResult]:
    """Those of the results that an order of `step` can read."""
    names = _reads(plan, step)
    return dict(results) if names is None else {name: results[name] for name in names if name in results}


def _reads(plan: Plan, step: str) -> tuple[str, ...] | None:
    """The steps that a step names in its texts; None for any."""
    try:
        found: tuple[str, ...] | None = plan.memo[_READS, step]
    except KeyError:
        found = plan.memo[_READS, step] = _steps_read_by(plan.step(step), plan)
    return found


def _steps_read_by(step: Transition, plan: Plan) -> tuple[str, ...] | None:
    if any(map(_looks_up_more, tasks_of(step))):
        return None
    return tuple(sorted(plan.step_names.intersection(_words_in(step))))


def _words_in(step: Transition) -> Iterable[str]:
    """The words of all its texts, keys too."""
    body = _encoder.encode(step).decode()
    if "\\" not in body:
        return _WORD.findall(body)  # all texts at once
    # An escape, such as that of a new line, would run into the word behind it: text by text.
    return (word for text in texts_in(msgspec.json.decode(body)) for word in _WORD.findall(text))


def _looks_up_more(task: Task) -> bool:
    """Whether the tool may ask for names that do not stand in the step."""
    if task.kind != _PYTHON:
        return task.kind not in BUILT_IN
    code = task.verbatim.get("code")
    return code is None or reads_context(str(code))  # it has all there is (O-11)
