"""`quantum`: circuits, jobs, providers and placement (QNT-01 to QNT-06)."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.events.tasks import JobPlaced
from noetl.tools.quantum import simulator
from noetl.tools.quantum.circuits import circuit_of
from noetl.tools.quantum.jobs import Job, JobContext, JobRequest, JobState
from noetl.tools.quantum.providers import Providers
from noetl.tools.quantum.simulator import Simulator, TooLargeError, counts_of, probabilities
from noetl.tools.quantum.tool import QuantumTool
from tests.tools.quantum_tasks import BELL, World, refused

BELL_3 = """
OPENQASM 3.0;
include "stdgates.inc";
qubit[2] q; bit[2] c;
h q[0]; cx q[0], q[1];
c = measure q;
"""
BELL_LIST = [{"gate": "h", "target": 0}, {"gate": "cx", "control": 0, "target": 1}]
POLICY = {
    "backends": [
        {"name": "small", "provider": "simulator", "qubits": 2, "cost_per_shot": 0.001, "queue_s": 9, "fidelity": 0.9},
        {"name": "large", "provider": "simulator", "qubits": 20, "cost_per_shot": 0.01, "queue_s": 4, "fidelity": 0.99},
    ],
    "placement": {"prefer": "cost", "max_cost": 20},
}


@pytest.mark.req("QNT-01", "QNT-03")
@pytest.mark.parametrize("circuit", [BELL, BELL_3, BELL_LIST])
async def test_a_bell_pair_measures_both_or_neither(circuit: Any) -> None:
    run = World()
    submitted = await run(circuit=circuit, shots=500, seed=7)
    results = await run(op="results", job_id=submitted["job_id"])

    assert submitted["state"] == "DONE"
    assert set(results["counts"]) == {"00", "11"}
    assert sum(results["counts"].values()) == results["shots"] == 500


@pytest.mark.req("QNT-01", "QNT-02")
async def test_a_job_is_queued_runs_and_is_done() -> None:
    run = World()
    submitted = await run({"queue_s": 10, "run_s": 5}, circuit=BELL)
    job_id = submitted["job_id"]
    seen = [submitted["state"]]
    for self_now in (1009.9, 1010.0, 1014.9, 1015.0):
        run.now = self_now
        seen.append((await run(op="status", job_id=job_id))["state"])

    assert seen == ["QUEUED", "QUEUED", "RUNNING", "RUNNING", "DONE"]
    run.now = 1012.0
    error = await refused(run(op="results", job_id=job_id))
    assert (error.kind, error.retryable, error.details["state"]) == ("quantum.job", True, "RUNNING")


@pytest.mark.req("QNT-02")
async def test_a_failed_job_has_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "_has_aer", lambda: False)  # which could run this one
    run = World()
    submitted = await run(circuit=[{"gate": "x", "target": 20}])

    assert (await run(op="status", job_id=submitted["job_id"]))["state"] == "ERROR"
    error = await refused(run(op="results", job_id=submitted["job_id"]))
    assert (error.kind, error.retryable) == ("quantum.job", False)
    assert "16 qubits" in error.message
    assert "provider: aer" in error.message


@pytest.mark.req("QNT-01", "QNT-02")
async def test_a_job_can_be_cancelled_until_it_has_ended() -> None:
    run = World()
    submitted = await run({"queue_s": 10}, circuit=BELL)
    assert (await run(op="cancel", job_id=submitted["job_id"]))["state"] == "CANCELLED"
    assert (await run(op="status", job_id=submitted["job_id"]))["state"] == "CANCELLED"
    done = await run(circuit=BELL)
    assert (await run(op="cancel", job_id=done["job_id"]))["state"] == "DONE"


@pytest.mark.req("QNT-01")
async def test_run_submits_a_job_and_waits_for_it() -> None:
    result = await World()(op="run", circuit=BELL, shots=100)

    assert result["state"] == "DONE"
    assert sum(result["counts"].values()) == 100


@pytest.mark.req("QNT-01")
@pytest.mark.parametrize("shots", [0, -1, 1.5, float("inf"), True, "many"])
async def test_an_invalid_number_of_shots_is_refused(shots: Any) -> None:
    error = await refused(World()(op="run", circuit=BELL, shots=shots))

    assert (error.kind, "whole number" in str(error)) == ("quantum.circuit", True)


@pytest.mark.req("QNT-05")
async def test_the_recorded_inputs_reproduce_the_counts() -> None:
    first, second = [await World()(op="run", circuit=BELL, shots=300, seed=11) for _ in range(2)]
    other = await World()(op="run", circuit=BELL, shots=300, seed=12)

    details = {key: first[key] for key in ("circuit_checksum", "shots", "seed", "provider", "backend", "versions")}
    assert details == {key: second[key] for key in details}
    assert first["counts"] == second["counts"] != other["counts"]
    assert first["circuit_checksum"] == (await World()(circuit=BELL_3))["circuit_checksum"], "the same circuit"
    assert (await World()(circuit=BELL))["seed"] == (await World()(circuit=BELL))["seed"], "one task run, one seed"


@pytest.mark.req("QNT-04")
@pytest.mark.parametrize(("theta", "share"), [(0.0, 0.0), (math.pi / 2, 0.5), (math.pi, 1.0)])
async def test_an_angle_rotates_a_qubit(theta: float, share: float) -> None:
    circuit = [{"gate": "rx", "target": 0, "theta": "angle"}, {"gate": "measure", "target": 0}]

    result = await World()(op="run", circuit=circuit, parameters={"angle": theta}, shots=2000, seed=1)

    assert result["counts"].get("1", 0) / 2000 == pytest.approx(share, abs=0.05)


@pytest.mark.req("QNT-03")
async def test_an_unknown_provider_is_reported_with_advice() -> None:
    error = await refused(World()(provider="ionic", circuit=BELL))

    assert error.kind == "quantum.provider_unavailable"
    assert "provider_stand_ins = ionic=simulator" in error.message


@pytest.mark.req("QNT-03")
async def test_the_simulator_can_replace_a_provider_by_configuration() -> None:
    run = World(stand_ins=("ibm=simulator",))
    submitted = await run(provider="ibm", circuit=BELL)

    assert (submitted["provider"], submitted["run_by"]) == ("ibm", "simulator")
    assert (await run(op="results", job_id=submitted["job_id"]))["state"] == "DONE"
    bad = await refused(World(stand_ins=("ibm",))(provider="ibm", circuit=BELL))
    assert "ibm=simulator" in bad.message


class Elsewhere:
    """A provider of a plug-in."""

    def __init__(self) -> None:
        self.asked: list[JobRequest] = []

    async def submit(self, request: JobRequest, around: JobContext) -> Job:
        self.asked.append(request)
        return Job(job_id="j:1", state=JobState.QUEUED)

    async def status(self, job_id: str, around: JobContext) -> Job:
        return Job(job_id=job_id, state=JobState.RUNNING)

    async def results(self, job_id: str, around: JobContext) -> Job:
        return Job(job_id=job_id, state=JobState.DONE, counts={"0": 3, "1": 1})

    async def cancel(self, job_id: str, around: JobContext) -> Job:
        return Job(job_id=job_id, state=JobState.CANCELLED)


@pytest.mark.req("QNT-03")
async def test_a_plug_in_receives_the_circuit_and_its_own_job_id() -> None:
    run, elsewhere = World(policy={"hints": {"level": 3}}), Elsewhere()
    run.tool = QuantumTool(Providers({"there": elsewhere}))
    submitted = await run(provider="there", circuit=BELL, shots=4, backend="b")

    assert submitted["job_id"] == "there:j:1"
    [request] = elsewhere.asked
    assert (request.source, request.shots, request.backend, request.hints) == (BELL, 4, "b", {"level": 3})
    assert (await run(op="status", job_id="there:j:1"))["state"] == "RUNNING"
    assert (await run(op="results", job_id="there:j:1"))["counts"] == {"0": 3, "1": 1}
    assert isinstance(Providers().provider("simulator"), Simulator)


class Hesitant(Elsewhere):
    """It takes its time to accept a job, and never comes to run it."""

    def __init__(self) -> None:
        super().__init__()
        self.asking, self.accepting = asyncio.Event(), asyncio.Event()
        self.cancelled: list[str] = []

    async def submit(self, request: JobRequest, around: JobContext) -> Job:
        self.asking.set()
        await self.accepting.wait()
        return await super().submit(request, around)

    async def status(self, job_id: str, around: JobContext) -> Job:
        self.asking.set()
        return Job(job_id=job_id, state=JobState.QUEUED)

    async def cancel(self, job_id: str, around: JobContext) -> Job:
        self.cancelled.append(job_id)
        return await super().cancel(job_id, around)


@pytest.mark.req("SRV-11", "QNT-02")
@pytest.mark.parametrize("op", ["submit", "run"])
async def test_a_job_submitted_while_its_task_is_cancelled_is_cancelled(op: str) -> None:
    """Nobody would know of it otherwise, and somebody would pay for it."""
    run, there = World(), Hesitant()
    run.tool = QuantumTool(Providers({"there": there}))
    task = asyncio.ensure_future(run(op=op, provider="there", circuit=BELL))
    await there.asking.wait()
    task.cancel()
    await asyncio.sleep(0)
    there.accepting.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert there.cancelled == ["j:1"]


@pytest.mark.req("SRV-11", "QNT-02")
async def test_a_job_whose_run_is_cancelled_is_cancelled() -> None:
    run, there = World(), Hesitant()
    run.tool = QuantumTool(Providers({"there": there}))
    there.accepting.set()
    task = asyncio.ensure_future(run(op="run", provider="there", circuit=BELL))
    while "there:j:1" not in run.cleanups:
        await asyncio.sleep(0)
    there.asking.clear()
    await there.asking.wait()  # for its state
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert there.cancelled == ["j:1"]
    assert run.cleanups == {}


THREE = [{"gate": "h", "target": 2}]


@pytest.mark.req("QNT-06")
@pytest.mark.parametrize(
    ("placement", "circuit", "expected"),
    [
        ({"prefer": "cost"}, BELL, "small"),
        ({"prefer": "cost"}, THREE, "large"),
        ({"prefer": "queue"}, BELL, "large"),
        ({"prefer": "fidelity"}, BELL, "large"),
        ({"prefer": "cost", "min_qubits": 3}, BELL, "large"),
    ],
)
async def test_a_job_is_placed_on_the_best_suitable_backend(placement: Any, circuit: Any, expected: str) -> None:
    run = World(policy={**POLICY, "placement": placement})

    submitted = await run(circuit=circuit, shots=1000)

    assert submitted["backend"] == expected
    [(make, details)] = run.placed
    assert (make, details["backend"]) == (JobPlaced, expected)
    assert [one["name"] for one in details["considered"]] == ["small", "large"]


@pytest.mark.req("QNT-06")
async def test_a_job_without_a_suitable_backend_is_refused_with_the_reasons() -> None:
    error = await refused(World(policy={**POLICY, "placement": {"max_cost": 5}})(circuit=THREE, shots=1000))

    assert error.kind == "quantum.placement"
    assert error.message == (
        "no backend takes this job (small: it has 2 qubits, and 3 are needed; large: it costs 10, and max_cost is 5)"
    )


@pytest.mark.req("QNT-06")
async def test_a_named_backend_skips_placement() -> None:
    run = World(policy=POLICY)

    assert (await run(circuit=BELL, backend="large"))["backend"] == "large"
    assert run.placed == []


@pytest.mark.req("QNT-01")
@pytest.mark.parametrize(
    ("circuit", "says"),
    [
        (None, "OpenQASM text or a list"),
        ([], "no qubits"),
        ([{"gate": "zap", "target": 0}], 'no gate "zap"'),
        ([{"gate": "cx", "target": 0}], "takes 2 qubits"),
        ([{"gate": "cx", "control": 0, "target": 0}], "same qubit twice"),
        ([{"gate": "rx", "target": 0}], "takes 1 angles"),
        ([{"gate": "rx", "target": 0, "theta": "nope"}], "name of a parameter"),
        ([{"gate": "h", "target": -1}], "from 0 to"),
        ("qreg q[1]; h q[0]", 'does not end with ";"'),
        ("qreg q[1]; h q[3];", "none of it"),
        ("qreg q[1]; creg c[1]; if (c==1) x q[0];", '"if" is not supported'),
        ("qubit[2] q; rx(1/0) q[0];", "division by zero"),
        ("input float a; qubit q; rx(a) q;", '"a" is not given'),
        ("gate g a { g a; } qubit q; g q;", "leads to itself"),
        ("qreg q[9999999999];", "at most"),
        ("qubit[2] q; bit c; c = measure q;", "cannot be measured"),
    ],
)
def test_an_invalid_circuit_is_reported_with_its_place(circuit: Any, says: str) -> None:
    with pytest.raises(ToolError) as caught:
        circuit_of(circuit, {})
    assert caught.value.kind == "quantum.circuit"
    assert says in caught.value.message


@pytest.mark.req("QNT-03")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("qubit[3] q; x q[0]; swap q[0], q[2];", {"100": 1}),
        ("qubit[3] q; x q[0]; x q[1]; ccx q[0], q[1], q[2];", {"111": 1}),
        ("qubit[2] q; h q; cz q[0], q[1]; h q[1];", {"00": 0.5, "11": 0.5}),
        ("gate flip(a) p { rx(a*2) p; } qubit[2] q; flip(pi/2) q[1];", {"10": 1}),
        ("qubit q; bit[2] c; h q; c[0] = measure q; x q; c[1] = measure q;", {"10": 0.5, "01": 0.5}),
        ("qubit q; bit c; h q; reset q; c = measure q;", {"0": 1}),
        ("qreg q[2]; u3(pi,0,pi) q[0]; cu1(pi) q[0],q[1]; sdg q[1]; tdg q[0];", {"01": 1}),
        ("qubit[2] q; ry(2*acc) q[0];", {"00": 0.75, "01": 0.25}),
    ],
)
def test_circuits_compute_what_their_gates_define(text: str, expected: dict[str, float]) -> None:
    found = probabilities(circuit_of(text, {"acc": math.pi / 6} if "acc" in text else {}))

    assert {outcome: pytest.approx(share) for outcome, share in found.items()} == expected


def test_an_oversized_circuit_is_refused_before_it_runs() -> None:
    with pytest.raises(TooLargeError, match="16 qubits"):
        counts_of(circuit_of([{"gate": "h", "target": 16}], {}), 1, 1)
