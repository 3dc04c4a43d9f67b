"""Rules for errors behind a retry that takes them first."""

from __future__ import annotations

import pytest

from tests.language.compiling.outcomes import Compile

ERROR = "outcome.status == 'error'"


def with_rules(retry: str, rule: str, more: str = "") -> str:
    rules = (
        f'{{ when: "{{{{ {retry} }}}}", then: {{ do: retry, attempts: 3{more} }} }}, '
        f'{{ when: "{{{{ {ERROR} }}}}", then: {{ do: fail }} }}'
    )
    first, last = rules.split(", { when")
    return (
        "- step: start\n  tool:\n    - { name: t, kind: http, url: u, spec: { policy: { rules: "
        f"[{first}, {rule}, {{ when{last}] }} }} }}\n    - {{ name: u, kind: noop }}\n"
    )


def handled(when: str, do: str = "jump, to: u") -> str:
    return f'{{ when: "{{{{ {when} }}}}", then: {{ do: {do} }} }}'


@pytest.mark.req("VAL-20", "POL-06")
@pytest.mark.parametrize(
    ("retry", "rule", "warned"),
    [
        (f"{ERROR} and outcome.http.status in [502, 503]", handled(ERROR), True),
        (ERROR, handled(ERROR, "continue"), True),
        ("outcome.http.status == 503", handled("outcome.http.status in [404, 503]", "break"), True),
        ("outcome.http.status == 503", handled("outcome.http.status == 404"), False),
        ("outcome.error.kind == 'timeout'", handled("outcome.http.status == 404"), False),
        (f"{ERROR} and _attempt < 3", handled(ERROR), False),
        (ERROR, handled("outcome.status == 'success'"), False),
        ("outcome.status == 'success' and not outcome.result.done", handled(ERROR), False),
        (ERROR, handled(ERROR, "fail"), False),
        ("outcome.http.status == 503", handled("iter.page > 3"), False),
    ],
)
def test_a_rule_that_only_looks_like_the_fallback_of_a_retry_gets_a_warning(
    compiled: Compile, retry: str, rule: str, warned: bool
) -> None:
    assert ("W_RETRY_LAST" in compiled(with_rules(retry, rule)).codes) is warned


def test_a_retry_with_on_exhausted_gets_no_warning(compiled: Compile) -> None:
    text = with_rules(ERROR, handled(ERROR), ", on_exhausted: fail")

    assert "W_RETRY_LAST" not in compiled(text).codes
