"""What a reader of the text would expect and NoETL does not do is said: words of other systems that decide what runs,
names of theirs in templates, and values of workload that look like templates or booleans."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic
from tests.language.reading.spelled import checked_text

HEAD = "kind: Playbook\nmetadata: {name: t, path: tests/t}\n"
NOOP = "tool: {kind: noop}"


def found(text: str, code: str) -> list[Diagnostic]:
    version = "" if text.startswith("apiVersion") else "apiVersion: noetl.io/v2\n"
    return [one for one in checked_text(f"{version}{HEAD}{text}").diagnostics if one.code == code]


@pytest.mark.req("DOC-10")
@pytest.mark.parametrize(
    ("key", "way_out"),
    [
        ('if: "{{ workload.go }}"', "condition stands on the arc"),
        ("foreach: 2", "has loop:"),
        ('run_if: "{{ workload.go }}"', "condition stands on the arc"),
        ("enabled: false", "condition stands on the arc"),
        ("wait_for: [a, b]", "join: all"),
        ("trigger_rule: all_done", "join: all"),
        ("join: all", "spec: {join: all}"),
        ("retry_strategy: {limit: 3}", "do: retry, attempts: 4"),
        ("pool: gpu", "spec: {pool: name}"),
        ("operator: PythonOperator", "tool: {kind: python"),
        ("approval: {title: ok?}", "human_task:"),
        ("depends_on: [a, b]", "join: all"),
        ('unless: "{{ workload.go }}"', "condition stands on the arc"),
    ],
)
def test_an_unknown_condition_or_loop_key_of_a_step_is_refused(key: str, way_out: str) -> None:
    (one,) = found(f"workflow:\n  - step: start\n    {key}\n    {NOOP}\n", "E_STEP_KEY")

    assert way_out in one.hint


@pytest.mark.req("DOC-10")
@pytest.mark.parametrize(
    ("key", "way_out"),
    [
        ('schedule: "0 6 * * *"', "trigger: {timer: {cron"),
        ("finally: [{step: clean}]", "arcs lead on"),
        ("on_failure: {notify: a@example.org}", "do: retry | continue | fail"),
        ("defaults: {timeout: 30}", "executor: {spec:"),
        ("concurrency: 1", "concurrency: {limit: 1}"),
    ],
)
def test_an_unknown_scheduling_key_of_a_playbook_is_refused(key: str, way_out: str) -> None:
    (one,) = found(f"{key}\nworkflow:\n  - step: start\n    {NOOP}\n", "E_ROOT_KEY")

    assert way_out in one.hint


@pytest.mark.req("DOC-10")
@pytest.mark.parametrize(
    ("key", "way_out"),
    [("loop: {in: [1], iterator: x}", "a loop stands on the step"), ('if: "{{ workload.go }}"', "choose")],
)
def test_an_unknown_condition_or_loop_key_of_a_task_is_refused(key: str, way_out: str) -> None:
    (one,) = found(f"workflow:\n  - step: start\n    tool:\n      - kind: noop\n        {key}\n", "E_TASK_KEY")

    assert way_out in one.hint


@pytest.mark.req("TPL-03")
@pytest.mark.parametrize(
    ("read", "way_out"),
    [
        ("secret.token", "kind: credential"),
        ("env.HOME", "kind: env, var: VARIABLE"),
        ("inputs.who", "workload.NAME"),
        ("steps.start.outputs.v", "STEP.data"),
    ],
)
def test_a_name_of_another_system_suggests_the_equivalent_here(read: str, way_out: str) -> None:
    text = f'workflow:\n  - step: start\n    tool: {{kind: noop, args: {{v: "{{{{ {read} }}}}"}}}}\n'

    (one,) = found(text, "W_UNDEFINED_NAME")

    assert way_out in one.hint


@pytest.mark.req("DOC-07")
def test_a_template_under_workload_gets_the_note_that_it_is_not_rendered() -> None:
    text = 'workload: {host: h, url: "{{ workload.host }}/x", other: "{{ customer }}"}\n'

    (one,) = found(f"{text}workflow: [{{step: start}}]\n", "W_WORKLOAD_VALUE")

    assert (one.path, "never rendered" in one.message, "under ctx" in one.hint) == ("workload.url", True, True)


@pytest.mark.req("DOC-07")
def test_unquoted_yes_and_no_under_workload_get_the_note_that_they_are_text() -> None:
    text = 'workload: {archive: yes, answer: "no", country: NO, flag: true}\n'

    (one,) = found(f"{text}workflow: [{{step: start}}]\n", "W_WORKLOAD_VALUE")

    assert (one.path, one.hint) == ("workload.archive", 'write true, or "yes" in quotes for the word')


@pytest.mark.req("DIA-08")
def test_data_with_a_type_key_is_not_a_declared_input() -> None:
    text = "inputs: {car: {type: van, wheels: 4}, who: {type: string, default: Ada}, n: {default: 5}}\n"

    playbook = checked_text(f"apiVersion: noetl.io/v2\n{HEAD}{text}workflow: [{{step: start}}]\n")

    assert playbook.net is not None
    assert playbook.net.workload == {"car": {"type": "van", "wheels": 4}, "who": "Ada", "n": {"default": 5}}
