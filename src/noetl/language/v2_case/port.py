"""The entry point of v2-case: the queries of the other language packages to the dialect.

Each function loads its part when it is called: few documents are in this dialect, and reading any other one should not
pay for it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl.language.compiling.lowering.tasks import TaskLowering
    from noetl.language.compiling.lowering.values import Lowering
    from noetl.language.migrating.document_editor import SourceDocument
    from noetl.language.migrating.notes import Notes
    from noetl.language.proving.firings import Targets
    from noetl.language.proving.graph import Firing
    from noetl.language.reading.nodes import Mapping
    from noetl.language.reading.playbook import Playbook, StepSyntax
    from noetl.language.reading.shared_checks import ReadContext
    from noetl.language.reading.spellings.model import Rewriting, Spelling
    from noetl.language.v2_case.migration.steps import CaseSteps
    from noetl.net.net import Transition
    from noetl.net.routing import Case


def read(root: Mapping, context: ReadContext) -> Playbook | None:
    """The document at `root`, which is in this dialect."""
    from noetl.language.v2_case.reader import read_v2_case

    return read_v2_case(root, context)


def is_nothing(step: Mapping) -> bool:
    """Whether a step has nothing that this dialect would execute."""
    from noetl.language.v2_case.reader import STEP_CONTENT, is_written

    return not any(is_written(step.get(key)) for key in STEP_CONTENT)


def lower_rules(lowering: Lowering, step: StepSyntax, tasks: TaskLowering) -> Case | None:
    """The rules of a step as data of the net; None where it has none."""
    if step.case is None:
        return None
    from noetl.language.v2_case.rules import lower_case

    return lower_case(lowering, step, step.case, tasks)


def firings(step: Transition, targets: Targets) -> list[Firing] | None:
    """How a run of a step can end by its rules; None where it has none."""
    if step.case is None:
        return None
    from noetl.language.v2_case.firings import case_firings

    return case_firings(step, step.case, targets)


def migrated_steps(
    playbook: Playbook, old: SourceDocument, notes: Notes, kept: Collection[int] = frozenset()
) -> CaseSteps:
    """The steps of a document as v10, but for those that begin at an offset of `kept`, which are v10 already."""
    from noetl.language.migrating.fragments import Copier
    from noetl.language.v2_case.migration.steps import CaseSteps

    return CaseSteps(playbook, Copier(old, {"vars": "ctx"}), notes, kept)


def with_tasks_of_rules(step: Mapping, rewriting: Rewriting) -> Mapping:
    """A step of mixed dialects with the tasks of its rules in its pipeline."""
    from noetl.language.v2_case.migration.tasks import with_tasks_of_rules

    return with_tasks_of_rules(step, rewriting)


def retry_spellings() -> tuple[Spelling, ...]:
    """Accepted words for trying again. They come before those of other dialects, which would take the same keys."""
    from noetl.language.v2_case.rule_spellings import RETRY_SPELLINGS

    return RETRY_SPELLINGS


def rule_spellings() -> tuple[Spelling, ...]:
    """Accepted words for rules and what they do, shapes before the words within them."""
    from noetl.language.v2_case import action_spellings as actions
    from noetl.language.v2_case import rule_spellings as rules

    return (*rules.SPELLINGS, *actions.SPELLINGS)
