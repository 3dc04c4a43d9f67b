"""The playbooks that are written in several dialects, in each of their forms, their tools answering by a script."""

from __future__ import annotations

from tests.dialects.forms import Playbook, _answers, playbooks
from tests.placements.cases import Case, hurried
from tests.playbook_runs import Scripted

KINDS = ("http", "postgres", "python")


def _case(playbook: Playbook, form: str) -> Case:
    def script() -> Scripted:
        return Scripted(**{task: _answers(given) for task, given in playbook.answers.items()})

    name = f"{playbook.name}, {form}"
    return Case(name=name, text=lambda: hurried(playbook.text(form)), kinds=KINDS, script=script)


CASES = [_case(playbook, form) for playbook in playbooks() for form in playbook.forms()]
