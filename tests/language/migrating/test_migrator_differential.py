"""Differential: a random playbook and its migrated form do the same, or the migration says that they would not.

The original and the migrated text run side by side in the engine, on a memory store and a clock that is moved by hand.
Status, error, result, `ctx`, delays and the calls with their inputs are compared, in order. The order does not count in
playbooks with parallel branches or iterations, nor do keys of `ctx` that the migration says it has added; what such a
playbook does may depend on which branch comes first, and then the new text must do what the old one does in some order.
`make test` runs 20 to 40 seeds of each spelling, `make test-deep` 5,000 in all, 1,000 of them with steps of any parts.
"""

from __future__ import annotations

import functools
import re
from random import Random
from typing import Any

import msgspec
import pytest

from noetl.base.diagnostics import Source
from noetl.language.conversion import ConversionOutcome, convert
from noetl.tools.kinds import load_kinds
from tests import quick_yaml
from tests.language.migrating.random_playbooks import Playbooks, text_of
from tests.language.migrating.side_by_side import did, differences, is_parallel
from tests.narrowing import present
from tests.volume import IS_DEEP

KINDS = load_kinds()
SEEDS = {"v2-case": 40, "v2-eval": 20, "v10-io": 20, "mixed": 20, "any": 40}
if IS_DEEP:
    SEEDS = {"v2-case": 2520, "v2-eval": 1020, "v10-io": 480, "mixed": 1020, "any": 1020}
CHUNK = 60 if IS_DEEP else 20
ORDERS = 24
ONE_BY_ONE = ("mode: parallel", "mode: sequential")
ADDED = re.compile(r"\bctx\.(\w+) tells")
COMPARED = 0.9  # of the playbooks that are generated; the rest is reported by the migration, not written


def mixed(document: dict[str, Any], migrated: str, random: Random) -> str:
    """The old document with some of its steps as the migrated one writes them: of two dialects, refused as it is."""
    new = {step["step"]: step for step in quick_yaml.loaded(migrated)["workflow"]}
    old = {step["step"]: step for step in document["workflow"]}
    steps = [new[name] if name in new and random.random() < 0.5 else step for name, step in old.items()]
    steps += [step for name, step in new.items() if name not in old]
    metadata = {key: value for key, value in document["metadata"].items() if key != "dialect"}
    return text_of({**document, "metadata": metadata, "workflow": steps})


def as_v10_io(migrated: str) -> str:
    """A v10 document in the words of v10-io: `input`, `output` and `set`."""
    document = quick_yaml.loaded(migrated)
    for step in document["workflow"]:
        tasks = step.get("tool", [])
        for task in tasks if isinstance(tasks, list) else [tasks]:
            if "args" in task:
                task["input"] = task.pop("args")
            for rule in task.get("spec", {}).get("policy", {}).get("rules", []):
                then = rule.get("else", rule).get("then", {})
                written = {f"ctx.{key}": value for key, value in then.pop("set_ctx", {}).items()}
                written |= {f"iter.{key}": value for key, value in then.pop("set_iter", {}).items()}
                if written:
                    then["set"] = written
                if then.get("backoff") == "none":
                    then["backoff"] = "fixed"
    document["apiVersion"] = "noetl.io/v2"
    return text_of(document).replace("outcome.", "output.")


class Pair(msgspec.Struct, frozen=True):
    """A playbook and its migrated form, with the keys of `ctx` that the migration says it has added."""

    old: str
    new: str
    added: frozenset[str]


