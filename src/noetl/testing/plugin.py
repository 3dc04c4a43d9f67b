"""The pytest plug-in: one fixture. Nothing of NoETL is imported before a test asks for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from noetl.testing.playbook_runs import Ran

_YEAR_S = 366 * 86_400.0


class RunPlaybook(Protocol):
    """The type of the fixture. `playbook` is a file, relative to the test's own folder or to where pytest was
    started, or the text of one; `within_s` are seconds of virtual time."""

    def __call__(
        self,
        playbook: str | Path,
        workload: Mapping[str, Any] | None = None,
        *,
        tools: Mapping[str, Any] | None = None,
        credentials: Mapping[str, str | dict[str, Any]] | None = None,
        messages: Sequence[tuple[str, dict[str, Any], Any]] = (),
        people: Mapping[str, Mapping[str, Any]] | None = None,
        allow: Collection[str] = (),
        within_s: float = _YEAR_S,
    ) -> Ran: ...


@pytest.fixture
def run_playbook(request: pytest.FixtureRequest) -> RunPlaybook:
    """Run a playbook in memory and in virtual time: `run_playbook("orders.yaml", {"n": 3}, tools={"http": {...}})`."""

    def run(
        playbook: str | Path,
        workload: Mapping[str, Any] | None = None,
        *,
        tools: Mapping[str, Any] | None = None,
        credentials: Mapping[str, str | dict[str, Any]] | None = None,
        messages: Sequence[tuple[str, dict[str, Any], Any]] = (),
        people: Mapping[str, Mapping[str, Any]] | None = None,
        allow: Collection[str] = (),
        within_s: float = _YEAR_S,
    ) -> Ran:
        from noetl.testing.playbook_runs import Story, run_story

        story = Story(
            workload=workload or {},
            tools=tools or {},
            credentials=credentials or {},
            messages=messages,
            people=people or {},
            allow=allow,
            within_s=within_s,
        )
        return run_story(_find_playbook(playbook, request.path.parent), story)

    return run


def _find_playbook(playbook: str | Path, beside: Path) -> str | Path:
    """The file beside the test or the path as given; a text with a line break is a playbook itself."""
    if isinstance(playbook, str) and "\n" in playbook:
        return playbook
    own = beside / playbook
    return own if own.exists() else Path(playbook)
