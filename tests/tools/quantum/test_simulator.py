"""The provider `aer`: Qiskit's simulator, in a process of its own. Runs where the extra `quantum` is installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from importlib.util import find_spec
from itertools import accumulate, islice
from typing import Any

import pytest
import pytest_asyncio

from noetl.tools.quantum import simulator
from noetl.tools.quantum.circuits import GATES, MEASURE, Circuit, Operation, circuit_of
from noetl.tools.quantum.simulator import probabilities
from noetl.tools.quantum.tool import QuantumTool
from tests.fixtures.running import fixture, run
from tests.fixtures.virtual_time import RealTool
from tests.tools.quantum_tasks import BELL, World, refused

needs_aer = pytest.mark.skipif(
    find_spec("qiskit_aer") is None, reason='Qiskit Aer is not installed: pip install "noetl-engine[quantum]"'
)


# One process for the tests that ask for `world`: to import Qiskit takes it three seconds of processor time.
one_process = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.tool.close()


@pytest.mark.req("QNT-03")
async def test_without_the_extra_aer_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "_has_aer", lambda: False)

    error = await refused(World()(provider="aer", circuit=BELL))

    assert error.kind == "quantum.provider_unavailable"
    assert error.message == 'this job needs Qiskit Aer, which is not here: pip install "noetl-engine[quantum]"'


@needs_aer
@one_process
@pytest.mark.req("QNT-01", "QNT-03", "QNT-05")
async def test_a_bell_pair_on_aer_is_reproducible_with_its_seed(world: World) -> None:
    first, second, other = [
        await world(op="run", provider="aer", circuit=BELL, shots=1000, seed=seed) for seed in (7, 7, 8)
    ]

    assert set(first["counts"]) == {"00", "11"}
    assert first["counts"] == second["counts"] != other["counts"]
    assert first["provider"] == "aer"
    assert first["versions"].keys() == {"qiskit", "qiskit-aer"}


@needs_aer
@pytest.mark.req("QNT-03")
@pytest.mark.parametrize("again", range(2))
async def test_consecutive_event_loops_can_use_qiskit(again: int) -> None:
    """Each has threads of its own: in this process, the second of them would crash it."""
    world = World()

    ran = await world(op="run", provider="aer", circuit=BELL, shots=10)
    await world.tool.close()

    assert sum(ran["counts"].values()) == 10


@needs_aer
@one_process
@pytest.mark.req("QNT-03")
async def test_every_gate_agrees_between_aer_and_the_simulator(world: World) -> None:
    """Several in one circuit, each on qubits of its own: what a job costs is hardly what it computes."""
    for names in batched(GATES, 6):
        parts = dict(zip(names, map(_circuit_with, names), strict=True))
        begins = dict(zip(names, accumulate((part.qubits for part in parts.values()), initial=0), strict=False))
        text = [_written(one, begins[name]) for name, part in parts.items() for one in part.operations]

        counts = (await world(op="run", provider="aer", circuit=text, shots=4000, seed=1))["counts"]

        for name, circuit in parts.items():
            assert circuit_of([_written(one) for one in circuit.operations], {}) == circuit, name
            own = _counts_of(counts, begins[name], circuit.qubits)
            likely = probabilities(circuit)
            shares = {outcome: own[outcome] / 4000 for outcome in likely}
            assert shares == {outcome: pytest.approx(share, abs=0.05) for outcome, share in likely.items()}, name
            assert set(own) <= set(likely), name


def batched(names: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(names)
    while batch := list(islice(rest, size)):
        yield batch


def _counts_of(counts: dict[str, int], begin: int, qubits: int) -> Counter[str]:
    """What some of the qubits gave; the last letter of an outcome is the first qubit's."""
    own = Counter[str]()
    for outcome, number in counts.items():
        end = len(outcome) - begin
        own[outcome[end - qubits : end]] += number
    return own


def _circuit_with(name: str) -> Circuit:
    """The gate between turns that make its phases visible."""
    gate = GATES[name]
    qubits = range(gate.qubits)
    before = [Operation("u", (qubit,), (0.9 + qubit, 0.4, 0.2)) for qubit in qubits]
    after = [Operation("ry", (qubit,), (1.1 - 0.2 * qubit,)) for qubit in qubits]
    measured = [Operation(MEASURE, (qubit,), bit=qubit) for qubit in qubits]
    turned = Operation(name, tuple(qubits), tuple(0.7 + 0.5 * index for index in range(gate.angles)))
    return Circuit(gate.qubits, gate.qubits, (*before, turned, *after, *measured))


def _written(operation: Operation, begin: int = 0) -> dict[str, Any]:
    qubits = [begin + qubit for qubit in operation.qubits]
    if operation.name == MEASURE:
        return {"gate": MEASURE, "target": qubits[0]}
    angles = dict(zip(("theta", "phi", "lambda"), operation.angles, strict=False))
    targets = 2 if GATES[operation.name].swaps else 1
    return {"gate": operation.name, "control": qubits[:-targets], "target": qubits[-targets:], **angles}


@needs_aer
@one_process
@pytest.mark.req("QNT-03")
async def test_the_simulator_delegates_large_circuits_to_aer(world: World) -> None:
    large = [{"gate": "h", "target": 0}, *({"gate": "cx", "control": 0, "target": one} for one in range(1, 20))]

    result = await world(op="run", circuit=large, shots=200, seed=3)
    small = await world(op="run", circuit=BELL, shots=200, seed=3)

    assert set(result["counts"]) == {"0" * 20, "1" * 20}
    assert "qiskit-aer" in result["versions"]
    assert small["versions"].keys() == {"simulator"}, "the same counts with or without the extra"


@needs_aer
@one_process
@pytest.mark.req("QNT-02")
async def test_a_circuit_that_exceeds_memory_is_a_failed_job(world: World) -> None:
    error = await refused(world(op="run", provider="aer", circuit=[{"gate": "h", "target": 60}], shots=1))

    assert error.kind == "quantum.job"
    assert error.details["state"] == "ERROR"
    assert "and this circuit has 61" in error.message
    assert (await world(op="run", provider="aer", circuit=BELL, shots=5))["state"] == "DONE"


@needs_aer
@pytest.mark.req("QNT-02", "QNT-04", "QNT-06")
def test_a_sweep_is_placed_on_aer_polled_and_counted() -> None:
    text = fixture("F-R-QUANTUM", {"provider: simulator, qubits: 2": "provider: aer, qubits: 2"})

    ran = run(text, tools={"quantum": RealTool(QuantumTool())})

    assert {one.provider for one in ran.of("quantum.placed")} == {"aer"}
    shares = [one["counts"].get("1", 0) / one["shots"] for one in ran.result_of("start")]
    assert shares == [0, pytest.approx(0.5, abs=0.06), 1]
