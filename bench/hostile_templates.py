"""Hostile templates: every method, filter, test and operator on values chosen to make it slow, one after another.

Each expression is repeated in a loop until the template's budget is spent. The cost of a step of the budget is compared
with that in an ordinary template of the same process. Run as a program, in a process of its own: it says what it is
about to do before it does it, and the system ends it when it takes more processor time than allowed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from bench.template_bombs import BOMBS, SCOPE
from noetl.base.errors import TemplateError
from noetl.templates.budget import MAX_STEPS, Evaluation
from noetl.templates.expression import parse
from noetl.templates.filters import FILTERS
from noetl.templates.functions import PREDICATES
from noetl.templates.methods import methods_of

KINDS = ("methods", "filters", "tests", "operators")
OPERATORS = ("==", "!=", "<", ">=", "in", "+", "-", "*", "/", "//", "%", "**", "~")
ORDINARY = "i + 1 > 5 and (i | string) != name"
_MEMORY_BYTES = 2 << 30
_TRIES = 3
_ROUND_STEPS = 8  # at least, in any loop


class Case(NamedTuple):
    """The cost of one expression. `error` is the exception if it failed with anything but a TemplateError."""

    expression: str
    steps: int
    cpu_s: float
    error: str = ""

    @property
    def step_us(self) -> float:
        return self.cpu_s * 1e6 / max(self.steps, 1)


class Report(NamedTuple):
    """All cases of a child, and what a step costs in an ordinary template. `unfinished`: where the child was ended."""

    ordinary: Case
    cases: list[Case]
    unfinished: str = ""


def values(size: int) -> dict[str, Any]:
    """The names an expression can read, with values that grow with `size`."""
    half, rows = max(size // 2, 2), max(size // 20, 2)
    long_key = "k" * size
    return {
        "same": "a" * size,
        "last": "a" * (size - 1) + "b",
        "first": "b" + "a" * (size - 1),
        "words": "ab " * (size // 3),
        "lines": "a\r" * half,
        "blanks": " " * size,
        "wide": "😀" * size,
        "sharp": "ß" * size,
        "marks": "<&%" * (size // 3),
        "digits": "9" * min(size, 1_000),
        "half": "a" * half,
        "half_b": "b" + "a" * (half - 1),
        "b_half": "a" * (half - 1) + "b",
        "ab_half": "ab" + "a" * (half - 2),
        "needle": "a" * min(half, 90) + "b",
        "short": "ab",
        "none": None,
        "number": 7,
        "big": 3**2_000,
        "other_big": 7**700,
        "fraction": 1.1e-300,
        "numbers": [(7 * index) % 1_009 for index in range(rows)],
        "colliding": [(2**61 - 1) * (index + 1) for index in range(rows)],
        "fractions": [0.1 + index / 7 for index in range(rows)],
        "bigs": [3**2_000 + index for index in range(rows)],
        "texts": [f"{'a' * 200}{index}" for index in range(rows)],
        "alike": ["a" * (size - 1) + chr(98 + index % 20) for index in range(rows // 20 + 2)],
        "lists": [[*range(20), index] for index in range(rows // 20 + 2)],
        "deep": nested(60),
        "tree": [nested(3) for _ in range(rows // 10 + 1)],
        "shared": [[0.1] * 100] * (rows // 10 + 1),
        "pairs": [[f"k{index}", index] for index in range(rows)],
        "records": [{"a": {"a": index % 7}, "b": "x" * 20, "c": None} for index in range(rows)],
        "mapping": {f"k{index}": index for index in range(rows)},
        "long_keys": {long_key + "1": 1, long_key + "2": [1]},
        "same_keys": {long_key + "1": 1, long_key + "2": [1]},
        "attributes": "a." * 400 + "a",
        "moment": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "period": timedelta(days=1, seconds=1.5),
        "form": "%.99f" * 400,
        "clock": "%c" * 100,
        "zero": 0,
    }


def nested(depth: int) -> Any:
    value: Any = [1.5, "x"]
    for _ in range(depth):
        value = [value, "y"]
    return value


def expressions(kind: str, size: int) -> Iterator[str]:
    """Every operation of that kind with operands that may suit it; what does not is refused at once."""
    names = list(values(size))
    match kind:
        case "methods":
            for subject, value in values(size).items():
                for name, arguments in itertools.product(methods_of(value), _arguments()):
                    yield f"{subject}.{name}({arguments})"
        case "filters":
            for name, arguments in itertools.product(sorted(FILTERS), _arguments() + _options()):
                yield from (f"{value} | {name}({arguments})" for value in _subjects(names))
        case "tests":
            for name, argument in itertools.product(sorted(PREDICATES), ("", *_arguments()[:8])):
                if name.isalpha():
                    yield from (f"{value} is {name}({argument})" for value in _subjects(names))
        case "operators":
            for operator, left, right in itertools.product(OPERATORS, _subjects(names), _subjects(names)):
                yield f"{left} {operator} {right}"
            yield from (f"{left}[{right}] is defined" for left in names for right in ("same", "last", "number"))
            yield from (f"{left}[::-1]" for left in names)


def _subjects(names: list[str]) -> list[str]:
    return [name for name in names if name not in ("none", "zero", "short")]


def _arguments() -> list[str]:
    return [
        *("", "half", "half_b", "b_half", "ab_half", "needle", "short", "texts", "alike", "number", "clock"),
        *("half, short", "short, half", "needle, 'c'", "900, 'x'", "none, 40000"),
    ]


def _options() -> list[str]:
    return [
        *("attribute='a'", "attribute='a.a,b'", "attribute=attributes", "case_sensitive=true", "indent=8", "number, 0"),
        *("'upper'", "'int'", "'string'", "'replace', 'a', 'bb'", "'sum', attribute=attributes", "'in', alike"),
        *("'a', 'eq', 3", "true, 'value'", "by='value'", "3, true"),
    ]


def looped(expression: str) -> str:
    return "{% for i in rounds %}{% if " + expression + " %}{% endif %}{% endfor %}"


def measured(expression: str, scope: dict[str, Any], max_steps: int) -> Case:
    """The expression again and again until the budget is spent."""
    rounds = range(max_steps // _ROUND_STEPS)
    return evaluated(looped(expression), {**scope, "rounds": rounds}, max_steps)._replace(expression=expression)


def evaluated(text: str, scope: dict[str, Any], max_steps: int = MAX_STEPS) -> Case:
    """One whole template, parsed before."""
    try:
        template = parse(text)
    except TemplateError:
        return Case(text, 0, 0.0)
    run = Evaluation(scope.__getitem__, now=0.0, max_steps=max_steps)
    error, began = "", time.process_time()
    try:
        template.evaluate_in(run)
    except TemplateError:
        pass
    except Exception as wrong:
        error = repr(wrong)[:200]
    return Case(text, min(run.spent, max_steps), time.process_time() - began, error)


def parsed_and_evaluated(text: str) -> float:
    """Seconds of processor time that a whole template takes, from its text on."""
    parse.cache_clear()
    began = time.process_time()
    evaluated(text, SCOPE)
    return time.process_time() - began


def measure_all(kind: str, size: int, max_steps: int, factor: float, part: int, parts: int) -> None:
    """Measure every case and print what it cost. One that seems expensive is measured again: another process may have
    had the caches of this one."""
    scope = {**values(max(size, 40)), "name": "x"}
    ordinary = min((measured(ORDINARY, scope, MAX_STEPS) for _ in range(5)), key=lambda case: case.cpu_s)
    print(json.dumps(ordinary), flush=True)
    slack_s = 500 * ordinary.cpu_s / ordinary.steps
    cases = BOMBS if kind == "bombs" else expressions(kind, size)
    for text in itertools.islice(cases, part, None, parts):
        sys.stderr.write(f"\n{text[:200]!r}")
        sys.stderr.flush()
        case = _case(kind, text, scope, max_steps)
        for _ in range(_TRIES):
            if case.cpu_s - slack_s <= factor * case.steps * ordinary.cpu_s / ordinary.steps:
                break
            case = min(case, _case(kind, text, scope, max_steps), key=lambda one: one.cpu_s)
        print(json.dumps(case._replace(cpu_s=max(case.cpu_s - slack_s, 0.0))), flush=True)


def _case(kind: str, text: str, scope: dict[str, Any], max_steps: int) -> Case:
    if kind == "bombs":
        return evaluated(text, SCOPE, max_steps)._replace(expression=text[:200])
    return measured(text, scope, max_steps)


def report(
    kind: str, size: int, *, max_steps: int = MAX_STEPS, factor: float = 1.0, cpu_limit_s: int, part: str = "0/1"
) -> Report:
    """The report of a child process that measures all cases of a kind."""
    command = [sys.executable, "-m", "bench.hostile_templates", kind, *map(str, (size, max_steps, factor, part))]
    ran = subprocess.run(
        [*command, str(cpu_limit_s)], capture_output=True, text=True, cwd=Path(__file__).parent.parent, check=False
    )
    lines = [Case(*json.loads(line)) for line in ran.stdout.splitlines()]
    begun = ran.stderr.strip().splitlines()
    return Report(lines[0], lines[1:], begun[-1] if ran.returncode else "")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("kind", choices=(*KINDS, "bombs"))
    options.add_argument("size", type=int)
    options.add_argument("max_steps", type=int)
    options.add_argument("factor", type=float)
    options.add_argument("part")
    options.add_argument("cpu_limit_s", type=int)
    given = options.parse_args()
    resource.setrlimit(resource.RLIMIT_CPU, (given.cpu_limit_s, given.cpu_limit_s))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    part, parts = map(int, given.part.split("/"))
    measure_all(given.kind, given.size, given.max_steps, given.factor, part, parts)


if __name__ == "__main__":
    main()
