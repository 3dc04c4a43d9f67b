"""The page of metrics names every series that a server has."""

from __future__ import annotations

from noetl.server.metrics import Meters, PlaybookMeters
from tests.docs.pages import ROOT


def test_every_metric_is_on_the_page() -> None:
    meters = Meters()
    PlaybookMeters(meters.registry)
    page = (ROOT / "docs" / "observability.md").read_text()

    missing = [
        name
        for family in meters.registry.collect()
        if (name := f"{family.name}_total" if family.type == "counter" else family.name)
        and f"`{name}`" not in page
        and f"`{name}{{" not in page
    ]

    assert missing == []
