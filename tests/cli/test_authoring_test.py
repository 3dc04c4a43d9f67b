"""`noetl test`: tests of playbooks in YAML, what they find, and how they are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.testing.yaml_tests import read_test_file
from noetl.tools.kinds import KINDS
from tests.cli.running import call

PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: orders, path: tests/orders }
workload: { n: 1 }
workflow:
  - step: start
    tool:
      name: fetch
      kind: http
      url: "https://api.example.org/orders?n={{ workload.n }}"
      auth: "{{ 'api' }}"
      spec:
        policy:
          rules:
            - when: "{{ outcome.status == 'error' and outcome.error.retryable }}"
              then: { do: retry, attempts: 3, delay: 1h }
            - when: "{{ outcome.status == 'error' }}"
              then: { do: fail }
            - else: { then: { do: continue, set_ctx: { rows: "{{ outcome.result.rows | length }}" } } }
    next: { arcs: [{ step: approve }] }
  - step: approve
    human_task:
      assignee: { role: boss }
      title: ok?
      form: [{ field: decision, type: text }]
    next: { arcs: [{ step: count }] }
  - step: count
    tool: { kind: python, args: { rows: "{{ ctx.rows }}" }, code: result = rows }
"""
TESTS = """
tests:
  - name: a failure that passes is tried again
    workload: { n: 3 }
    credentials: { api: { type: bearer, token: not-the-real-one } }
    tools:
      http:
        - error: { kind: http.status, message: "503" }
        - result: { rows: [1, 2, 3] }
    people: { approve: { decision: ship } }
    expect: { result: 3, ctx: { rows: 3 }, steps: [start, approve, count], calls: { http: 2 } }
  - name: one that stays ends it
    credentials: { api: { type: bearer, token: not-the-real-one } }
    tools: { http: { error: { kind: http.status, message: "404", details: { status: 404 } } } }
    expect: { status: failed, error: http.status, calls: { http: 1 } }
"""


LISTED = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: t, path: t }
workflow:
  - step: start
    tool:
      - { name: first, kind: http, url: "https://example.org" }
      - { name: second, kind: http, url: "https://example.org" }
      - { name: both, kind: noop, args: "{{ [first.data | length, second.data | length] }}" }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").write_text(PLAYBOOK)
    return tmp_path


def test_tests_next_to_a_playbook_are_run(folder: Path) -> None:
    (folder / "orders.test.yaml").write_text(TESTS)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "others.test.yaml").write_text("not ours")

    code, out, err = call("test")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "✓ orders.test.yaml: a failure that passes is tried again",
        "✓ orders.test.yaml: one that stays ends it",
        "2 tests: 2 passed",
    ]


def test_all_failed_expectations_are_reported_at_once(folder: Path) -> None:
    wrong = (
        TESTS.replace("result: 3,", "result: 4,").replace("http: 2", "http: 1").replace("{ rows: 3 }", "{ rows: 0 }")
    )
    (folder / "orders.test.yaml").write_text(wrong.replace("status: failed, error: http.status", "steps: [start]"))

    code, out, _ = call("test", "orders.test.yaml")
    as_json = call("test", "-o", "json")

    assert code == as_json[0] == 1
    assert "    result: expected 4, found 3\n    ctx.rows: expected 0, found 3\n" in out
    assert "    calls of http: expected 1, found 2\n" in out
    assert "    status: expected completed, found failed: http.status: 404\n    steps: expected start; found \n" in out
    assert out.endswith("2 tests: 0 passed, 2 failed\n")
    assert [len(one["problems"]) for one in json.loads(as_json[1])] == [3, 2]


def test_a_playbook_that_waits_forever_fails_its_test(folder: Path) -> None:
    (folder / "orders.test.yaml").write_text(TESTS.replace("    people: { approve: { decision: ship } }\n", ""))

    code, out, _ = call("test")

    assert code == 1
    assert "the playbook has not ended after" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "tests: [{name: a, expects: {}}]",
            'orders.test.yaml:1:19: "expects" is not a key of tests[0]; did you mean "expect"? allowed: name, ',
        ),
        ("tests: [{workload: {}}]", 'orders.test.yaml:1:9: tests[0] needs the key "name"'),
        ("tests: [", "orders.test.yaml:1:8: this is never closed"),
        ("{playbook: nowhere.yaml, tests: []}", 'there is no playbook nowhere.yaml; name it with "playbook: FILE"'),
    ],
)
def test_an_invalid_test_file_is_refused(folder: Path, text: str, said: str) -> None:
    (folder / "orders.test.yaml").write_text(text)

    code, _, err = call("test")

    assert code == 4
    assert said in err


MISTAKEN = """
test: 1
tests:
  - nme: it greets
    workload: [1]
    tools:
      htpp: { result: 1, error: { kind: x, retriable: true } }
      python: []
    expect: { status: fialed, steps: start, calls: { http: two } }
  - name: 5
    tools: { http: {} }
"""


