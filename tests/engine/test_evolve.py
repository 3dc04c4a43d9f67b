"""Every event there is changes the state in one place, or is known to change nothing."""

from __future__ import annotations

from typing import get_args

import pytest

from noetl.engine.evolve import HANDLERS
from noetl.events.events import Payload


@pytest.mark.req("EVT-07")
def test_every_event_type_has_a_handler() -> None:
    assert set(HANDLERS) == set(get_args(Payload))
