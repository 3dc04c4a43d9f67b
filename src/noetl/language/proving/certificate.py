"""The certificate: what was proved about one net, kept beside it under the net's content hash (beyond.md §2, ADV-06).

Plain data that serialises to JSON. `analyse` is the only door to this room.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from noetl.base.diagnostics import Diagnostic, in_order
from noetl.language.proving.arcs import arc_cycles
from noetl.language.proving.dataflow import used_before_set
from noetl.language.proving.firings import build
from noetl.language.proving.graph import Graph
from noetl.language.proving.pipelines import pipeline_findings
from noetl.language.proving.resources import resource_findings
from noetl.language.proving.routing import routing_findings
from noetl.language.proving.soundness import UNSOUND, Soundness, judge, soundness_findings
from noetl.language.proving.source_positions import CycleReason, PlacedFinding
from noetl.language.proving.witness import Move
from noetl.net.debug import DebugMap
from noetl.net.net import Net, content_hash

BUDGET = 400_000  # combinations looked at before soundness is left undecided; well under half a second

Verdict = Literal["sound", "unsound", "not decided"]


class Witness(msgspec.Struct, frozen=True):
    """The firing sequence behind one finding, to be played as moving tokens."""

    code: str
    path: str
    message: str
    moves: tuple[Move, ...]


class CertificateMark(msgspec.Struct, frozen=True):
    """Where in the net a finding stands, by address of the debug map, for drawings."""

    code: str
    address: str


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the net, and the work the proof took: combinations of outcomes, markings of the search."""

    steps: int
    arcs: int
    forks: int
    joins: int
    cycles: int
    combinations: int
    markings: int


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What was proved of one net. Stored as JSON beside it."""

    verdict: Verdict
    hash: str  # of the net that it is about: a certificate of another version proves nothing
    findings: tuple[Diagnostic, ...] = ()  # in document order
    witnesses: tuple[Witness, ...] = ()  # of those findings that a firing sequence shows
    marks: tuple[CertificateMark, ...] = ()
    reasons: tuple[CycleReason, ...] = ()  # why each cycle ends
    statistics: Statistics


def analyse(net: Net, debug: DebugMap, *, budget: int = BUDGET) -> Certificate:
    """Prove what can be proved about `net`; findings are placed through `debug`."""
    graph = build(net)
    result = judge(graph, budget)
    cycle_findings, reasons = arc_cycles(net, graph)
    task_findings, task_reasons = pipeline_findings(net)
    found = soundness_findings(graph, result)
    unsound = any(finding.code in UNSOUND for finding in found)
    found += cycle_findings + task_findings + routing_findings(net) + resource_findings(net)
    found += used_before_set(net, graph)
    return Certificate(
        verdict="unsound" if unsound else "not decided" if result.undecided else "sound",
        hash=content_hash(net),
        findings=tuple(in_order(finding.diagnostic(debug) for finding in found)),
        witnesses=tuple(_witness(finding, debug) for finding in found if finding.moves),
        marks=tuple(CertificateMark(finding.code, finding.addresses[0]) for finding in found),
        reasons=tuple(reasons + task_reasons),
        statistics=_statistics(graph, result, len(reasons) + len(task_reasons)),
    )


def _witness(finding: PlacedFinding, debug: DebugMap) -> Witness:
    placed = finding.diagnostic(debug)
    return Witness(finding.code, placed.path, finding.message, finding.moves)


def _statistics(graph: Graph, result: Soundness, cycles: int) -> Statistics:
    return Statistics(
        steps=sum(step.written for step in graph.steps),
        arcs=len({way.address for _, _, way in graph.ways()}),
        forks=sum(step.forks for step in graph.steps),
        joins=sum(step.join is not None for step in graph.steps),
        cycles=cycles,
        combinations=result.work,
        markings=result.states,
    )
