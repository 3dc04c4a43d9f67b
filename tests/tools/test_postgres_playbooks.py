"""Playbooks with SQL tasks, from YAML to rows: what templates read of them, and what they bind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.operations.embedded import arun
from tests.engine_script import playbook
from tests.servers.postgres import pg_auth  # noqa: F401  a fixture

EVIL = "x'); DROP TABLE people; --"


async def ran(body: str, tmp_path: Path, **payload: Any) -> Any:
    result = await arun(playbook(body), payload, db=tmp_path / "noetl.db")
    assert result.status == "completed", result
    return result.result


@pytest.mark.req("TOOL-05", "RES-05", "PIPE-09")
async def test_rows_are_passed_between_tasks_and_values_are_bound(tmp_path: Path, pg_auth: dict[str, Any]) -> None:  # noqa: F811
    body = """
workload: {pg: {}, name: ""}
workflow:
  - step: start
    tool:
      - name: schema
        kind: postgres
        auth: "{{ workload.pg }}"
        command: "CREATE TABLE people (id serial PRIMARY KEY, name text, tags jsonb)"
      - name: save
        kind: postgres
        auth: "{{ workload.pg }}"
        args: {tags: ["a", "b"]}
        command: |
          INSERT INTO people (name, tags) VALUES ('{{ workload.name }}', {{ args.tags }}) RETURNING id;
          INSERT INTO people (name) VALUES ({{ workload.name }});
          SELECT id, name FROM people WHERE name = '{{ workload.name }}' ORDER BY id LIMIT 1
      - name: store
        kind: postgres
        auth: "{{ workload.pg }}"
        table: people
        args: {name: "{{ save.id }}"}
      - name: read
        kind: postgres
        auth: "{{ workload.pg }}"
        query: "SELECT name FROM people WHERE id >= {{ save.data[0].id }} ORDER BY id"
      - name: sum
        kind: noop
        args:
          one: "{{ save.name }}"
          first: "{{ save.command_0.rows[0].id }}"
          names: "{{ read.data | map(attribute='name') | list }}"
          stored: "{{ store.store ~ ':' ~ store.key }}"
"""

    assert await ran(body, tmp_path, pg=pg_auth, name=EVIL) == {
        "one": EVIL,
        "first": 1,
        "names": [EVIL, EVIL, "1"],
        "stored": "postgres.table:people",
    }


@pytest.mark.req("OUT-02")
async def test_a_policy_reads_the_sqlstate(tmp_path: Path, pg_auth: dict[str, Any]) -> None:  # noqa: F811
    body = """
workload: {pg: {}}
workflow:
  - step: start
    tool:
      - name: twice
        kind: postgres
        auth: "{{ workload.pg }}"
        command: "CREATE TABLE q (a int UNIQUE); INSERT INTO q VALUES (1), (1)"
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' and outcome.pg.code == '23505' }}"
                then: {do: continue, set_iter: {seen: "{{ outcome.pg.message }}"}}
              - else: {then: {do: fail}}
      - {name: told, kind: noop, args: {seen: "{{ iter.seen }}"}}
"""

    assert "duplicate key" in (await ran(body, tmp_path, pg=pg_auth))["seen"]


async def test_a_template_that_would_become_sql_fails_the_task(tmp_path: Path, pg_auth: dict[str, Any]) -> None:  # noqa: F811
    body = """
workload: {pg: {}, table: ""}
workflow:
  - step: start
    tool:
      - {name: t, kind: postgres, auth: "{{ workload.pg }}", command: "SELECT * FROM {{ workload.table }}"}
"""

    result = await arun(playbook(body), {"pg": pg_auth, "table": EVIL}, db=tmp_path / "noetl.db")

    assert result.status == "failed"
    assert "sql.fragment" in str(result)


@pytest.mark.req("TOOL-06")
async def test_duckdb_runs_in_a_playbook(tmp_path: Path) -> None:
    body = """
workload: {items: [3, 1, 2]}
workflow:
  - step: start
    tool:
      - name: add
        kind: duckdb
        query: "SELECT sum(i)::int AS total FROM (SELECT unnest({{ workload.items }}) AS i)"
      - {name: told, kind: noop, args: {total: "{{ add.total }}"}}
"""

    assert await ran(body, tmp_path) == {"total": 6}
