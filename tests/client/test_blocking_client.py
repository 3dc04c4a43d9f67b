"""The blocking client is what `make client` makes of the asynchronous one."""

from __future__ import annotations

import inspect

from noetl.client import AsyncClient, Client
from tools.blocking_client import blocking_modules


def test_the_generated_blocking_client_is_current() -> None:
    stale = [place.name for place, text in blocking_modules().items() if place.read_text("utf-8") != text]

    assert stale == [], "run `make client` and commit what it writes"


def test_both_clients_have_the_same_calls_with_the_same_arguments() -> None:
    calls = {name for name in dir(AsyncClient) if not name.startswith("_")}

    assert calls == {name for name in dir(Client) if not name.startswith("_")}
    for name in calls:
        here, there = getattr(AsyncClient, name), getattr(Client, name)
        assert [*inspect.signature(here).parameters] == [*inspect.signature(there).parameters], name
