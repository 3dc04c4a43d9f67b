"""Inputs of tasks in words and shapes of other systems lead to the same net as the canonical ones."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from noetl.base.diagnostics import Diagnostic, Source
from noetl.language.checking import Checked, check
from noetl.language.migrating.edits import apply_fixes
from noetl.language.migrating.fixes import tried_fixes
from noetl.tools.kinds import KINDS

HEAD = "apiVersion: noetl.io/{api}\nkind: Playbook\nmetadata: {{name: t, path: t/t}}\nworkflow:\n"
URL = "http://127.0.0.1/x"


def checked(task: str, api: str = "v2") -> Checked:
    text = HEAD.format(api=api) + f"  - step: start\n    tool: {task}\n"
    return check(Source("a.yaml", text), kinds=KINDS)


@pytest.mark.req("DOC-10")
@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        *(
            pytest.param(f"{{kind: python, {word}: {{a: 1}}, code: result = a}}", None, id=f"python {word}")
            for word in ("params", "parameters", "payload", "data", "input", "variables", "op_kwargs")
        ),
        pytest.param("{kind: python, args: {a: 1}, script: 'result = a'}", None, id="script as text"),
        pytest.param("{kind: python, config: {args: {a: 1}, code: result = a}}", None, id="config"),
        pytest.param("{id: start_task, kind: python, args: {a: 1}, code: result = a}", None, id="id"),
        pytest.param(
            f"{{kind: http, with: {{method: POST, url: '{URL}', json: {{a: 1}}}}}}",
            f"{{kind: http, method: POST, url: '{URL}', json: {{a: 1}}}}",
            id="with holds inputs",
        ),
        pytest.param(
            f"{{kind: http, http_method: PUT, url: '{URL}'}}", f"{{kind: http, method: PUT, url: '{URL}'}}", id="method"
        ),
        pytest.param(
            f"{{kind: http, url: '{URL}', queryParams: {{a: 1}}}}",
            f"{{kind: http, url: '{URL}', params: {{a: 1}}}}",
            id="camelCase",
        ),
        pytest.param(
            f"{{kind: http, url: '{URL}', verify: false, followRedirects: false}}",
            f"{{kind: http, url: '{URL}', spec: {{verify_ssl: false, follow_redirects: false}}}}",
            id="options",
        ),
        pytest.param(
            f"{{kind: http, url: '{URL}', headers: [{{name: X-A, value: b}}]}}",
            f"{{kind: http, url: '{URL}', headers: {{X-A: b}}}}",
            id="pairs",
        ),
        pytest.param(
            f"{{kind: http, url: '{URL}', headers: ['X-A: b', 'X-B: {{{{ execution_id }}}}:1']}}",
            f"{{kind: http, url: '{URL}', headers: {{X-A: b, X-B: '{{{{ execution_id }}}}:1'}}}}",
            id="headers as lines",
        ),
        *(
            pytest.param(
                f"{{kind: {kind}, command: 'SELECT {sign} AS n', args: {{n: 1}}, auth: {{credential: db}}}}",
                f"{{kind: {kind}, command: 'SELECT {sign} AS n', params: {{n: 1}}, auth: {{credential: db}}}}",
                id=f"args for {sign} in {kind}",
            )
            for kind, sign in (("duckdb", ":n"), ("duckdb", "$n"), ("postgres", "%(n)s"), ("postgres", ":n"))
        ),
        pytest.param(
            "{kind: postgres, command: 'SELECT %s AS n', args: [1], auth: {credential: db}}",
            "{kind: postgres, command: 'SELECT %s AS n', params: [1], auth: {credential: db}}",
            id="args by position",
        ),
        pytest.param(
            "{kind: duckdb, command: 'SELECT :n, {{ m }}', args: {n: 1, m: 2}}",
            "{kind: duckdb, command: 'SELECT :n, {{ m }}', args: {n: 1, m: 2}, params: {n: 1, m: 2}}",
            id="args that a template reads, too",
        ),
        *(
            pytest.param(
                f"{{kind: http, url: '{URL}', auth: {auth}}}",
                f"{{kind: http, url: '{URL}', auth: {{credential: shop, type: bearer}}}}",
                id=auth,
            )
            for auth in (
                "{name: shop, type: bearer}",
                "{ref: shop, type: bearer}",
                "{api: {type: bearer, key: shop}}",
                "{api: {type: bearer, credential: shop}}",
            )
        ),
        pytest.param("{kind: duckdb, script: SELECT 1 AS n}", "{kind: duckdb, command: SELECT 1 AS n}", id="SQL text"),
        pytest.param(
            "{kind: duckdb, db_path: /tmp/a, queries: [SELECT 1]}",
            "{kind: duckdb, database: /tmp/a, command: [SELECT 1]}",
            id="database",
        ),
        pytest.param(
            "{kind: Playbook, path: a/b, input: {n: 1}, returnStep: end}",
            "{kind: playbook, path: a/b, args: {n: 1}, return_step: end}",
            id="playbook",
        ),
    ],
)
def test_other_names_of_inputs_mean_the_same_as_the_canonical_ones(written: str, canonical: str | None) -> None:
    found = checked(written)
    wanted = checked(canonical or "{name: start_task, kind: python, args: {a: 1}, code: result = a}")

    assert found.refusals == ()
    assert found.warnings == ()
    assert found.net is not None
    assert wanted.net is not None
    assert replace(found.net, dialect="v10") == wanted.net


@pytest.mark.parametrize(
    "script", ["scripts/load.py", "my scripts/load.py", "{uri: scripts/load.py}", '"{{ workload.file }}"', "load"]
)
def test_a_script_that_names_a_file_is_unchanged(script: str) -> None:
    found = checked(f"{{kind: python, script: {script}}}")

    assert [one.code for one in found.diagnostics if one.code == "I_ALIAS"] == []


def test_args_that_templates_read_are_not_treated_as_inputs() -> None:
    found = checked(f"{{kind: http, url: '{URL}?{{{{ args.json }}}}', args: {{json: 1}}}}")

    assert [one.message for one in found.diagnostics if "inputs of kind" in one.message] == []


@pytest.mark.req("DOC-10")
def test_v10_accepts_no_camel_case_keys() -> None:
    found = checked(f"{{kind: http, url: '{URL}', queryParams: {{a: 1}}}}", api="v10")

    assert [(one.code, "query_params" in one.hint) for one in found.refusals] == [("E_TASK_KEY", True)]


@pytest.mark.parametrize(
    "task",
    [
        "{kind: duckdb, table: t, args: {n: 1}}",
        "{kind: duckdb, command: 'SELECT 1::n', args: {n: 1}}",
        "{kind: duckdb, command: 'SELECT {{ n }}', args: {n: 1}}",
        "{kind: postgres, command: 'SELECT :n', args: {n: 1}, params: {n: 2}, auth: {credential: db}}",
    ],
)
def test_args_without_a_placeholder_stay_args(task: str) -> None:
    found = checked(task)

    assert found.net is not None
    assert found.net.transitions[0].tasks[0].inputs.data.get("args") or found.net.transitions[0].tasks[0].args
    assert [one for one in found.diagnostics if one.code == "I_ALIAS"] == []


KEYED = f"{{kind: http, url: '{URL}', auth: {{key: shop}}}}"


def test_a_key_found_in_the_keychain_names_a_credential() -> None:
    keychain = "keychain: [{name: shop, kind: credential}]\n"
    head = HEAD.format(api="v2").replace("workflow:", f"{keychain}workflow:")

    found = check(Source("a.yaml", f"{head}  - step: start\n    tool: {KEYED}\n"), kinds=KINDS)

    assert found.net is not None
    assert found.net.transitions[0].tasks[0].inputs.data["auth"] == {"credential": "shop"}


def test_a_key_missing_from_the_keychain_gets_a_warning_that_does_not_show_it() -> None:
    [one] = [one for one in checked(KEYED).diagnostics if one.code == "W_KEYCHAIN"]

    assert "is sent as the secret itself" in one.message
    assert "auth: {credential: NAME}" in one.hint
    assert "shop" not in one.message + one.hint


@pytest.mark.parametrize(
    "auth", ["{token: '{{ keychain.a.b }}'}", "{key: '{{ keychain.a.b }}'}", "{type: header, key: k, name: X-Key}"]
)
def test_fields_of_a_credential_are_unchanged(auth: str) -> None:
    found = checked(f"{{kind: http, url: '{URL}', auth: {auth}}}")

    assert found.net is not None
    assert "credential" not in found.net.transitions[0].tasks[0].inputs.data["auth"]
    assert [one for one in found.diagnostics if "auth" in one.message] == []


def test_several_credentials_of_one_task_are_refused() -> None:
    task = "{kind: duckdb, command: SELECT 1, auth: {a: {type: postgres, key: x}, b: {type: s3, key: y}}}"

    assert [one.code for one in checked(task).refusals] == ["E_INPUT_SHAPE"]


def braces(task: str) -> list[Diagnostic]:
    found = checked(f"{task}\n  - step: load-all\n    tool: {{kind: noop}}\nworkload: {{n: 5}}")
    return [one for one in found.diagnostics if one.code == "W_FOREIGN_NAME"]


@pytest.mark.req("VAL-20", "TPL-02")
@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        ('"${{ workload.n }}"', '"{{ workload.n }}"'),
        ("'${{ n + 1 }}'", "'{{ n + 1 }}'"),
        ('"{ workload.n }"', '"{{ workload.n }}"'),
        ("'{start.data.n}'", "'{{ start.data.n }}'"),
        ("{ workload.n }", '"{{ workload.n }}"'),
        ("{start.rows}", '"{{ start.rows }}"'),
        ("<% start.rows %>", '"{{ start.rows }}"'),
        ("'<%= start.rows %>'", "'{{ start.rows }}'"),
        ('"$(start.rows)"', '"{{ start.rows }}"'),
        ("${workload.n}", '"{{ workload.n }}"'),
    ],
)
def test_braces_of_other_systems_around_a_value_get_a_warning_and_a_fix(written: str, fixed: str) -> None:
    head = HEAD.format(api="v2")
    text = (
        f"{head}  - step: start\n    tool:\n      kind: noop\n      args:\n        a: {written}\nworkload: {{n: 5}}\n"
    )
    found = check(Source("a.yaml", text), kinds=KINDS)
    fixes = tried_fixes(found, KINDS)

    assert [one.code for one in found.diagnostics if one.code == "W_FOREIGN_NAME"] == ["W_FOREIGN_NAME"]
    assert apply_fixes(text, fixes.values()) == text.replace(f"a: {written}", f"a: {fixed}")


@pytest.mark.parametrize(
    "task",
    [
        "{kind: noop, args: {a: \"{{ '$' ~ workload.n }}\", b: 'costs ${{ workload.n }}', c: '{{ workload.n }}'}}",
        "{kind: noop, args: {a: '$.workload.n', b: '{n}', c: '${HOME}', d: '{other.n}', e: '{ workload.n } and more'}}",
        "{kind: noop, args: {workload.n: null, a: {workload.n: 1}, b: {workload.n: null}}}",
        "{kind: shell, command: '${{ workload.n }}'}",
        "{kind: shell, command: '$(ctx.sh)'}",
        "{kind: python, code: '{workload.n}'}",
        "{kind: log, message: '${{ workload.n }}'}",
    ],
)
def test_other_text_with_such_signs_gets_no_warning(task: str) -> None:
    assert [one.message for one in braces(task)] == []


def test_an_amount_of_money_is_written_within_the_braces() -> None:
    [one] = braces("{kind: noop, args: {a: '${{ workload.n }}'}}")
    [sum_] = braces("{kind: noop, args: {a: '${{ workload.n + 1 }}'}}")

    assert one.hint == 'write "{{ workload.n }}"; for an amount of money "{{ \'$\' ~ workload.n }}"'
    assert "{{ '$' ~ (workload.n + 1) }}" in sum_.hint
    assert one.span.end_column == one.span.column + 1
