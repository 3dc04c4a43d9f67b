"""`transfer` in a playbook: its SQL is bound, and rows move."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import noetl
from noetl.engine.pipeline.preparation import prepare
from noetl.net.kinds import NOTHING_BOUND
from noetl.net.task import Task
from noetl.templates.scope import Scope
from noetl.templates.sql.statements import Bound
from noetl.templates.values import Authored
from tests.servers.postgres import pg_auth, server

__all__ = ["pg_auth"]


def test_templates_in_the_sql_of_source_and_target_are_bound() -> None:
    """Or a value would be SQL, as in no other tool."""
    source = {
        "kind": "postgres",
        "query": "SELECT * FROM t WHERE name = '{{ workload.who }}'",
        "auth": "{{ workload.db }}",
    }
    task = Task(name="t", kind="transfer", inputs=Authored({"source": source, "target": {"kind": "artifact"}}))
    scope = Scope({"workload": {"who": "x'; DROP TABLE t; --", "db": "main"}})

    inputs = prepare(task, scope, now=0.0, bound=NOTHING_BOUND).inputs

    assert isinstance(inputs["source"]["query"], Bound)
    (statement,) = inputs["source"]["query"].statements
    assert statement.text == "SELECT * FROM t WHERE name = $1"
    assert statement.params == ("x'; DROP TABLE t; --",)
    assert inputs["source"]["auth"] == "main"


def test_a_playbook_moves_rows(pg_auth: dict[str, Any]) -> None:
    table = f"t_{uuid4().hex[:10]}"
    server().ask(f"CREATE TABLE {table} (id int, name text)", pg_auth["database"])

    result = noetl.run(
        """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: move, path: tests/move}
workflow:
  - step: start
    tool:
      - name: move
        kind: transfer
        source:
          kind: postgres
          auth: "{{ workload.auth }}"
          query: SELECT n AS id, '{{ workload.word }} ' || n AS name FROM generate_series(1, 25) AS n
          cursor: id
        target: {kind: postgres, auth: "{{ workload.auth }}", table: "{{ workload.table }}"}
        chunk_size: 10
""",
        {"auth": pg_auth, "table": table, "word": "it's"},
        db=":memory:",
    )

    assert result.ok, result.error
    assert (result.result["rows"], result.result["chunks"]) == (25, 3)
    assert server().ask(f"SELECT max(name) FROM {table}", pg_auth["database"]) == "it's 9"
