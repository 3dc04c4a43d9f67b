"""Playbooks in the wild (design.md §5): which dialect each is of, and exactly what the checker says about it.

The files of playbooks/ are written as people write them. Those called `…_refused` show what stays refused and why;
all others check without an error.
"""

from __future__ import annotations

from collections import Counter

import pytest

from noetl.base.diagnostics import Severity
from tests.playbook_conventions.wild import NAMES, checked, said

# By file: its dialect (none where it is of two), and every finding but the note on older dialects, `*n` when repeated.
EXPECTED = {
    "mixed_eval_refused": ("", "E_DIALECT_MIXED"),
    "mixed_loop_mode": ("v10", "I_ALIAS"),
    "v10_anchors_and_yaml": ("v10", "W_UNKNOWN_KEY W_WORKLOAD_VALUE"),
    "v10_bare_names": ("v10", ""),
    "v10_casing": ("v10", ""),
    "v10_duckdb": ("v10", "I_ALIAS W_KEYCHAIN"),
    "v10_else_without_then": ("v10", "W_ERROR_ACCEPTED W_UNREACHABLE*2"),
    "v10_empty_sections": ("v10", ""),
    "v10_error_handling": ("v10", "I_ALIAS*5 I_TIMEOUT_SCOPE"),
    "v10_event_aliases": ("v10", "I_ALIAS*3 W_EVENT_NEVER W_UNREACHABLE"),
    "v10_event_aliases_loop": ("v10", "I_ALIAS*3"),
    "v10_flight_search": ("v10", "I_ALIAS*9"),
    "v10_foreign_names": ("v10", "I_ALIAS W_FOREIGN_NAME*5 W_ITER_IN_ARC W_USED_BEFORE_SET"),
    "v10_http_forms": ("v10", "I_ALIAS*5"),
    "v10_http_knobs_refused": ("v10", "E_TASK_KEY*3 I_ALIAS*2"),
    "v10_http_single": ("v10", "I_ALIAS*2"),
    "v10_jinja_refused": ("v10", "E_TEMPLATE*7"),
    "v10_jinja_zoo": ("v10", ""),
    "v10_keychain_kinds": ("v10", "I_ALIAS W_KEYCHAIN*2 W_WORKLOAD_KEY"),
    "v10_list_next": ("v10", "I_ALIAS"),
    "v10_list_of_names_refused": ("v10", "E_NEXT_SHAPE I_ALIAS"),
    "v10_loop_over_results": ("v10", ""),
    "v10_merge_key_refused": ("v10", "E_YAML"),
    "v10_nested_loops": ("v10", "I_ALIAS"),
    "v10_nested_playbooks": ("v10", "I_ALIAS*2"),
    "v10_other_kinds": ("v10", "I_ALIAS*5"),
    "v10_paginated_api_to_postgres": ("v10", ""),
    "v10_postgres_forms": ("v10", "I_ALIAS*3 W_KEYCHAIN*7 W_SQL_FRAGMENT"),
    "v10_python_arg_types": ("v10", ""),
    "v10_python_forms": ("v10", ""),
    "v10_result_options": ("v10", "I_ALIAS*2 W_UNKNOWN_KEY"),
    "v10_result_output_select": ("v10", "I_ALIAS*3"),
    "v10_retired_keys_refused": ("v10", "E_LOOP_KIND E_PIPE E_ROOT_KEY E_ROOT_VARS E_SINK*2 E_TASK_WHEN"),
    "v10_secrets_in_arcs_refused": ("v10", "E_KEYCHAIN*2"),
    "v10_sql_blocks": ("v10", ""),
    "v10_step_args_set_ctx": ("v10", ""),
    "v10_typos_refused": ("v10", "E_ROOT_KEY E_STEP_KEY*2 E_TASK_KEY"),
    "v10_unknown_keys": ("v10", "I_ALIAS*4 W_UNKNOWN_KEY*4"),
    "v10_unknown_keys_refused": ("v10", "E_ROOT_KEY*3 E_STEP_KEY*2 E_TASK_KEY*2 I_ALIAS"),
    "v10_weather_loop": ("v10", "I_ALIAS*3"),
    "v10_workbook_list": ("v10", "I_ALIAS"),
    "v10_workbook_mapping": ("v10", ""),
    "v2_case_bare_names": ("v2-case", ""),
    "v2_case_crlf": ("v2-case", ""),
    "v2_case_duckdb_postgres": ("v2-case", "I_ALIAS"),
    "v2_case_legacy_conditions_refused": ("v2-case", "E_NEXT_WHEN*3"),
    "v2_case_list_of_names": ("v2-case", ""),
    "v2_case_nested_playbooks": ("v2-case", ""),
    "v2_case_oauth_then_call": ("v2-case", "I_ALIAS*3"),
    "v2_case_pagination_retry": ("v2-case", "I_ALIAS"),
    "v2_case_python_forms": ("v2-case", "I_ALIAS"),
    "v2_case_result": ("v2-case", "I_ALIAS"),
    "v2_case_step_args_set_ctx": ("v2-case", ""),
    "v2_case_unknown_keys": ("v2-case", "W_ERROR_ACCEPTED W_UNKNOWN_KEY*3"),
    "v2_case_workbook": ("v2-case", ""),
    "v2_eval_bare_names": ("v2-eval", "W_ERROR_ACCEPTED"),
    "v2_eval_event_aliases": ("v2-eval", "I_ALIAS*2"),
    "v2_eval_list_of_names_refused": ("v2-eval", "E_NEXT_SHAPE*2 I_ALIAS*2"),
    "v2_eval_pagination": ("v2-eval", "I_ALIAS*2"),
    "v2_eval_postgres_upsert": ("v2-eval", "I_ALIAS W_ERROR_ACCEPTED"),
    "v2_eval_result": ("v2-eval", "I_ALIAS"),
    "v2_eval_single_tools": ("v2-eval", ""),
    "v2_eval_step_args_set_ctx": ("v2-eval", ""),
    "v2_eval_unknown_keys": ("v2-eval", "W_ERROR_ACCEPTED*2 W_UNKNOWN_KEY*3"),
    "v2_guards_refused": ("v10", "E_GUARD_LITERAL*5"),
    "v2_tool_as_text": ("v10", "I_ALIAS"),
}


