"""Findings about guards that need no run."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.language.compiling.guards import Facts, cover, decided
from noetl.templates.expression import parse

FACTS: Facts = {("event", ("name",)): frozenset({"step.done", "call.done"})}


@pytest.mark.parametrize(
    ("guard", "told"),
    [
        ("event.name == 'step.done'", True),
        ("event.name == 'call.done'", True),
        ("event.name == 'step.failed'", False),
        ("event.name != 'step.failed'", True),
        ("event.name in ['loop.done', 'step.done']", True),
        ("event.name not in ['step.done']", False),
        ("event.name", True),
        ("event.name is defined", True),
        ("event.name == 'step.done' and ctx.x", None),
        ("event.name == 'step.failed' and ctx.x", False),
        ("event.name == 'step.done' or ctx.x", True),
        ("not event.name == 'step.done'", False),
        ("not ctx.x", None),
        ("ctx.n > 1", None),
        ("1 == 1", True),
    ],
)
def test_a_guard_is_decided_only_if_unknown_parts_make_no_difference(guard: str, told: bool | None) -> None:
    assert decided(parse(f"{{{{ {guard} }}}}").shape, FACTS) is told


@pytest.mark.parametrize(
    ("guards", "complete"),
    [
        (["ctx.x", "not ctx.x"], True),
        (["ctx.x", "ctx.y"], False),
        (["ctx.x and ctx.y", "ctx.x and not ctx.y", "not ctx.x"], True),
        (["event.name == 'step.done' and ctx.x", "not ctx.x"], True),
        ([], False),
        ([" and ".join(f"ctx.k{n}" for n in range(12)), "ctx.z"], False),
    ],
)
def test_guards_cover_all_combinations_that_are_possible(guards: list[Any], complete: bool) -> None:
    assert cover([parse(f"{{{{ {guard} }}}}").shape for guard in guards], FACTS) is complete
