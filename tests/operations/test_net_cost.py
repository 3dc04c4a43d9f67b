"""The cost of a net: medians of its steps, and the longest chain of them."""

from __future__ import annotations

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.net.net import Net
from noetl.operations.net_cost import covered_s, critical_path, net_cost, percentile
from noetl.tools.kinds import load_kinds

DIAMOND = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: diamond, path: tests/diamond }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: short }, { step: long }] }
  - step: short
    tool: { kind: noop }
    next:
      arcs:
        - { step: repair, when: "{{ event.name == 'step.failed' }}" }
        - { step: both }
  - step: long
    tool: { kind: noop }
    next: { arcs: [{ step: both }] }
  - step: repair
  - step: both
    spec: { join: { count: 2 } }
"""


def _net(text: str) -> Net:
    net = check(Source("playbook.yaml", text), kinds=load_kinds(), proofs=False).net
    assert net is not None
    return net


def test_the_critical_path_is_the_longest_chain_of_median_durations() -> None:
    runs = [{"start": 1.0, "short": 2.0, "long": long, "both": 1.0, "repair": 90.0} for long in (3.0, 6.0, 50.0)]

    cost = net_cost(_net(DIAMOND), "tests/diamond", runs)

    assert cost.total_s == 8.0
    assert [one.step for one in cost.steps if one.is_critical] == ["start", "long", "both"]
    assert cost.arcs == [("start", "long"), ("long", "both")]
    assert [one.share for one in cost.steps if one.is_critical] == [0.125, 0.75, 0.125]
    assert [(one.step, one.median_s, one.p95_s, one.runs) for one in cost.steps] == [
        ("start", 1.0, 1.0, 3),
        ("long", 6.0, 50.0, 3),
        ("both", 1.0, 1.0, 3),
        ("repair", 90.0, 90.0, 3),  # handles a failure: what it takes is known, and it is not on the usual way
        ("short", 2.0, 2.0, 3),
    ]


def test_a_renamed_step_has_no_history_and_does_not_break_the_chain() -> None:
    renamed = DIAMOND.replace("step: long", "step: lengthy")

    cost = net_cost(_net(renamed), "tests/diamond", [{"start": 1.0, "long": 9.0, "short": 2.0, "both": 4.0}])

    assert cost.total_s == 7.0
    assert [one.step for one in cost.steps if one.is_critical] == ["start", "short", "both"]
    (lengthy,) = [one for one in cost.steps if one.step == "lengthy"]
    assert (lengthy.median_s, lengthy.p95_s, lengthy.runs, lengthy.share) == (None, None, 0, None)


def test_without_history_there_is_no_critical_path() -> None:
    cost = net_cost(_net(DIAMOND), "tests/diamond", [{"gone": 3.0}])

    assert (cost.total_s, cost.executions) == (None, 1)
    assert not any(one.is_critical for one in cost.steps)


def test_a_cycle_is_counted_once_with_all_its_steps() -> None:
    ways = {"start": ["ask", "skip"], "ask": ["wait", "end"], "wait": ["ask"], "skip": ["end"], "end": []}
    seconds = {"start": 1.0, "ask": 2.0, "wait": 3.0, "skip": 4.0, "end": 1.0}

    assert critical_path(ways, "start", seconds) == [["start"], ["ask", "wait"], ["end"]]
    assert critical_path({"start": ["start"]}, "start", {"start": 1.0}) == [["start"]]


POLLING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: polling, path: tests/polling }
workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [{ step: ask }] }
  - step: ask
    tool: { kind: noop }
    next: { arcs: [{ step: end, when: "{{ ask.ready }}" }, { step: pause }] }
  - step: pause
    timer: { duration: 1s }
    next: { arcs: [{ step: ask }] }
  - step: end
"""


def test_the_path_through_a_cycle_is_marked() -> None:
    cost = net_cost(_net(POLLING), "tests/polling", [{"start": 1.0, "ask": 2.0, "pause": 6.0, "end": 1.0}])

    assert cost.total_s == 10.0
    assert [one.step for one in cost.steps if one.in_cycle] == ["ask", "pause"]
    assert cost.arcs == [("start", "ask"), ("ask", "end"), ("ask", "pause"), ("pause", "ask")]


class _CountedWays(dict[str, list[str]]):
    """Counts how often the arcs of a step are asked for."""

    asked = 0

    def __getitem__(self, step: str) -> list[str]:
        self.asked += 1
        return super().__getitem__(step)


def test_a_net_of_a_thousand_steps_is_visited_once() -> None:
    # Ten steps wide and a hundred deep, each layer leading to all of the next: there are 10^100 chains.
    names = [[f"s{layer}_{n}" for n in range(10)] for layer in range(100)]
    ways = _CountedWays({name: names[layer + 1] if layer < 99 else [] for layer in range(100) for name in names[layer]})
    ways["start"] = names[0]
    seconds = {f"s{layer}_{layer % 10}": 1.0 for layer in range(100)}

    chain = critical_path(ways, "start", seconds)

    assert chain == [["start"], *([f"s{layer}_{layer % 10}"] for layer in range(100))]
    assert ways.asked <= 2 * len(ways)


def test_parallel_visits_are_not_summed() -> None:
    assert covered_s([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (5.2, 5.4)]) == 4.0
    assert covered_s([]) == 0.0


def test_percentiles_are_measured_values() -> None:
    assert percentile([1.0, 2.0], 50) == 2.0
    assert percentile([1.0], 95) == 1.0
    assert percentile([float(n) for n in range(100)], 95) == 95.0
