"""What the conventions mean, as far as the compiled net shows it (design.md §5)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.language.proving.guards import truth
from noetl.net.task import Directive
from noetl.templates.render import render
from noetl.templates.scope import Scope
from tests.narrowing import present
from tests.playbook_conventions.wild import net, step, task


def rendered(text: str, **namespaces: Any) -> Any:
    """A template's value where these namespaces can be seen, the iteration bound bare as in a pipeline."""
    iteration = {key: value for key, value in namespaces.get("iter", {}).items() if key != "index"}
    return render(text, Scope(namespaces, iteration=iteration))


@pytest.mark.req("TPL-06")
@pytest.mark.parametrize(
    ("name", "task_name", "url"),
    [
        ("v10_bare_names", "call", "https://example.com/api/globex/1"),
        ("v2_eval_bare_names", "call", "https://example.com/api/globex"),
    ],
)
def test_workload_keys_iterator_and_position_are_read_without_prefix(name: str, task_name: str, url: str) -> None:
    compiled, called = net(name), task(name, task_name)
    iterator = present(step(name).loop).iterator

    assert rendered(called.inputs.data["url"], workload=compiled.workload, iter={iterator: "globex", "index": 1}) == url


@pytest.mark.req("TPL-06", "V2C-22")
def test_the_iterator_is_read_without_prefix_in_v2_case_too() -> None:
    called = step("v2_case_bare_names", "process_items").tasks[0]
    workload = net("v2_case_bare_names").workload

    assert rendered(called.inputs.data["url"], workload=workload, iter={"item": 2, "index": 1}).endswith("/items/2")
    assert rendered(called.inputs.data["params"]["index"], iter={"item": 2, "index": 1}) == 1


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("v10_event_aliases", {"step.done": ["on_success", "always"], "step.failed": ["on_failure", "always"]}),
        ("v10_event_aliases_loop", {"loop.done": ["sum_up"], "step.failed": ["sum_up", "broken"]}),
        ("v2_eval_event_aliases", {"step.done": ["good"], "step.failed": ["bad"]}),
    ],
)
def test_event_aliases_mean_the_boundary_event(name: str, taken: dict[str, list[str]]) -> None:
    """`event.data.failed == 0` of the loop is open either way, so its arc may be taken on a failure too."""
    arcs = present(step(name).router).arcs

    for event, targets in taken.items():
        assert [arc.target for arc in arcs if truth(arc.when, event) is not False] == targets


@pytest.mark.parametrize("name", ["v10_step_args_set_ctx", "v2_eval_step_args_set_ctx", "v2_case_step_args_set_ctx"])
def test_step_args_and_set_ctx_mean_the_same_in_every_dialect(name: str) -> None:
    first = step(name)

    assert first.args is not None
    assert first.set_ctx is not None
    assert all("{{ start." in value for value in first.set_ctx.data.values())


@pytest.mark.parametrize(
    ("name", "step_name", "store", "selected"),
    [
        ("v10_result_output_select", "start", "object", ("count", "meta.cursor")),
        ("v10_result_output_select", "load", "gcs", ("rows",)),
        ("v10_result_options", "start", "kv", ("data.count", "data.paging.next")),
        ("v2_eval_result", "start", "s3", ("total",)),
        ("v2_case_result", "start", "object", ("total",)),
    ],
)
def test_result_options_set_storage_and_inline_fields(
    name: str, step_name: str, store: str, selected: tuple[str, ...]
) -> None:
    """Written as `result` on the step, or as `spec.result`."""
    result = step(name, step_name).result

    assert result is not None
    assert (result.store, result.output_select) == (store, selected)


@pytest.mark.req("VAL-07", "ADM-01")
def test_else_with_and_without_its_inner_then_is_the_same_rule() -> None:
    name = "v10_else_without_then"
    fetch, check = (task(name, each).policy for each in ("fetch", "check"))
    admission = step(name).admission

    assert fetch is not None
    assert (fetch.rules[-1].when, fetch.rules[-1].do) == (None, Directive.CONTINUE)
    assert fetch.rules[-1].mutations is not None
    assert check is not None
    assert (check.rules[-1].when, check.rules[-1].do) == (None, Directive.BREAK)
    assert admission is not None
    assert [(rule.when and rule.when.data, rule.allow) for rule in admission.rules] == [(True, True), (None, False)]


