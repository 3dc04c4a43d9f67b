"""Which row or test shows each shape that people write: a missing entry, or one without a target, fails a test.

A shape is shown by a row of `shapes` or `more_shapes` (`shape:`), by the example of an accepted spelling (`spelling:`),
by a row of `found_shapes` (`found:`), by one that migrate puts right (`rescued:`), or by a test elsewhere (`test:`).
"""

from __future__ import annotations

_MATRIX = "test:tests/tools/test_sql_shapes.py::"
_SQL = f"{_MATRIX}test_a_bound_value_on_postgres_equals_its_literal"
_DUCKDB = f"{_MATRIX}test_a_bound_value_on_duckdb_equals_its_literal"
_CLI = "test:tests/cli/test_playbooks_warnings.py::"

COVERED: dict[str, str] = {
    # 1: warnings where people are
    "run shows warnings": f"{_CLI}test_a_run_shows_warnings_with_their_place_even_with_quiet",
    "register shows warnings": f"{_CLI}test_registering_shows_warnings_and_registers",
    "the API shows warnings": (
        "test:tests/server/routes/test_catalog.py::test_registering_and_starting_return_the_warnings"
    ),
    "the UI shows warnings and offers the migration": (
        "test:tests/browser/test_editor.py::"
        "test_a_refused_playbook_is_offered_its_migration_and_registered_with_its_warnings"
    ),
    "--strict": f"{_CLI}test_strict_refuses_a_playbook_with_warnings",
    "a setting asks for strictness": f"{_CLI}test_a_setting_enables_strict",
    "a server asks for strictness": (
        "test:tests/server/routes/test_catalog.py::test_warnings_are_refused_if_a_client_or_the_server_is_strict"
    ),
    "unknown keys of a step": "found:step key",
    "unknown keys of a task": "found:task key",
    "unknown keys of an arc": "found:arc key",
    "unknown keys of a rule": "found:rule key",
    # 2: names that nothing defines
    "an undefined root name": "found:root name",
    "an undefined root name in SQL": "found:root name in SQL",
    "an undefined root name in every site": (
        "test:tests/language/compiling/test_undefined_names.py::test_an_undefined_name_is_found_in_every_template"
    ),
    "an undefined root name at run time": (
        "test:tests/templates/test_values.py::test_an_undefined_name_fails_the_run_with_the_nearest_name"
    ),
    "misspelled keys of workload": "found:workload key",
    "misspelled keys of iter": "found:iter key",
    "misspelled keys of event": "found:event key",
    "misspelled form fields": "found:form field",
    # 3: SQL
    "the escape idiom, repeated templates, quoted and bare ones, lists on PostgreSQL": _SQL,
    "the same on DuckDB": _DUCKDB,
    "at least 300 statements": f"{_MATRIX}test_the_matrix_contains_at_least_three_hundred_shapes",
    # 4: results by their own keys
    "step.status": "shape:own status",
    "step.error": "shape:own error",
    "step.rows": "shape:own rows",
    "step.ref": "shape:own ref",
    "step.result": "shape:payload as result",
    "step.data of a payload with its own data": "shape:data of its own",
    "step.data.result": "shape:data.result",
    "the envelope": "shape:envelope",
    "step.results.TASK": "shape:results of tasks",
    "loop.results": "shape:loop results",
    "loop.index": "shape:loop index",
    "_prev": "shape:previous",
    "outcome.result": "shape:outcome result",
    # 5
    "args of a looped step": "shape:args of a looped step",
    "args of the caller": "shape:args of the caller",
    "case on loop.done": "shape:loop.done",
    "case on loop.iteration.*": "shape:loop.iteration",
    "context in Python": (
        "test:tests/tools/python/test_context_reads.py::test_code_reads_everything_through_its_context"
    ),
    "_ref is defined": "shape:no reference",
    # 6: no unrequested fallback
    "auth of an unknown shape": "found:auth shape",
    "auth as an empty mapping": "found:auth empty",
    "a missing credential": ("test:tests/secrets/test_keychain_runs.py::test_an_unknown_literal_auth_ends_the_start"),
    "unknown transfer.type": "found:transfer type",
    "artifact inputs": "found:artifact inputs",
    "script.source": "found:script source",
    "libs": "found:libs shape",
    "libs as list, mapping, {from, import}": (
        "test:tests/tools/test_python.py::test_libs_are_accepted_in_every_clear_form"
    ),
    # 7
    "a template in Python code": "found:template in python",
    "kinds of errors that no tool has": "found:error kind",
    "other names of the errors of http": (
        "test:tests/engine/pipeline/test_scopes.py::test_an_http_error_has_a_common_name"
    ),
    # errors that pass for success
    "else: continue without a rule for errors": "found:else continue",
    "an arc that a failure takes": "found:failure by an arc",
    "a fallback behind a retry": "found:fallback of a retry",
    # refused though plain
    "labelled tasks": "shape:labels",
    "root ctx": "shape:root ctx",
    "keychain in older dialects": "shape:keychain in v2-eval",
    "eval beside step vars": "shape:step vars",
    "then with set, log, step": "shape:then list",
    "then with retry": "shape:then retry",
    "then with call": "shape:then call",
    "then with collect": "shape:then collect",
    "then with fail": "shape:then fail",
    "set as a list": "shape:set pairs",
    "retry.max_delay": "shape:retry max_delay",
    "retry.params": "shape:retry params",
    "backoff: fixed": "shape:backoff fixed",
    "loop.mode: async": "shape:loop async",
    "loop.concurrency": "shape:loop concurrency",
    "loop.until": "shape:loop until",
    "loop.where": "found:loop where",
    "next.spec.mode: parallel": "shape:next parallel",
    "next as a list": "shape:next list",
    "cond for when of an arc": "shape:cond",
    "cond for when of a rule": "spelling:rule-cond",
    "a retry block on a step": "shape:retry block",
    "a retry block on a task": "shape:retry on a task",
    "inputs under tool.spec": "shape:spec inputs",
    "statement for command": "shape:statement",
    "executor.profile and timeout_s": "shape:executor",
    "executor.requires": "shape:executor requires",
    "a step named error": "shape:step named error",
    "secrets with name and provider": "spelling:secret-by-name",
    "static keychain with map": "spelling:keychain-static-map",
    "a first step not called start": "rescued:first step",
    "kind: event_log": "shape:event log",
    "kind: iterator": "shape:kind iterator",
    "depends_on": "shape:depends_on",
    "depends_on with several steps": "found:several dependencies",
    "policy.on_error of a task": "shape:policy on_error",
    "policy.on_error of a step": "found:step on_error",
    "save of a step": "shape:save",
    "outputs of a step in v2-case": "shape:case outputs",
    "a step's result as a template": "found:result of a step",
    "directives without do": "shape:directive without do",
    "uri and call of mcp": "spelling:mcp-words",
    # v10-io
    "input of a step, output.data, set of a step": "shape:v10-io",
    "input of a task": "spelling:task-input",
    "input of an arc": "spelling:arc-input",
    "output in templates": "spelling:io-names",
    "output.rules of a task": "spelling:task-output",
    "set of a task": "spelling:task-set",
    "set of a rule": "spelling:rule-set",
    "set of an arc": "spelling:arc-set",
    # rescued
    "documents that mix dialects": "rescued:mixed",
}
