"""The command line of these tests is patient: a busy machine may take its time to answer."""

from __future__ import annotations

import pytest

from noetl.cli import completion
from noetl.operations import local, local_commands

PATIENT_S = 60.0


class NoPatience(float):
    """How long somebody may be waited for where nobody is to be waited for at all."""

    def __radd__(self, now: float) -> float:
        raise AssertionError("somebody is waited for")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is asked and does not answer in time is done without, which is another way to the same end."""
    for module, name in (
        (local, "_DELIVERY_S"),
        (local_commands, "ANSWER_TIMEOUT_S"),
        (completion, "TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, PATIENT_S)


@pytest.fixture
def nobody_is_waited_for(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that begins to wait for a running process fails."""
    monkeypatch.setattr(local_commands, "ANSWER_TIMEOUT_S", NoPatience())
