"""What playbooks in the wild lead to, and that they lead there too once they are migrated (design.md §5, MIG-02)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.language.migrating.migrator import migrate
from noetl.tools.kinds import KINDS
from tests.placements.cases import Case
from tests.placements.observations import Told
from tests.placements.places import Embedded
from tests.placements.wild_world import CASES, WANTED, Wanted

BLOCKED = {  # what v10 cannot say, by the words of the one remark about it
    "v2_case_polling": 'read the task "save"',
}
OLDER = [case for case in CASES if case.name.startswith("v2")]


def ran(case: Case, folder: Path) -> Told:
    return asyncio.run(Embedded(folder).ran(case))


def ended(told: Told) -> tuple[str, Wanted]:
    return told.status, Wanted(told.result, told.ctx, told.rows)


def test_every_playbook_of_the_folder_has_an_expected_result() -> None:
    assert [case.name for case in CASES] == sorted(WANTED)


@pytest.mark.req("WRK-08")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_playbook_from_the_wild_gives_its_expected_result(case: Case, tmp_path: Path) -> None:
    assert ended(ran(case, tmp_path)) == ("completed", WANTED[case.name])


@pytest.mark.req("MIG-02", "MIG-03")
@pytest.mark.parametrize("case", OLDER, ids=lambda case: case.name)
def test_a_migrated_playbook_from_the_wild_gives_the_same_result(case: Case, tmp_path: Path) -> None:
    """Variables of a step run are kept in `ctx` by v10, under names of their own."""
    source = Source(f"{case.name}.yaml", case.playbook)
    playbook = check(source, kinds=KINDS).playbook
    assert playbook is not None

    migration = migrate(source, playbook)

    assert [BLOCKED[case.name] in note.message for note in migration.blocked] == [True] * (case.name in BLOCKED)
    if case.name not in BLOCKED:
        told = ran(msgspec.structs.replace(case, text=migration.text), tmp_path)
        wanted = WANTED[case.name]
        kept = {name: value for name, value in told.ctx.items() if name in wanted.ctx}
        assert (told.status, Wanted(told.result, kept, told.rows)) == ("completed", wanted)
