"""Inputs of tasks in words and shapes of other systems lead to the same net as the canonical ones."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from noetl.base.diagnostics import Source
from noetl.language.checking import Checked, check
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
def test_other_words_for_inputs_mean_what_the_canonical_ones_mean(written: str, canonical: str | None) -> None:
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
def test_a_script_that_names_a_file_stays_one(script: str) -> None:
    found = checked(f"{{kind: python, script: {script}}}")

    assert [one.code for one in found.diagnostics if one.code == "I_ALIAS"] == []


def test_args_whose_names_templates_read_are_not_taken_for_inputs() -> None:
    found = checked(f"{{kind: http, url: '{URL}?{{{{ args.json }}}}', args: {{json: 1}}}}")

    assert [one.message for one in found.diagnostics if "inputs of kind" in one.message] == []


@pytest.mark.req("DOC-10")
def test_v10_takes_no_key_in_camel_case() -> None:
    found = checked(f"{{kind: http, url: '{URL}', queryParams: {{a: 1}}}}", api="v10")

    assert [(one.code, "query_params" in one.hint) for one in found.refusals] == [("E_TASK_KEY", True)]
