"""The two policies answer every question of the contract, and nobody else asks which of the two it is."""

from __future__ import annotations

import re
from pathlib import Path

import noetl.control
from noetl.control.commit.sharing import TRUST_S, OwnExecutions, SharedExecutions, SharingPolicy

CONTROL = Path(noetl.control.__file__).parent


def test_memory_of_own_executions_is_believed_and_that_of_shared_ones_for_a_while() -> None:
    own, shared = OwnExecutions(), SharedExecutions()

    assert not own.may_have_moved(0.0, 1e9, is_contended=True)
    assert not shared.may_have_moved(100.0, 100.0 + TRUST_S, is_contended=False)
    assert shared.may_have_moved(100.0, 100.5 + TRUST_S, is_contended=False)
    assert shared.may_have_moved(100.0, 100.0, is_contended=True), "it may be moved again at any moment"


def test_both_policies_answer_the_same_questions() -> None:
    questions = {name for name in vars(SharingPolicy) if not name.startswith("_")}

    for policy in (OwnExecutions, SharedExecutions):
        assert {name for name in vars(policy) if not name.startswith("_")} == questions


def test_nobody_asks_whether_executions_are_shared() -> None:
    asking = re.compile(r"is_shared|isinstance\([^)]*(Own|Shared)Executions")

    assert [file.name for file in CONTROL.rglob("*.py") if asking.search(file.read_text("utf-8"))] == []