@pytest.mark.req("VAL-16")
def test_a_yaml_boolean_is_a_valid_guard() -> None:
    arcs = present(step("v10_else_without_then").router).arcs

    assert [(arc.target, truth(arc.when, "step.done")) for arc in arcs] == [("off", False), ("end", True)]


@pytest.mark.req("TOOL-07")
def test_python_code_is_preserved_and_its_args_are_rendered() -> None:
    name = "v10_python_forms"
    code = {each.name: each.verbatim.get("code", "") for each in step(name).tasks}

    assert "{{ not_a_template }}" in code["with_no_libs"]
    assert code["with_async_main"].count("async def main()") == 1
    assert task(name, "with_libs").inputs.data["libs"] == {"js": "json", "dt": "datetime"}
    assert task(name, "from_file").inputs.data["script"]["source"] == {"type": "file"}


@pytest.mark.req("TOOL-07", "TPL-02")
def test_text_that_resembles_another_type_stays_text() -> None:
    name = "v10_python_arg_types"
    args = step(name).tasks[0].inputs.data["args"]
    values = [rendered(text, workload=net(name).workload) for text in args.values()]

    assert values == ["007", "true", '{"a": 1}']


@pytest.mark.req("TOOL-02", "SPEC-05")
def test_http_aliases_become_the_canonical_inputs() -> None:
    inputs = {each.name: set(each.inputs.data) for each in step("v10_http_forms").tasks}

    assert inputs["endpoint_and_payload"] == {"method", "url", "headers", "json"}
    assert inputs["with_form"] == {"method", "url", "form"}
    assert inputs["with_query_and_body"] == {"method", "url", "data"}
    assert inputs["with_knobs"] == {"method", "url"}


@pytest.mark.req("SPEC-02", "SPEC-05")
@pytest.mark.parametrize(
    ("name", "step_name", "spec"),
    [
        ("v10_http_forms", "start", {"timeout": 10, "verify_ssl": False, "follow_redirects": True}),
        ("v2_eval_pagination", "fetch_all", {"timeout": 15}),
        ("v2_case_oauth_then_call", "get_token", {"timeout": 10}),
        ("v2_case_oauth_then_call", "call_api", {"timeout": 30, "follow_redirects": False}),
        ("v10_nested_playbooks", "start", {"timeout": 600}),
        ("v10_error_handling", "start", {"timeout": "5s"}),
    ],
)
def test_options_next_to_kind_are_read(name: str, step_name: str, spec: dict[str, Any]) -> None:
    assert spec in [each.spec.data for each in step(name, step_name).tasks]


@pytest.mark.req("TOOL-05", "TOOL-06")
def test_sql_is_read_from_query_command_commands_and_script() -> None:
    name = "v10_postgres_forms"
    inputs = {each.name: each.inputs.data for each in step(name).tasks}

    assert inputs["functions"]["auth"] == "{{ workload.pg_auth }}"
    assert "$$ LANGUAGE plpgsql" in inputs["functions"]["command"]
    assert inputs["two_lists"]["command"] == ["TRUNCATE staging", "INSERT INTO staging SELECT * FROM users"]
    assert set(inputs["by_position"]) == {"auth", "query", "params"}
    assert inputs["from_script"]["script"]["uri"] == "sql/refresh.sql"
    assert task("v10_duckdb", "attach").inputs.data["command"][0].startswith("ATTACH")
    assert step("v2_case_duckdb_postgres", "aggregate").tasks[0].inputs.data["auth"] == "{{ workload.pg_auth }}"


@pytest.mark.req("TOOL-11")
def test_a_nested_playbook_accepts_args_or_payload() -> None:
    name = "v10_nested_playbooks"
    score, notify = task(name, "score"), task(name, "notify", "fire_and_forget")

    assert score.inputs.data["return_step"] == "finalize_result"
    assert notify.inputs.data["args"] == {"scores": "{{ start.data }}"}
    assert notify.spec.data["async"] is True


