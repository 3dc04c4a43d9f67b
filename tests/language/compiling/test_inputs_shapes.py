"""Inputs that are written out: `check` finds what no tool would read, and reads what is plain."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.tools.kinds import KINDS

ROWS = {"kind": "postgres", "auth": "pg", "query": "SELECT 1"}


def findings(tool: dict[str, Any], version: str = "v10") -> list[tuple[str, str]]:
    playbook = {
        "apiVersion": f"noetl.io/{version}",
        "kind": "Playbook",
        "metadata": {"name": "p", "path": "p"},
        "keychain": [{"name": "pg", "kind": "postgres_credential"}],
        "workload": {"any": 1},
        "workflow": [{"step": "start", "tool": tool}],
    }
    checked = check(Source("p.yaml", yaml.safe_dump(playbook, sort_keys=False)), kinds=KINDS, proofs=False)
    return [(found.code, f"{found.message}; {found.hint}") for found in checked.diagnostics]


@pytest.mark.req("TOOL-01")
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({"kind": "transfer", "source": {**ROWS, "kind": "mysql"}, "target": ROWS}, '"mysql" is not known'),
        ({"kind": "transfer", "source": {**ROWS, "kind": "postgress"}, "target": ROWS}, 'did you mean "postgres"?'),
        ({"kind": "transfer", "source": {"query": "SELECT 1"}, "target": ROWS}, 'it has no "kind"'),
        ({"kind": "transfer", "source": "pg", "target": ROWS}, '"pg" is not known'),
        (
            {"kind": "transfer", "source": ROWS, "target": ROWS, "mode": "overwrite"},
            "write append or insert or replace",
        ),
        ({"kind": "postgres", "auth": "pg", "table": "t", "mode": "replace"}, "write insert or upsert"),
        ({"kind": "artifact", "op": "delete", "ref": "x"}, '"delete" is not known'),
        ({"kind": "http", "url": ["u"]}, "url of kind http: it cannot be a list; write text"),
        ({"kind": "artifact", "op": "get", "ref": ["x"]}, "it cannot be a list"),
        ({"kind": "python", "script": {"uri": "a.py", "source": {"type": "git"}}}, '"git" is not known'),
        ({"kind": "python", "script": {"uri": "a.py", "source": {"type": "http"}}}, '"http" is not known'),
        ({"kind": "python", "script": {"source": {"type": "file"}}}, 'it has no "uri"'),
        ({"kind": "postgres", "auth": "pg", "script": {"uri": "a", "source": "s3"}}, '"s3" is not known'),
        ({"kind": "http", "url": "u", "auth": {}}, "it cannot be empty; write the name of a credential"),
        ({"kind": "postgres", "auth": ["pg"], "query": "SELECT 1"}, "it cannot be a list; write the name of a"),
        ({"kind": "postgres", "auth": 5, "query": "SELECT 1"}, '"5" is not known; write the name of a credential'),
        ({"kind": "python", "code": "x = 1", "libs": 5}, '"5" is not known; write {pd: pandas}'),
        ({"kind": "python", "code": "x = 1", "libs": {"pd": 5}}, '"5" is not known'),
    ],
)
@pytest.mark.parametrize("version", ["v10", "v2"])
def test_a_shape_that_no_tool_reads_is_an_error(tool: dict[str, Any], said: str, version: str) -> None:
    found = [text for code, text in findings(tool, version) if code == "E_INPUT_SHAPE"]

    assert len(found) == 1
    assert said in found[0]


def test_an_artifact_task_without_anything_to_do_is_an_error() -> None:
    assert ("E_TASK_KEY", 'kind artifact needs "ref" or "data"; add ref: …') in findings(
        {"kind": "artifact", "op": "get"}
    )


@pytest.mark.parametrize(
    "tool",
    [
        {"kind": "transfer", "source": ROWS, "target": {"kind": "artifact"}},
        {"kind": "transfer", "source": "{{ workload.any }}", "target": {"kind": "{{ workload.any }}"}},
        {"kind": "artifact", "op": "read", "ref": "{{ workload.any }}"},
        {"kind": "artifact", "op": "save", "data": [1]},
        {"kind": "python", "script": "a.py"},
        {"kind": "python", "script": {"uri": "a.py", "source": {"type": "file"}}},
        {"kind": "python", "script": {"uri": "a.py", "source": "file"}},
        {"kind": "python", "code": "x = 1", "libs": {"pd": "pandas"}},
        {"kind": "python", "code": "x = 1", "libs": ["json", "numpy as np", {"from": "a", "import": "b"}]},
        {"kind": "python", "code": "x = 1", "libs": {"from": "datetime", "import": ["date", "time"]}},
        {"kind": "python", "code": "x = 1", "libs": {"d": {"from": "datetime", "import": "date"}}},
        {"kind": "python", "code": "x = 1", "libs": "{{ workload.any }}"},
    ],
    ids=str,
)
def test_a_shape_that_the_tool_reads_gets_no_finding(tool: dict[str, Any]) -> None:
    assert [code for code, _ in findings(tool) if code in ("E_INPUT_SHAPE", "E_TASK_KEY")] == []


def test_type_of_an_end_is_read_as_kind_with_a_note() -> None:
    end = {"type": "postgres", "auth": "pg", "query": "SELECT 1"}

    found = findings({"kind": "transfer", "source": end, "target": {"type": "artifact"}})

    assert [text for code, text in found if code == "I_ALIAS"] == ['"type" is read as "kind"; write "kind"'] * 2
    assert "E_INPUT_SHAPE" not in [code for code, _ in found]
