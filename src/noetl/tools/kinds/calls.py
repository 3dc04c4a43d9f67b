"""Kinds that call something the system itself keeps: playbooks, workbook tasks, secrets, quantum jobs."""

from __future__ import annotations

from noetl.net.kinds import Input, ToolKind
from noetl.tools.kinds.schema_fragments import ARGS, AUTH, COUNT, DURATION, INTEGER, OBJECT, TEXT, one_of

PLAYBOOK = ToolKind(
    name="playbook",
    error_kinds=("playbook.failed",),
    doc="Starts another playbook, waits for it and returns its result.",
    inputs=(
        Input(name="path", schema=TEXT, doc="Catalogue path of the playbook.", required=True, aliases=("playbook",)),
        Input(
            name="version",
            schema={"type": ["string", "number"]},
            doc="Version to start; the newest when left out, or `latest`.",
        ),
        Input(
            name="args",
            schema=OBJECT,
            doc="Payload of the child: laid over its workload.",
            aliases=("payload", "workload", "data"),
        ),
        Input(name="return_step", schema=TEXT, doc="Step of the child whose result is returned."),
    ),
    unwraps=True,
)

WORKBOOK = ToolKind(
    name="workbook",
    doc="A reference to a task of the workbook; further keys are laid over that task.",
    inputs=(
        Input(name="task", schema=TEXT, doc="Name of the workbook task; the task's own name when left out."),
        ARGS,
    ),
    open_inputs=True,
)

SECRETS = ToolKind(
    name="secrets",
    error_kinds=("keychain.unresolved",),
    doc="Looks up one secret by name, or renews one keychain entry.",
    inputs=(
        Input(name="op", schema=one_of("get", "refresh"), doc="get when left out."),
        Input(
            name="secret",
            schema=TEXT,
            doc="Name of the secret or keychain entry; the task's own name when left out.",
            required=True,
            from_name=True,
            aliases=("key", "entry", "secret_name"),
        ),
        Input(name="provider", schema=TEXT, doc="Resolver to ask: env, file, secret_manager, …"),
        Input(name="version", schema={"type": ["string", "number"]}, doc="Version of the secret."),
        AUTH,
    ),
    defaults={"timeout": 300},
)

QUANTUM = ToolKind(
    name="quantum",
    error_kinds=("quantum.circuit", "quantum.job", "quantum.placement", "quantum.provider_unavailable"),
    doc="Submits and follows jobs on quantum computers and simulators.",
    inputs=(
        Input(name="op", schema=one_of("submit", "status", "results", "cancel", "run"), doc="submit when left out."),
        Input(name="provider", schema=TEXT, doc="simulator when left out; aer, ibm, or one of a plug-in."),
        Input(name="backend", schema=TEXT, doc="Backend; placed by executor.spec.policy.quantum when left out."),
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

KINDS = (PLAYBOOK, WORKBOOK, SECRETS, QUANTUM)
