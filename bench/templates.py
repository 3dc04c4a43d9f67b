"""The cost of templates, in processor time: usual ones, and the worst that a budget allows."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench import figures, hostile_templates
from bench.figures import Row
from bench.hostile_templates import ORDINARY, Case
from bench.template_bombs import BOMBS
from noetl.templates.budget import MAX_STEPS
from noetl.templates.expression import parse
from noetl.templates.scope import Scope

_TYPICAL = [
    "{{{{ outcome.status == 'error' and outcome.http.status in [429,500,502,{0}] }}}}",
    "{{{{ workload.a{0} }}}}",
    "{{{{ event.name == 'step.done{0}' }}}}",
    "{{{{ outcome.result.data.paging.page{0} | default(iter.page) }}}}",
    "{{{{ (iter.page{0} | int) + 1 }}}}",
    "https://host/{{{{ workload.path }}}}/{0}",
]
_PATH, _GUARD = "{{ ctx.a.b }}", "{{ ctx.n > 3 and ctx.s == 'a' }}"
_EVALUATIONS = 20_000
_SIZE = 2_400
_SUSPECTS = 10


def measured() -> list[Row]:
    ordinary, cases = suspects()
    worst = max(cases, key=lambda case: case.cpu_s)
    bombs = {text[:20]: hostile_templates.parsed_and_evaluated(text) for text in BOMBS}
    bomb = max(bombs, key=lambda text: bombs[text])
    return [
        row("1,500 templates checked", cheapest(check_templates), 0.35, "s"),
        row("a plain path is read", cheapest(lambda: evaluate(_PATH)) / _EVALUATIONS * 1e6, 3.0, "us"),
        row("a guard is evaluated", cheapest(lambda: evaluate(_GUARD)) / _EVALUATIONS * 1e6, 40.0, "us"),
        row("a step of a template's budget, ordinary template", ordinary.step_us, None, "us"),
        row(f"a step of the budget, dearest ({worst.expression[:24]})", worst.step_us, 1.0, "us"),
        row(f"whole budget spent, dearest of {len(cases)} suspects", worst.cpu_s, 0.25, "s"),
        row(f"template bomb, dearest of {len(BOMBS)} ({bomb!r})", bombs[bomb], 0.25, "s"),
    ]


def row(what: str, value: float, goal: float | None, unit: str) -> Row:
    return figures.row("language", what, value, goal, unit)


def suspects() -> tuple[Case, list[Case]]:
    """The ordinary template and the expressions that were most expensive with a small budget, all measured with a full
    one."""
    found: list[str] = []
    for kind in hostile_templates.KINDS:
        report = hostile_templates.report(kind, _SIZE, max_steps=4_000, cpu_limit_s=900, part="0/7")
        dearest = sorted(report.cases, key=lambda case: -case.step_us)
        found += [case.expression for case in dearest[:_SUSPECTS]]
    scope = {**hostile_templates.values(_SIZE), "name": "x"}
    cases = [hostile_templates.measured(expression, scope, MAX_STEPS) for expression in (ORDINARY, *found)]
    return cases[0], cases[1:]


def cheapest(work: Callable[[], object], rounds: int = 5) -> float:
    """Processor seconds of the best round: what the work costs when nothing disturbs it."""
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def check_templates() -> None:
    parse.cache_clear()
    for index in range(1_500):
        parse(_TYPICAL[index % len(_TYPICAL)].format(index))


def evaluate(text: str) -> None:
    template, scope = parse(text), Scope({"ctx": {"a": {"b": 1}, "n": 5, "s": "a"}})
    for _ in range(_EVALUATIONS):
        template.evaluate(scope)
