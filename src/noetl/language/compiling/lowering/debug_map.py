"""What lowering carries along, and the debug map it fills as it goes (SUGAR-06)."""

from __future__ import annotations

import msgspec

from noetl.base.diagnostics import PositionedDiagnostic
from noetl.language.compiling.passes import head, key_place
from noetl.language.reading.nodes import Scalar
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.net.debug import DebugMap, Origin
from noetl.net.kinds import Kinds
from noetl.net.task import Directive


class Lowering(msgspec.Struct, frozen=True):
    """What every part of lowering is given."""

    playbook: Playbook
    kinds: Kinds
    debug: DebugMap  # filled on the way; it is no part of the net, so that layout never changes a net's hash
    # The executor's defaults for policies and routers, written into each of them: a net has no defaults to look up.
    on_unmatched: Directive = Directive.CONTINUE
    unguarded_always: bool = False

    def trace(self, address: str, part: PositionedDiagnostic, construct: str = "") -> None:
        """Remember where the element at `address` was written; the first to claim an address keeps it."""
        place = head(part)
        self.debug.setdefault(address, Origin(place.path, place.span, construct))

    def trace_task(self, address: str, task: TaskSyntax) -> None:
        if task.generated:
            self.trace(address, key_place(task.node, task.generated, task), task.generated)
        else:
            kind = task.kind_node if _stands_within(task.kind_node, task) else None
            place = task.name_node or kind or head(task)
            self.debug.setdefault(address, Origin(task.path, place.span, _construct(task)))


def _stands_within(node: Scalar | None, task: TaskSyntax) -> bool:
    """The kind of a workbook reference is written elsewhere, in the definition."""
    return node is not None and node.path.startswith(task.path)


def _construct(task: TaskSyntax) -> str:
    if task.kind_node is not None and not _stands_within(task.kind_node, task):
        return "workbook"
    return "eval" if task.policy is not None and task.policy.strict else ""
