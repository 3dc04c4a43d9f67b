"""SIGKILL at random moments: a resumed run ends like an undisturbed one (WRK-04, SRV-12, O-06).

Twelve rounds here, the rest of two hundred under `make test-deep`. A round that fails prints its seed; NOETL_SEED
repeats it.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.running import EXAMPLES
from tests.examples.running import api as serving
from tests.faults.killing import Play, Undisturbed, check, survived, undisturbed
from tests.faults.processes import written
from tools.demo_api import TOKEN, DemoApi

LEDGER = """
workload: {numbers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}
workflow:
  - step: start
    tool:
      - {name: one, kind: python, code: "print('start one', file=open('ledger', 'a')); result = 1"}
      - {name: two, kind: python, code: "print('start two', file=open('ledger', 'a')); result = _prev + 1"}
    next:
      spec: {mode: inclusive}
      arcs: [{step: many}, {step: aside}]
  - step: aside
    tool: {name: one, kind: python, code: "print('aside one', file=open('ledger', 'a')); result = 'aside'"}
    next: {arcs: [{step: both}]}
  - step: many
    loop:
      in: "{{ workload.numbers }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 4, policy: {reducers: {sum: sum}}}
    tool:
      - name: first
        kind: python
        args: {n: "{{ iter.n }}"}
        code: "print('many first', n, file=open('ledger', 'a')); result = n"
        spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {seen: "{{ outcome.result }}"}}}}]}}
      - name: second
        kind: python
        args: {n: "{{ iter.n }}", seen: "{{ iter.seen }}"}
        code: "print('many second', n, file=open('ledger', 'a')); result = n * 10 + seen"
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: "{{ outcome.result }}"}}}}]}}
    next: {arcs: [{step: both, when: "{{ event.name == 'loop.done' }}"}]}
  - step: both
    spec: {join: all}
    tool: {kind: python, args: {sum: "{{ ctx.sum }}", many: "{{ many.data }}"}, code: "result = [sum, many]"}
"""
EFFECTS = 3 + 2 * 16  # of an undisturbed ledger

SHOPS = ("--set", 'shops=["oslo", "atlantis", "lima"]', "--set", "page_size=50")  # as little as shows everything
ASKING = {"hotels": (), "nested": (), "pages_to_duckdb": SHOPS, "large_results": (), "error_routing": (), "secrets": ()}
ROUNDS = {"ledger": 5, "hotels": 3, "nested": 3, "pages_to_duckdb": 1}
DEEP_ROUNDS = {
    "ledger": 40,
    "hotels": 30,
    "nested": 30,
    "pages_to_duckdb": 30,
    "flaky": 10,
    "fan_out": 10,
    "large_results": 10,
    "error_routing": 10,
    "secrets": 10,
}


def rounds() -> list[object]:
    quick = [pytest.param(name, id=f"{name}-{n}") for name, count in ROUNDS.items() for n in range(count)]
    deep = [
        pytest.param(name, id=f"{name}-deep-{n}", marks=pytest.mark.deep)
        for name, count in DEEP_ROUNDS.items()
        for n in range(count)
    ]
    return [*quick, *deep]


@pytest.fixture(scope="module")
def api() -> Iterator[DemoApi]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def usual(api: DemoApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Undisturbed]]:
    """How each play ends by itself, found out when it is first asked for."""
    os.environ["DEMO_API_TOKEN"] = TOKEN

    class Runs(dict[str, Undisturbed]):
        def __missing__(self, name: str) -> Undisturbed:
            folder = tmp_path_factory.mktemp(name)
            self[name] = undisturbed(play_of(name, api, folder), folder)
            return self[name]

    yield Runs()
    del os.environ["DEMO_API_TOKEN"]


def play_of(name: str, api: DemoApi, folder: Path) -> Play:
    if name == "ledger":
        return Play(file=written(folder, LEDGER))
    arguments = ("--set", f"api_url={api.url}", *ASKING[name]) if name in ASKING else ()
    return Play(file=str(EXAMPLES / f"{name}.yaml"), arguments=arguments)


@pytest.fixture
def moments() -> random.Random:
    seed = int(os.environ.get("NOETL_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"repeat with NOETL_SEED={seed}")
    return random.Random(seed)


@pytest.mark.req("WRK-04", "SRV-12", "O-06", "LOOP-08", "LOOP-09")
@pytest.mark.parametrize("name", rounds())
def test_a_killed_run_ends_like_an_undisturbed_one(
    name: str, tmp_path: Path, api: DemoApi, usual: dict[str, Undisturbed], moments: random.Random
) -> None:
    expected = usual[name]
    asked = Counter(api.asked)

    one = survived(play_of(name, api, tmp_path), tmp_path, moments, expected)

    print(f"{len(one.kills)} kills, after {[sum(map(len, kill.values())) for kill in one.kills]} events")
    check(one, expected)
    most = 1 + len(one.kills)
    if name == "ledger":
        check_ledger(tmp_path, most)
    if name == "hotels":
        requests = Counter(api.asked) - asked
        assert len(requests) == 1 + 10
        assert max(requests.values()) <= most


@pytest.mark.req("WRK-04", "SRV-12")
@pytest.mark.parametrize("name", [pytest.param("ledger", id=f"ledger-{n}") for n in range(3)])
def test_an_interrupted_run_ends_like_an_undisturbed_one(
    name: str, tmp_path: Path, api: DemoApi, usual: dict[str, Undisturbed], moments: random.Random
) -> None:
    """Ctrl-C at a random moment: it ends with 130, names the run only if there is one, and the run can be taken up."""
    expected = usual[name]

    one = survived(play_of(name, api, tmp_path), tmp_path, moments, expected, by=signal.SIGINT)

    check(one, expected)
    check_ledger(tmp_path, 1 + len(one.kills))


def check_ledger(folder: Path, most: int) -> None:
    effects = Counter((folder / "ledger").read_text().splitlines())
    assert len(effects) == EFFECTS, "every task has had its effect"
    assert max(effects.values()) <= most, "once more for each kill, at most"