def test_all_mistakes_of_a_test_file_are_reported_at_once_with_their_places(folder: Path) -> None:
    (folder / "orders.test.yaml").write_text(MISTAKEN)

    code, _, err = call("test")

    assert code == 4
    error_keys = "kind, message, retryable, details"
    keys = "name, workload, tools, credentials, messages, people, allow, expect"
    assert err.removeprefix("error: ").replace("orders.test.yaml:", "").splitlines() == [
        '2:1: "test" is not a key of this file; did you mean "tests"? allowed: tests, playbook',
        f'4:5: "nme" is not a key of tests[0]; did you mean "name"? allowed: {keys}',
        '4:5: tests[0] needs the key "name"',
        "5:15: tests[0].workload is a mapping, and this is a list",
        f'7:7: "htpp" is not a kind of tool; did you mean "http"? allowed: {", ".join(sorted(KINDS))}',
        "7:13: tests[0].tools.htpp has both of result and error; an answer has one of them",
        f'7:44: "retriable" is not a key of tests[0].tools.htpp.error; did you mean "retryable"? allowed: {error_keys}',
        "8:15: tests[0].tools.python has no answer; write result: or error:",
        '9:23: "fialed" is not how an execution ends; did you mean "failed"? allowed: completed, failed, cancelled',
        "9:38: tests[0].expect.steps is a list, and this is text",
        '9:54: calls of "http" are not counted, since this test does not fake it under tools',
        "9:60: tests[0].expect.calls.http is a whole number, and this is text",
        "10:11: tests[1].name is text, and this is a number",
        "11:20: tests[1].tools.http has neither of result and error; an answer has one of them",
    ]


def test_a_faked_tool_can_answer_with_a_list(folder: Path) -> None:
    (folder / "orders.yaml").write_text(LISTED)
    answers = "{ result: [] }", "{ result: [1, 2] }", "[{ result: [1] }, { result: [] }]"
    tests = [
        f"  - {{ name: t, tools: {{ http: {answer} }}, expect: {{ result: {counts} }} }}\n"
        for answer, counts in zip(answers, ("[0, 0]", "[2, 2]", "[1, 0]"), strict=True)
    ]
    (folder / "orders.test.yaml").write_text("tests:\n" + "".join(tests))

    code, out, _ = call("test")

    assert (code, out.splitlines()[-1]) == (0, "3 tests: 3 passed")


@pytest.mark.parametrize("command", [("check",), ("register", "--db", "noetl.db"), ("fmt", "--check")])
def test_other_commands_ignore_test_files(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "orders.test.yaml").write_text(TESTS)
    (folder / "orders.yaml").write_text((Path(__file__).parents[2] / "examples" / "hello.yaml").read_text())

    both = call(*command, "orders.test.yaml", "orders.yaml")
    alone = call(*command, "orders.test.yaml")

    assert both[0] == 0, both
    assert (alone[0], alone[2]) == (
        2,
        "error: orders.test.yaml: this is a file of tests, not a playbook; run it with noetl test orders.test.yaml\n",
    )


@pytest.mark.parametrize("command", [("run", "-q"), ("graph",), ("analyze",), ("compile",)])
def test_a_test_file_in_place_of_a_playbook_names_the_command_for_it(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "orders.test.yaml").write_text(TESTS)

    code, _, err = call(*command, "orders.test.yaml")

    words = "this is a file of tests, not a playbook; run it with noetl test orders.test.yaml"
    assert (code, err) == (2, f"error: orders.test.yaml: {words}\n")


def test_a_playbook_in_place_of_a_test_file_names_the_file_of_its_tests(folder: Path) -> None:
    (folder / "orders.yaml").write_text(PLAYBOOK)

    missing = call("test", "orders.yaml")
    (folder / "orders.test.yaml").write_text(TESTS)
    written = call("test", "orders.yaml")

    words = "error: orders.yaml is a playbook, and its tests are in a file of their own: noetl test orders.test.yaml"
    assert (missing[0], missing[2]) == (4, f"{words}, which does not exist yet (docs/testing.md)\n")
    assert (written[0], written[2]) == (4, f"{words}\n")


def test_a_folder_without_tests_names_the_place_of_python_tests() -> None:
    code, _, err = call("test")

    assert (code, err.count("python -m pytest")) == (4, 1)


def test_a_playbook_with_errors_fails_its_tests_with_them(folder: Path) -> None:
    (folder / "orders.yaml").write_text(PLAYBOOK.replace("step: count }", "step: cuont }"))
    (folder / "orders.test.yaml").write_text(TESTS)

    code, out, _ = call("test")

    assert code == 1
    assert 'E_NEXT_REF: this arc leads to "cuont"' in out


def test_the_example_on_the_documentation_page_is_a_valid_test_file(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    (folder / "orders.test.yaml").write_text(page.partition("```text\n")[2].partition("```")[0])

    shown = read_test_file(folder / "orders.test.yaml")

    assert [(one.expect.status, one.expect.calls) for one in shown.tests] == [
        ("completed", {"http": 2}),
        ("failed", {}),
    ]
