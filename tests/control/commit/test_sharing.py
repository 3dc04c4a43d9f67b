"""The two sharing policies answer every question of the contract, and no other module asks which of the two it is."""

from __future__ import annotations

import re
from pathlib import Path

import noetl.control
from noetl.control.commit.sharing import TRUST_S, OwnExecutions, SharedExecutions, SharingPolicy

CONTROL = Path(noetl.control.__file__).parent


def test_loaded_executions_are_trusted_if_owned_and_for_a_while_if_shared() -> None:
    own, shared = OwnExecutions(), SharedExecutions()

    assert not own.may_have_moved(0.0, 1e9, is_contended=True)
    assert not shared.may_have_moved(100.0, 100.0 + TRUST_S, is_contended=False)
    assert shared.may_have_moved(100.0, 100.5 + TRUST_S, is_contended=False)
    assert shared.may_have_moved(100.0, 100.0, is_contended=True), "it may be moved again at any moment"


def test_both_sharing_policies_have_the_same_methods() -> None:
    questions = {name for name in vars(SharingPolicy) if not name.startswith("_")}

    for policy in (OwnExecutions, SharedExecutions):
        assert {name for name in vars(policy) if not name.startswith("_")} == questions


def test_no_module_branches_on_whether_executions_are_shared() -> None:
    asking = re.compile(r"is_shared|isinstance\([^)]*(Own|Shared)Executions")

    assert [file.name for file in CONTROL.rglob("*.py") if asking.search(file.read_text("utf-8"))] == []
