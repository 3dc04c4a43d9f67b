"""Attack: a text that anybody who may see playbooks has checked, made to keep a processor busy."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from noetl.base.diagnostics import MOST_OF_WORD, Source, guesses_of_one_text, nearest_word
from noetl.language.checking import check
from noetl.language.reading.shared_checks import is_typo
from noetl.templates.values import UndefinedNameError
from noetl.tools.kinds import KINDS
from tests.security.sandboxed_tasks import python

HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: x, path: tests/x}\n"
ALIKE = "s" * 100


def wrong_steps(number: int) -> str:
    """Arcs to steps that are not there, each nearly called like all that are."""
    steps = [
        f"  - step: {ALIKE}{at}\n    tool: {{kind: noop}}\n    next: {{arcs: [{{step: {ALIKE}x{at}}}]}}\n"
        for at in range(number)
    ]
    return HEAD + "workflow:\n" + "".join(steps)


def wrong_reads(number: int) -> str:
    """Reads of a workload that has none of the names, but others nearly like them."""
    declared = ", ".join(f"a{ALIKE}{at:04}: 1" for at in range(number))
    reads = ", ".join(f"k{at}: '{{{{ workload.b{ALIKE}{at:04} }}}}'" for at in range(number))
    step = f"  - step: start\n    tool: {{kind: noop, args: {{{reads}}}}}\n"
    return f"{HEAD}workload: {{{declared}}}\nworkflow:\n{step}"


def spent_on(text: str) -> float:
    began = time.process_time()
    found = check(Source("x.yaml", text), kinds=KINDS).diagnostics
    spent = time.process_time() - began

    assert found
    return spent


@pytest.mark.parametrize("text", [wrong_steps, wrong_reads])
def test_many_similar_names_are_checked_in_bounded_work(text: object) -> None:
    assert callable(text)
    spent_on(text(20))  # what the first one imports is not counted
    few, many = spent_on(text(20)), spent_on(text(300))

    # Fifteen times the names. Where each was compared with each it took more than two hundred times as long.
    assert many < 100 * few


def test_the_nearest_name_is_still_found() -> None:
    names = [f"load_orders_of_{at}" for at in range(200)]

    assert nearest_word("laod_orders_of_7", names) == "load_orders_of_7"
    assert is_typo("workflwo", ["workload", "workflow"])


def test_suggestions_end_when_a_text_has_too_many_unknown_names() -> None:
    names = [f"name_{at}" for at in range(2_000)]
    with guesses_of_one_text():
        found = [nearest_word(f"nane_{at}", names) for at in range(400)]

    assert found[0] == "name_0"
    assert found[-1] is None
    assert nearest_word("x" * 1_000, ["x" * 999] * (MOST_OF_WORD // 900_000)) is not None
    assert nearest_word("x" * 2_000, ["x" * 1_999]) is None


def test_an_unknown_name_next_to_many_keys_is_reported_in_bounded_work() -> None:
    keys = {f"{ALIKE}{at}": None for at in range(20_000)}

    assert "nothing is called" in UndefinedNameError(f"{ALIKE}x", keys).message


def test_a_body_with_a_repeated_key_is_refused_in_bounded_time() -> None:
    """In a process that the system ends. Strangers may send such a body: signing in reads it before any token."""
    program = """
import resource
from noetl.server.bodies import strict_json
from noetl.server.problem_details import ProblemDetails
names = [f"{number:06x}" for number in range(95_000)]
body = ("{" + ",".join(f'"{name}":1' for name in [*names, names[-1]]) + "}").encode()
assert len(body) < 1 << 20
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
try:
    strict_json(body)
except ProblemDetails as problem:
    print(problem.detail)
"""

    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert 'the key "017317" appears twice in one object' in child.stdout, "the system has ended it"


@pytest.mark.req("TOOL-07")
def test_a_result_of_millions_of_lists_is_refused_before_the_worker_decodes_it() -> None:
    result = python("result = [[]] * 5_000_001", "{}")

    assert result.error is not None
    assert result.error.kind == "result.too_large"
    assert "more than 5,000,000 lists and mappings" in result.error.message
