"""The root of a document: sections, identity, executor, keychain, workbook, the list of steps."""

from __future__ import annotations

import pytest

from noetl.language.reading.nodes import data
from noetl.language.reading.playbook import Dialect, TaskSyntax
from tests.language.reading.documents import codes, only, places, read_root_text, read_text


@pytest.mark.req("DOC-02")
def test_an_unknown_root_section_is_an_error_under_v10() -> None:
    found = only(read_root_text("stages: []")[1])

    assert (found.code, found.path) == ("E_ROOT_KEY", "stages")
    assert "workflow" in found.hint
    assert "keychain" in found.hint


@pytest.mark.req("DOC-02", "DOC-10")
def test_an_unknown_root_section_is_a_warning_under_v2() -> None:
    assert codes(read_root_text("steps: []", api="v2")[1]) == ["W_UNKNOWN_KEY"]


@pytest.mark.req("DOC-02", "DOC-10")
def test_a_misspelt_root_section_is_an_error_under_v2_too() -> None:
    found = only(read_root_text("workloads: {}", api="v2")[1])

    assert (found.code, found.hint) == ("E_ROOT_KEY", 'did you mean "workload"?')


@pytest.mark.req("DOC-02")
def test_a_playbook_without_workload_has_no_finding() -> None:
    playbook, found = read_root_text("")

    assert (playbook.workload, found) == (None, [])


@pytest.mark.req("DOC-02", "DOC-03", "MIG-04")
@pytest.mark.parametrize("api", ["v2", "v10"])
@pytest.mark.parametrize(
    ("section", "code", "named"),
    [
        ("vars: {x: 1}", "E_ROOT_VARS", ("workload", "ctx", "set_ctx", "iter", "set_iter")),
        ("spec: {pool: a}", "E_ROOT_KEY", ("executor.spec",)),
        ("name: a", "E_ROOT_NAME", ("metadata.name",)),
        ("path: a/b", "E_ROOT_NAME", ("metadata.path",)),
    ],
)
def test_a_misplaced_root_key_gets_the_right_place_as_hint(
    section: str, code: str, named: tuple[str, ...], api: str
) -> None:
    found = only(read_root_text(section, api=api)[1])

    assert found.code == code
    assert all(word in found.hint for word in named)


@pytest.mark.req("DOC-04")
@pytest.mark.parametrize("kind", ["Workflow", "playbook", "1", "[Playbook]", ""])
def test_kind_is_exactly_playbook(kind: str) -> None:
    found = only(read_root_text(f"kind: {kind}")[1])

    assert (found.code, found.path, found.hint) == ("E_KIND", "kind", "write kind: Playbook")


@pytest.mark.req("DOC-04")
def test_a_missing_kind_gets_a_note() -> None:
    _, found = read_text("apiVersion: noetl.io/v10\nmetadata: {name: t, path: t}\nworkflow: [{step: start}]\n")

    assert codes(found) == ["E_KIND"]


@pytest.mark.req("DOC-05")
def test_identity_is_read_from_metadata_and_further_keys_are_preserved() -> None:
    playbook, found = read_root_text(
        'metadata: {name: n, path: a/n, version: "2.0", description: d, owner: {team: x}}',
    )

    assert found == []
    assert (playbook.name, playbook.catalog_path, playbook.version, playbook.description) == ("n", "a/n", "2.0", "d")
    assert data(playbook.metadata)["owner"] == {"team": "x"}


@pytest.mark.req("DOC-05")
@pytest.mark.parametrize(
    ("metadata", "missing"),
    [
        ("{name: n}", "metadata.path"),
        ("{path: a/n}", "metadata.name"),
        ('{name: "", path: a}', "metadata.name"),
        ("{name: 5, path: a}", "metadata.name"),
        ("[a]", "metadata"),
        ("", "metadata"),
    ],
)
def test_identity_needs_a_name_and_a_path(metadata: str, missing: str) -> None:
    _, found = read_root_text(f"metadata: {metadata}")

    assert codes(found)[0] == "E_METADATA"
    assert missing in found[0].message


@pytest.mark.req("DOC-05", "DOC-02")
def test_missing_metadata_is_one_finding() -> None:
    _, found = read_text("apiVersion: noetl.io/v10\nkind: Playbook\nworkflow: [{step: start}]\n")

    assert codes(found) == ["E_METADATA"]


@pytest.mark.req("DOC-06")
def test_kind_and_profile_of_the_executor_are_read_alike() -> None:
    by_profile, _ = read_root_text("executor: {profile: local, version: noetl-runtime/1}")
    by_kind, _ = read_root_text("executor: {kind: local}")

    assert by_profile.executor
    assert by_kind.executor
    assert by_profile.executor.kind == by_kind.executor.kind == "local"
    assert by_profile.executor.version == "noetl-runtime/1"


