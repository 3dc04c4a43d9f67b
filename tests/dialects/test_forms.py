"""The same playbook in v2-case, v2-eval, v10 and migrated form does the same (C-01…48, MIG-02, MIG-03)."""

from __future__ import annotations

import pytest

from tests.dialects.forms import DIALECTS, Playbook, playbooks, run_form
from tests.engine_script import net_of

ALL = playbooks()


@pytest.mark.req("MIG-02", "MIG-03", "DIA-06")
@pytest.mark.parametrize(
    ("playbook", "form"),
    [pytest.param(one, form, id=f"{one.name}-{form}") for one in ALL for form in one.forms()],
)
def test_every_spelling_gives_the_same_result_and_task_runs(playbook: Playbook, form: str) -> None:
    told = run_form(playbook, form).summary(playbook.moved if "migrated" in form else {})

    assert told == playbook.expected(form)


def test_at_least_sixty_playbooks_are_written_and_most_in_every_dialect() -> None:
    assert len(ALL) >= 60
    assert len([one for one in ALL if set(DIALECTS) <= set(one.written)]) >= 40


@pytest.mark.req("DIA-08")
def test_every_spelling_that_is_not_migrated_is_read_as_its_own_dialect() -> None:
    for one in ALL:
        for form, text in one.written.items():
            assert net_of(text).dialect == form.partition(",")[0], (one.name, form)


@pytest.mark.req("MIG-02", "MIG-03", "TPL-01")
@pytest.mark.parametrize("playbook", ALL, ids=lambda one: one.name)
def test_every_spelling_makes_the_same_tool_calls(playbook: Playbook) -> None:
    """The inputs that each tool was given, rendered, in the order of the calls."""
    asked = {form: run_form(playbook, form).calls for form in playbook.forms()}

    assert {form: calls for form, calls in asked.items() if calls != asked["v10"]} == {}
