"""`examples/saga.yaml` undoes what was booked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import call
from tests.examples.running import EXAMPLES


@pytest.mark.req("SAGA-02")
@pytest.mark.parametrize(("full", "said"), [("true", "nothing was booked"), ("false", "have a good trip")])
def test_a_trip_is_booked_or_compensated(tmp_path: Path, full: str, said: str) -> None:
    code, out, told = call("run", str(EXAMPLES / "saga.yaml"), "--set", f"full={full}", "--db", str(tmp_path / "n.db"))

    assert code == 0, told
    assert said in out
    assert ("↶ undone" in told + out) is (full == "true")
