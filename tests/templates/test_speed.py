"""Speed that others rely on, with wide margins: checking thousands of templates, evaluating the plain ones."""

from __future__ import annotations

import time
from collections.abc import Callable

from noetl.templates.expression import parse
from noetl.templates.scope import Scope

TYPICAL = [
    "{{{{ outcome.status == 'error' and outcome.http.status in [429,500,502,{0}] }}}}",
    "{{{{ workload.a{0} }}}}",
    "{{{{ event.name == 'step.done{0}' }}}}",
    "{{{{ outcome.result.data.paging.page{0} | default(iter.page) }}}}",
    "{{{{ (iter.page{0} | int) + 1 }}}}",
    "https://host/{{{{ workload.path }}}}/{0}",
]


def fastest(work: Callable[[], None], rounds: int = 5) -> float:
    """Processor seconds of the best round: what the work costs when nothing disturbs it."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def test_fifteen_hundred_templates_are_checked_in_a_third_of_a_second() -> None:
    texts = [TYPICAL[index % len(TYPICAL)].format(index) for index in range(1_500)]

    def check() -> None:
        parse.cache_clear()
        for text in texts:
            parse(text)

    parse("{{ 1 + 1 }}")  # imports the parser
    assert fastest(check, rounds=3) < 0.35


def test_a_plain_path_is_read_in_microseconds() -> None:
    template = parse("{{ ctx.a.b }}")
    scope = Scope({"ctx": {"a": {"b": 1}}})

    def read() -> None:
        for _ in range(5_000):
            template.evaluate(scope)

    assert fastest(read) / 5_000 < 3e-6


def test_a_guard_is_evaluated_in_a_few_microseconds() -> None:
    template = parse("{{ event.name == 'step.done' and ctx.n > 3 }}")
    scope = Scope({"ctx": {"n": 5}, "event": {"name": "step.done"}})
    template.evaluate(scope)

    def evaluate() -> None:
        for _ in range(2_000):
            template.evaluate(scope)

    assert fastest(evaluate) / 2_000 < 40e-6