@pytest.mark.req("DOC-06")
@pytest.mark.parametrize(
    ("executor", "path"),
    [
        ("{kind: local, profile: distributed}", "executor.profile"),
        ("{kind: cloud}", "executor.kind"),
        ("{kynd: local}", "executor.kynd"),
        ("local", "executor"),
        ("{spec: []}", "executor.spec"),
    ],
)
def test_an_invalid_executor_is_refused(executor: str, path: str) -> None:
    assert places(read_root_text(f"executor: {executor}")[1]) == [("E_EXECUTOR", path)]


@pytest.mark.req("VAL-11", "VAL-12")
@pytest.mark.parametrize(
    ("policy", "code", "path"),
    [
        ("{admit: {}}", "E_POLICY_SCOPE", "admit"),
        ("{rules: []}", "E_POLICY_SCOPE", "rules"),
        ("{defaults: {do: fail}}", "E_POLICY_SCOPE", "defaults.do"),
        ("{limmits: {}}", "E_POLICY_SCOPE", "limmits"),
        ("{on_unmatched: fail}", "E_POLICY_SCOPE", "on_unmatched"),
        ("[]", "E_POLICY_SHAPE", ""),
        ("{defaults: {on_unmatched: stop}}", "E_POLICY_SHAPE", "defaults.on_unmatched"),
        ("{results: {reference_first: maybe}}", "E_POLICY_SHAPE", "results.reference_first"),
        ("{limits: {max_payload_bytes: 0}}", "E_POLICY_SHAPE", "limits.max_payload_bytes"),
        ('{limits: {max_step_runs: "{{ workload.n }}"}}', "E_POLICY_SHAPE", "limits.max_step_runs"),
        ("{limits: {lease: {ttl: long}}}", "E_DURATION", "limits.lease.ttl"),
        ("{limits: {max_step_run: 20}}", "W_UNKNOWN_KEY", "limits.max_step_run"),
        ("{limits: {bogus: 3}}", "W_UNKNOWN_KEY", "limits.bogus"),
        ("{failure: {mode: later}}", "E_POLICY_SHAPE", "failure.mode"),
        ("{compensation: always}", "E_POLICY_SHAPE", "compensation"),
        ("{defaults: {timeouts: {http: soon}}}", "E_DURATION", "defaults.timeouts.http"),
    ],
)
def test_executor_policy_accepts_its_own_keys_and_no_control_flow(policy: str, code: str, path: str) -> None:
    expected = "executor.spec.policy" + (f".{path}" if path else "")

    found = read_root_text(f"executor: {{spec: {{policy: {policy}}}}}")[1]

    assert places(found) == [(code, expected)]


@pytest.mark.req("VAL-12", "SPEC-04", "QNT-06")
def test_every_executor_policy_key_is_accepted() -> None:
    policy = """
        executor:
          spec:
            pool: default
            entry_step: start
            unguarded: always
            timeout: {connect: 5, read: 15s}
            concurrency: {key: "{{ workload.k }}", limit: 1, on_limit: queue}
            policy:
              defaults: {timeouts: {http: 7, default: 1m, fail: 3}, resources: {}, on_unmatched: fail}
              results: {reference_first: true}
              limits: {max_payload_bytes: 100, message_ttl: 24h}
              placement: {region: eu}
              cost: {}
              quantum: {backends: [{name: small}], placement: {prefer: cost}}
              failure: {mode: fail_fast}
              compensation: auto
    """

    assert read_root_text(policy)[1] == []


@pytest.mark.req("ROUTE-05", "DOC-12")
@pytest.mark.parametrize("option", ["unguarded: never", "entry_step: [a]", "concurrency: 3", "pool: 7"])
def test_executor_options_are_checked_for_their_type(option: str) -> None:
    assert codes(read_root_text(f"executor: {{spec: {{{option}}}}}")[1]) == ["E_SPEC_OPTION"]


@pytest.mark.req("DOC-07")
def test_workload_is_a_mapping_preserved_as_written() -> None:
    playbook, found = read_root_text('workload: {t: "{{ 1 + 1 }}"}')

    assert (data(playbook.workload), found) == ({"t": "{{ 1 + 1 }}"}, [])
    assert codes(read_root_text("workload: [1]")[1]) == ["E_ROOT_KEY"]


@pytest.mark.req("DOC-08")
@pytest.mark.parametrize("workflow", ["{}", "[]", "start", "{start: {}}", "[start]", ""])
def test_workflow_is_a_list_with_at_least_one_step(workflow: str) -> None:
    assert codes(read_root_text(f"workflow: {workflow}")[1]) == ["E_WORKFLOW"]