@functools.cache
def texts(kind: str, seed: int) -> Pair | None:
    """None where the migration reports a place that needs a person. Two tests ask for each."""
    playbooks = Playbooks(seed)
    dialect = {"mixed": playbooks.pick("v2-case", "v2-eval"), "v10-io": "v2-eval", "any": "v2-case"}.get(kind, kind)
    document = playbooks.document(dialect, usual=kind != "any")
    text = text_of(document)
    done = convert(Source("test.yaml", text), kinds=KINDS)
    assert done.before.ok, [one.message for one in done.before.refusals]
    if done.outcome is ConversionOutcome.BLOCKED:
        return None
    assert done.outcome is ConversionOutcome.MIGRATED, (
        [one.message for one in done.after.refusals] if done.after else text
    )
    assert done.text is not None
    if kind == "v10-io":
        text = as_v10_io(done.text)
        done = convert(Source("test.yaml", text), kinds=KINDS)
        assert done.outcome is ConversionOutcome.MIGRATED, [one.message for one in done.before.refusals]
    elif kind == "mixed":
        both = mixed(document, present(done.text), playbooks.random)
        done = convert(Source("test.yaml", both), kinds=KINDS)
        if done.before.ok:  # the rest has no mark of the old dialect: it is v10 as it stands, and means what that says
            text = both
        if done.outcome not in (ConversionOutcome.MIGRATED, ConversionOutcome.UNCHANGED):
            return None  # a reported refusal is no silent difference
    assert done.text is not None
    return Pair(text, done.text, frozenset(key for note in done.notes for key in ADDED.findall(note.message)))


def compared(kind: str, seed: int) -> list[str] | None:
    """The differences of one seed; None where there is nothing to compare."""
    pair = texts(kind, seed)
    if pair is None:
        return None
    old, new = did(pair.old, seed), did(pair.new, seed)
    if old.stopped or new.stopped:  # how far the other iterations came is chance: let them run one after another
        pair = msgspec.structs.replace(pair, old=pair.old.replace(*ONE_BY_ONE), new=pair.new.replace(*ONE_BY_ONE))
        old, new = did(pair.old, seed), did(pair.new, seed)
    new = msgspec.structs.replace(new, ctx={key: one for key, one in new.ctx.items() if key not in pair.added})
    at_once = is_parallel(pair.old)
    found = differences(old, new, in_order=not at_once)
    if found and at_once:  # which of two branches comes first is chance too: the new text must do what the old one can
        others = (did(pair.old, seed, order) for order in range(1, ORDERS))
        return [] if any(differences(other, new, in_order=False) == [] for other in others) else found
    return found


@pytest.mark.req("MIG-02", "MIG-03", "MIG-06")
@pytest.mark.parametrize(
    ("kind", "first"), [(kind, first) for kind, count in SEEDS.items() for first in range(0, count, CHUNK)]
)
def test_a_playbook_and_its_migrated_form_behave_the_same(kind: str, first: int) -> None:
    found = {seed: compared(kind, seed) for seed in range(first, first + CHUNK)}

    assert {seed: one for seed, one in found.items() if one} == {}
    assert any(one is not None for one in found.values()), "nothing was compared"


@pytest.mark.req("MIG-03", "MIG-06", "PIPE-05")
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("any", 2820),  # the work after an error left its step failed with policy.fail, not with that error
        ("mixed", 2219),  # without its mark, a fork of v2-case is a list of arcs, of which v10 takes the first
        ("any", 100054),  # an iteration that failed and led on ended the loop
        ("any", 200012),  # the step that a rule became worked after the vars, not before
        ("any", 300160),  # when the work of a rule on an error failed, no other rule took over
        ("any", 400368),  # an arc set a variable from one that the vars had just written
    ],
)
def test_seeds_that_once_differed_behave_the_same(kind: str, seed: int) -> None:
    assert compared(kind, seed) == []


def test_a_step_that_may_run_nothing_is_refused_if_several_ends_give_the_result() -> None:
    assert texts("any", 500463) is None


@pytest.mark.req("MIG-03")
@pytest.mark.parametrize("kind", SEEDS)
def test_nine_of_ten_playbooks_can_be_compared(kind: str) -> None:
    """The others need a person, and the migration says where."""
    seeds = range(SEEDS[kind])

    count = sum(texts(kind, seed) is not None for seed in seeds)

    assert count >= COMPARED * len(seeds)