@pytest.mark.req("TOOL-10", "DOC-09")
@pytest.mark.parametrize(
    ("name", "step_name", "task_name", "kind", "bound"),
    [
        ("v10_workbook_list", "start", "oslo", "http", {"city": "{{ city }}"}),
        ("v10_workbook_list", "start", "double", "python", {"n": 4}),
        ("v10_workbook_list", "again", "double", "python", {"n": "{{ start.data }}"}),
        ("v10_workbook_mapping", "start", "one", "http", {"id": 1}),
        ("v2_case_workbook", "start", "evaluate", "python", {"n": "{{ workload.n }}"}),
        ("v10_flight_search", "answer", "ask", "http", None),
    ],
)
def test_workbook_references_become_the_task_they_name(
    name: str, step_name: str, task_name: str, kind: str, bound: dict[str, Any] | None
) -> None:
    """By `task`, by `name` where `task` is absent, from a list, from a mapping, with a `tool` or without."""
    resolved = task(name, task_name, step_name)

    assert resolved.kind == kind
    assert resolved.args is not None
    assert bound is None or resolved.args.data == bound


@pytest.mark.req("TOOL-10", "SPEC-02")
def test_a_reference_keeps_the_policy_of_its_definition_and_overrides_its_spec() -> None:
    two = task("v10_workbook_mapping", "two")

    assert two.spec.data["timeout"] == 5
    assert two.policy is not None
    assert [rule.do for rule in two.policy.rules] == [Directive.RETRY, Directive.CONTINUE]


@pytest.mark.req("TOOL-01")
def test_other_kinds_are_accepted_with_their_spellings() -> None:
    inputs = {each.name: (each.kind, set(each.inputs.data)) for each in step("v10_other_kinds").tasks}

    assert inputs["get"] == ("artifact", {"op", "ref"})
    assert inputs["kv"] == ("nats", {"op", "bucket", "key", "data"})
    assert inputs["read_secret"] == ("secrets", {"secret", "provider"})
    assert {kind for kind, _ in inputs.values()} >= {"transfer", "shell", "script", "container", "mcp", "ducklake"}


@pytest.mark.req("KEY-01", "KEY-07")
def test_every_keychain_kind_is_declared_with_its_lookup_keys() -> None:
    entries = {entry.name: entry for entry in net("v10_keychain_kinds").keychain}

    assert [entry.kind for entry in entries.values()] == [
        *("secret_manager", "postgres_credential", "credential", "env", "file", "static", "bearer", "basic", "oauth2")
    ]
    assert entries["openai"].lookup["scope"] == "global"
    assert set(entries["openai"].lookup["map"]) == {"api_key"}
    assert entries["amadeus"].lookup["token_url"] == "https://test.api.amadeus.com/v1/security/oauth2/token"
    assert "scope" not in entries["amadeus"].lookup


@pytest.mark.req("V2E-04")
def test_a_policy_that_handles_errors_gets_no_second_rule() -> None:
    """It could never decide, and the proof would warn of a guard that nobody wrote."""
    fetch = task("v2_eval_pagination", "fetch_page", "fetch_all").policy
    upsert = task("v2_eval_postgres_upsert", "upsert").policy

    assert fetch is not None
    assert [rule.do for rule in fetch.rules] == [Directive.RETRY, Directive.FAIL, Directive.CONTINUE]
    assert upsert is not None
    assert [rule.do for rule in upsert.rules] == [Directive.RETRY, Directive.CONTINUE]


@pytest.mark.req("V2C-04")
def test_a_list_of_names_forks_in_v2_case() -> None:
    router = step("v2_case_list_of_names").router

    assert router is not None
    assert ([arc.target for arc in router.arcs], router.mode) == (["left", "right"], "inclusive")


@pytest.mark.req("DOC-11")
def test_keys_without_a_value_are_treated_as_absent() -> None:
    """`next:` and `tool:` left empty make a terminal place, in v10 as in the other dialects."""
    end = step("v10_empty_sections", "end")

    assert (end.tasks, end.router) == ((), None)
    assert step("v10_empty_sections").router is not None


def test_a_yaml_alias_gives_the_same_rules_in_both_places() -> None:
    a, b = (task("v10_anchors_and_yaml", each).policy for each in ("a", "b"))

    assert a is not None
    assert a == b
    assert net("v10_anchors_and_yaml").workload["on"] == "yes"
