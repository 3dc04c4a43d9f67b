"""The declaration of the kind: its inputs, its policy and the operations that submit a job."""

from __future__ import annotations

from noetl.net.kinds import AUTH, COUNT, DURATION, INTEGER, OBJECT, TEXT, Input, ToolKind, one_of

QUANTUM = ToolKind(
    name="quantum",
    error_kinds=("quantum.circuit", "quantum.job", "quantum.placement", "quantum.provider_unavailable"),
    doc="Submits and follows jobs on quantum computers and simulators.",
    inputs=(
        Input(name="op", schema=one_of("submit", "status", "results", "cancel", "run"), doc="submit when left out."),
        Input(name="provider", schema=TEXT, doc="simulator when left out; aer, ibm, or one of a plug-in."),
        Input(name="backend", schema=TEXT, doc="Backend; chosen by executor.spec.policy.quantum when left out."),
        Input(
            name="circuit",
            schema={"anyOf": [TEXT, {"type": "array", "items": OBJECT}]},
            doc="OpenQASM text or a list of gates.",
        ),
        Input(name="shots", schema=COUNT, doc="Number of shots; 1024 when left out."),
        Input(name="parameters", schema=OBJECT, doc="Values of the circuit's parameters."),
        Input(name="seed", schema=INTEGER, doc="Seed of the simulator."),
        Input(name="job_id", schema=TEXT, doc="Job to ask about."),
        AUTH,
    ),
    spec=(
        Input(
            name="queue_s", schema=DURATION, doc="How long a job of the simulator waits in its queue; 0 when left out."
        ),
        Input(name="run_s", schema=DURATION, doc="How long a job of the simulator runs; 0 when left out."),
    ),
    defaults={"timeout": 300},
    policy_doc="Backends and placement of quantum jobs.",
    job_ops=("", "submit", "run"),
)

KINDS = (QUANTUM,)
