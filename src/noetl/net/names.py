"""Names that a net can define: the possible meanings of a bare name in its templates at any time of a run (TPL-03).

Steps, tasks and iterators; the keys of `workload`, of the `args` that steps and arcs give, and of all writes to `ctx`.
A name that is none of these, and no word of the dialect, is never defined. An input counts if the playbook declares it
under `workload`. A start may bring others; these are found at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from noetl.base.diagnostics import is_template
from noetl.net.net import Net, Transition, tasks_of
from noetl.net.routing import Arc
from noetl.net.task import Task
from noetl.templates.scope import DIALECTS, V10, TemplateSite, visible
from noetl.templates.values import Authored

LOOP_NAMES = ("loop", "loop_index")
_KEPT = 64
_latest: dict[int, tuple[Net, frozenset[str] | None]] = {}
_PAYLOADS = ("payload", "workload", "args")  # of a trigger: the inputs of its starts


def known_names(net: Net) -> frozenset[str] | None:
    """Those that the net can define, and the words of its dialect, which are undefined at some places (TPL-05); None
    for any. Looked up once a net: each order of a worker asks for them."""
    known = _latest.get(id(net))
    if known is None or known[0] is not net:
        while len(_latest) >= _KEPT:
            del _latest[next(iter(_latest))]
        names = defined_names(net)
        rules = net.dialect if net.dialect in DIALECTS else V10  # v10-io is another spelling of it
        words = (visible(site, rules) for site in TemplateSite)
        known = _latest[id(net)] = net, names.union(*words) if names is not None else None
    return known[1]


def defined_names(net: Net) -> frozenset[str] | None:
    """Every name that the net can define; None where one is computed, so that it may be any."""
    of_steps = (key for step in net.transitions for key in (*_keys_of_step(step), *_collected_names(step)))
    keys = [*_keys(net), *of_steps]
    if any(is_template(key) for key in keys):
        return None
    names = {key.partition(".")[0] for key in keys}  # a write to `a.b` makes `a`
    for step in net.transitions:
        names.add(step.name)
        names.update(task.name for task in tasks_of(step))
        names.update(_iterators(step))
    return frozenset(names)


def collecting_steps(net: Net) -> dict[str, str]:
    """The step that collects pages under each name (O-28)."""
    return {into: step.name for step in net.transitions for into in _collected_names(step)}


def names_beside_collected(net: Net, reader: str, *, with_args: bool) -> frozenset[str]:
    """The bare names readable by templates of the step `reader`, without collected pages; its own args by choice."""
    names = set(_keys(net))
    for step in net.transitions:
        seen = step if step.name == reader and with_args else msgspec.structs.replace(step, args=None)
        names |= {step.name, *_keys_of_step(seen), *_iterators(step)}
        names |= {task.name for task in tasks_of(step)}
    return frozenset(key.partition(".")[0] for key in names)


def _collected_names(step: Transition) -> Iterator[str]:
    in_rules = (repeat for rule in (step.case.rules if step.case else ()) for repeat in rule.repeat)
    in_tasks = (repeat for task in tasks_of(step) for repeat in task.repeat)
    yield from (repeat.collect.into for repeat in (*in_rules, *in_tasks) if repeat.collect is not None)


def _keys(net: Net) -> Iterator[str]:
    yield from net.workload
    yield from _keys_in(net.ctx)
    for word in _PAYLOADS if net.trigger is not None else ():
        yield from _keys_in(net.trigger.options.get(word) if net.trigger else None)


def _keys_of_step(step: Transition) -> Iterator[str]:
    for written in (step.args, step.set_ctx, *(one for arc in _arcs(step) for one in (arc.args, arc.set_ctx))):
        yield from _keys_in(written)
    rules = step.case.rules if step.case else ()
    for action in (action for rule in rules for action in rule.actions):
        yield from _keys_in(action.set_ctx)
    for task in tasks_of(step):
        yield from _keys_of_task(task)


def _keys_of_task(task: Task) -> Iterator[str]:
    """The writes of its rules and the args that a reference passes to its workbook task."""
    for written in (task.args, *task.inner_args):
        yield from _keys_in(written)
    for rule in task.policy.rules if task.policy else ():
        if rule.mutations is not None:
            yield from _keys_in(rule.mutations.set_ctx)


def _arcs(step: Transition) -> Iterable[Arc]:
    rules = step.case.rules if step.case else ()
    taken = (arc for rule in rules for action in rule.actions for arc in action.transition)
    return (*taken, *(step.router.arcs if step.router else ()))


def _iterators(step: Transition) -> Iterator[str]:
    loop = step.loop
    if loop is not None:
        yield from LOOP_NAMES
    while loop is not None:
        yield loop.iterator
        loop = loop.inner


def _keys_in(written: Any) -> Iterator[str]:
    data = written.data if isinstance(written, Authored) else written
    yield from map(str, data) if isinstance(data, dict) else ()