def test_every_playbook_of_the_folder_is_in_the_table() -> None:
    assert list(EXPECTED) == NAMES


@pytest.mark.req("DIA-01", "DIA-02", "DIA-03", "DIA-06", "DOC-10", "SPEC-05", "VAL-19", "VAL-20")
@pytest.mark.parametrize("name", NAMES)
def test_dialect_and_findings_match_the_table(name: str) -> None:
    dialect, findings = EXPECTED[name]

    counted = Counter(found.code for found in checked(name).diagnostics)
    notes = counted.pop("I_DIALECT", 0)

    assert (checked(name).dialect or "", written(counted)) == (dialect, findings)
    assert notes == (1 if dialect.startswith("v2") else 0)


def written(counted: Counter[str]) -> str:
    return " ".join(f"{code}*{count}" if count > 1 else code for code, count in sorted(counted.items()))


@pytest.mark.parametrize("name", NAMES)
def test_only_playbooks_named_refused_have_errors(name: str) -> None:
    assert checked(name).ok is not name.endswith("_refused")


@pytest.mark.req("DOC-02", "DOC-10")
@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("v10_unknown_keys", {"E_STEP_KEY", "E_TASK_KEY"}),
        ("v2_eval_unknown_keys", {"E_ROOT_KEY", "E_STEP_KEY", "E_TASK_KEY"}),
        ("v2_case_unknown_keys", {"E_ROOT_KEY", "E_STEP_KEY", "E_TASK_KEY"}),
        ("v10_result_options", {"E_STEP_KEY"}),
    ],
)
def test_unknown_keys_are_warnings_under_v2_and_errors_when_strict(name: str, codes: set[str]) -> None:
    strict = checked(name, strict=True).diagnostics

    aside = {"I_ALIAS", "I_DIALECT", "W_ERROR_ACCEPTED"}
    assert {found.code for found in checked(name).diagnostics} - aside == {"W_UNKNOWN_KEY"}
    assert {found.code for found in strict if found.severity is Severity.ERROR} == codes


