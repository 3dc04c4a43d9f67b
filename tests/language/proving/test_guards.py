"""Guards: what the small abstract domain can tell, and what it must leave open."""

from __future__ import annotations

import pytest

from noetl.language.proving import guards
from noetl.templates.values import Authored


@pytest.mark.parametrize(
    ("guard", "event", "truth"),
    [
        (True, None, True),
        (False, "step.done", False),
        ("{{ true }}", None, True),
        ("{{ event.name == 'step.done' }}", "step.done", True),
        ("{{ event.name == 'step.done' }}", "step.failed", False),
        ("{{ event.name != 'step.failed' }}", "loop.done", True),
        ("{{ event.name in ['step.done', 'loop.done'] }}", "loop.done", True),
        ("{{ event.name == 'call.done' }}", "loop.done", True),
        ("{{ event.name == 'call.error' }}", "step.failed", True),
        ("{{ event.name == 'step.exit' }}", "timer.fired", True),
        ("{{ event.name == 'step.enter' }}", "step.done", False),
        ("{{ event.name == 'step.done' and ctx.n > 1 }}", "step.done", None),
        ("{{ event.name == 'step.done' and ctx.n > 1 }}", "step.failed", False),
        ("{{ ctx.n > 1 and ctx.n < 1 }}", None, False),
        ("{{ ctx.n > 1 or ctx.n <= 1 }}", None, None),  # undefined is neither
        ("{{ ctx.ok or not ctx.ok }}", None, True),
        ("{{ ctx.a | length > 3 }}", None, None),
        ("{{ ctx.a | length > 3 and not ctx.a | length > 3 }}", None, False),
    ],
)
@pytest.mark.req("ADV-06")
def test_a_guard_is_certain_only_if_no_value_can_change_it(
    guard: object, event: str | None, truth: bool | None
) -> None:
    assert guards.truth(Authored(guard), event) is truth


@pytest.mark.parametrize(
    ("conditions", "covered"),
    [
        (["{{ ctx.n > 5 }}", "{{ ctx.n <= 5 }}"], True),
        (["{{ ctx.n > 5 }}", "{{ ctx.n < 5 }}"], False),
        (["{{ ctx.n > 5 }}", "{{ ctx.n < 5 }}", "{{ ctx.n == 5 }}"], True),
        (["{{ ctx.n > 5 }}", "{{ ctx.m <= 5 }}"], False),
        (["{{ ctx.ok }}", "{{ not ctx.ok }}"], True),
        (["{{ ctx.ok == true }}", "{{ ctx.ok == false }}"], True),
        (["{{ ctx.k == 'a' }}", "{{ ctx.k == 'b' }}"], False),
        (["{{ ctx.k in ['a', 'b'] }}", "{{ ctx.k not in ['a', 'b'] }}"], True),
        ([], False),
    ],
)
def test_complementary_guards_cover_every_case(conditions: list[str], covered: bool) -> None:
    assert guards.covered([Authored(condition) for condition in conditions], "step.done") is covered


@pytest.mark.parametrize(
    ("guard", "earlier", "implied"),
    [
        ("{{ ctx.n > 10 }}", "{{ ctx.n > 5 }}", True),
        ("{{ ctx.n > 5 }}", "{{ ctx.n > 10 }}", False),
        ("{{ ctx.n == 7 }}", "{{ ctx.n > 5 }}", True),
        ("{{ ctx.k == 'a' }}", "{{ ctx.k in ['a', 'b'] }}", True),
        ("{{ ctx.k == 'c' }}", "{{ ctx.k in ['a', 'b'] }}", False),
        ("{{ ctx.ok and ctx.n > 1 }}", "{{ ctx.ok }}", True),
        ("{{ not ctx.n }}", "{{ ctx.n > 5 or ctx.n <= 5 }}", False),  # undefined is neither, and falsy
        ("{{ f.x | length > 1 }}", "{{ f.x | length > 1 }}", True),
    ],
)
def test_a_narrower_guard_is_implied_by_a_wider_one(guard: str, earlier: str, implied: bool) -> None:
    assert guards.implied(Authored(guard), [Authored(earlier)], None) is implied


def test_too_many_combinations_leave_the_guard_undecided() -> None:
    wide = " or ".join(f"ctx.k{i} == {i}" for i in range(30))

    assert guards.truth(Authored(f"{{{{ ({wide}) and false }}}}"), None) in (False, None)
    assert guards.possible([Authored(f"{{{{ {wide} }}}}")], [Authored(f"{{{{ {wide} }}}}")], None)