@pytest.mark.req("DOC-08")
@pytest.mark.parametrize("item", ["{desc: x}", "{step: 7}", '{step: ""}', "{step: [a]}"])
def test_a_step_without_a_name_is_reported_by_index(item: str) -> None:
    playbook, found = read_root_text(f"workflow: [{{step: start}}, {item}]")

    assert only(found).code == "E_STEP_NAME"
    assert "workflow[1]" in only(found).message
    assert [step.name for step in playbook.steps] == ["start"]


@pytest.mark.req("VAL-19", "DOC-08")
def test_other_mistakes_of_a_nameless_step_are_reported_too() -> None:
    _, found = read_root_text("workflow: [{step: start}, {when: true, next: start}]")

    assert sorted(codes(found)) == ["E_NEXT_SHAPE", "E_STEP_NAME", "E_STEP_WHEN"]


@pytest.mark.req("DOC-09")
@pytest.mark.parametrize(
    "workbook",
    [
        "{tasks: {double: {kind: python, code: x}}}",
        "{double: {kind: python, code: x}}",
        "[{name: double, kind: python, code: x}]",
        "[{name: double, tool: {kind: python, code: x}}]",
    ],
)
@pytest.mark.parametrize("dialect", [Dialect.V10, Dialect.V2_EVAL])
def test_the_spellings_of_a_workbook_are_read_alike(workbook: str, dialect: Dialect) -> None:
    playbook, found = read_root_text(f"workbook: {workbook}", dialect)

    task = playbook.workbook["double"]
    assert found == []
    assert list(playbook.workbook) == ["double"]
    assert (task.name, task.kind, {key: data(value) for key, value in task.inputs.items()}) == (
        "double",
        "python",
        {"code": "x"},
    )


@pytest.mark.req("DOC-09")
def test_a_task_may_be_called_tasks() -> None:
    playbook, found = read_root_text("workbook: {tasks: {kind: noop}}")

    assert (list(playbook.workbook), found) == (["tasks"], [])


@pytest.mark.req("DOC-09")
@pytest.mark.parametrize(
    ("workbook", "code"),
    [
        ("7", "E_ROOT_KEY"),
        ("[7]", "E_ROOT_KEY"),
        ("[{kind: noop}]", "E_TASK_KEY"),
        ("[{name: a, kind: noop}, {name: a, kind: noop}]", "E_TASK_DUP"),
        ("{a: {kid: noop}}", "E_TASK_KEY"),
        ("{a: noop}", "E_TOOL_KIND"),
    ],
)
def test_a_malformed_workbook_is_refused(workbook: str, code: str) -> None:
    assert codes(read_root_text(f"workbook: {workbook}")[1]) == [code]


@pytest.mark.req("DOC-09")
@pytest.mark.parametrize("workbook", ["", "{}", "{tasks: {}}", "[]"])
def test_an_empty_workbook_has_no_finding(workbook: str) -> None:
    playbook, found = read_root_text(f"workbook: {workbook}")

    assert (playbook.workbook, found) == ({}, [])


@pytest.mark.req("KEY-01")
def test_keychain_entries_keep_their_order_and_lookup_keys() -> None:
    playbook, found = read_root_text("keychain: [{name: b, kind: env, var: B}, {name: a, kind: file}]")

    assert found == []
    assert [(entry.name, entry.kind) for entry in playbook.keychain] == [("b", "env"), ("a", "file")]
    assert data(playbook.keychain[0].node) == {"name": "b", "kind": "env", "var": "B"}


@pytest.mark.req("KEY-01")
@pytest.mark.parametrize(
    ("keychain", "path"),
    [
        ("[{name: a}]", "keychain[0]"),
        ("[{kind: env}]", "keychain[0]"),
        ("[{name: a, kind: 7}]", "keychain[0].kind"),
        ("[a]", "keychain[0]"),
        ("{a: {kind: env}}", "keychain"),
        ("[{name: a, kind: env}, {name: a, kind: file}]", "keychain[1].name"),
    ],
)
def test_a_malformed_keychain_entry_is_refused(keychain: str, path: str) -> None:
    assert places(read_root_text(f"keychain: {keychain}")[1]) == [("E_KEYCHAIN", path)]


@pytest.mark.req("TMR-01")
def test_a_trigger_is_read() -> None:
    playbook, found = read_root_text('trigger: {timer: {cron: "0 6 * * *", spec: {timezone: America/New_York}}}')

    assert found == []
    assert playbook.trigger
    assert playbook.trigger.cron.value == "0 6 * * *"


@pytest.mark.req("DOC-09", "V2E-01")
def test_a_v2_eval_workbook_task_can_have_eval() -> None:
    playbook, found = read_root_text("workbook: {a: {kind: noop, eval: [{else: {do: break}}]}}", Dialect.V2_EVAL, "v2")

    task = playbook.workbook["a"]
    assert found == []
    assert isinstance(task, TaskSyntax)
    assert task.policy
    assert task.policy.rules[0].then.do == "break"