# What an author is told, where the words took some thought: file, code, line, then a part of the message or hint.
TOLD = [
    ("v10_event_aliases", "I_ALIAS", 12, '"call.done" is read as "step.done"'),
    ("v10_event_aliases", "I_ALIAS", 14, '"call.error" is read as "step.failed"'),
    ("v10_event_aliases", "I_ALIAS", 17, '"step.exit" is read as "step.done" or "step.failed"'),
    ("v10_event_aliases", "W_EVENT_NEVER", 19, '"step.enter" never reaches an arc'),
    ("v10_event_aliases_loop", "I_ALIAS", 12, '"call.done" is read as "loop.done"'),
    ("v10_http_forms", "I_ALIAS", 45, "write it as spec.timeout"),
    ("v10_http_knobs_refused", "E_TASK_KEY", 45, "move it under spec: spec: {timeout: …}"),
    ("v10_unknown_keys", "I_ALIAS", 5, "write metadata.version"),
    ("v10_unknown_keys", "I_ALIAS", 12, 'write "desc"'),
    ("v10_unknown_keys_refused", "I_ALIAS", 12, 'write "desc"'),
    ("v10_typos_refused", "E_ROOT_KEY", 4, 'did you mean "workload"?'),
    ("v10_typos_refused", "E_STEP_KEY", 7, 'did you mean "tool"?'),
    ("v10_typos_refused", "E_TASK_KEY", 10, 'did you mean "url"?'),
    ("v10_foreign_names", "W_FOREIGN_NAME", 14, "write outcome.result"),
    ("v10_foreign_names", "W_FOREIGN_NAME", 22, "write event.result"),
    ("v10_jinja_refused", "E_TEMPLATE", 11, "write a.b or a['b']"),
    ("v10_jinja_refused", "E_TEMPLATE", 16, 'did you mean "tojson"?'),
    ("v10_secrets_in_arcs_refused", "E_KEYCHAIN", 8, "only the inputs of a task can read secrets"),
    ("v2_case_legacy_conditions_refused", "E_NEXT_WHEN", 12, 'has no "else"'),
    ("v2_eval_list_of_names_refused", "E_NEXT_SHAPE", 7, "names alone are v2-case, where several fork"),
    ("v2_eval_list_of_names_refused", "I_ALIAS", 10, "write next: [{step: …}]"),
    ("v2_guards_refused", "E_GUARD_LITERAL", 8, 'write true: YAML 1.2 reads "yes" as text'),
    ("v2_guards_refused", "E_GUARD_LITERAL", 9, "write false"),
    ("v2_guards_refused", "E_GUARD_LITERAL", 11, "write \"{{ event.name == 'call.done' }}\""),
    ("v2_tool_as_text", "I_ALIAS", 6, "write tool: {kind: python, …}"),
    ("mixed_eval_refused", "E_DIALECT_MIXED", 13, "in v10 write spec: { policy: { rules } } for eval"),
    ("mixed_eval_refused", "E_DIALECT_MIXED", 13, "in v2-eval write next: [{ step, when }] for next.arcs"),
    ("mixed_loop_mode", "I_ALIAS", 8, "write loop.spec.mode"),
    ("v10_list_next", "I_ALIAS", 10, "write next: {arcs: [{step: …}]}"),
    ("v10_list_of_names_refused", "E_NEXT_SHAPE", 10, "next: {spec: {mode: exclusive}, arcs: [{step: …}]}"),
]


@pytest.mark.parametrize(("name", "code", "line", "words"), TOLD)
def test_the_finding_contains_its_hint(name: str, code: str, line: int, words: str) -> None:
    told = [f"{message} ({hint})" for at, message, hint in said(name, code) if at == line]

    assert any(words in each for each in told), told


def test_an_alias_in_a_workbook_is_noted_once_where_it_is_written() -> None:
    assert [line for line, _, _ in said("v10_workbook_list", "I_ALIAS")] == [10]
