"""Statements as people write them, templates and all, on a real server: each must run as it stands."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.templates.sql.binding import bind
from noetl.tools.postgres.tool import PostgresTool
from tests.servers.postgres import pg_auth  # noqa: F401  a fixture
from tests.tools.sql_tasks import outcome_of

SCOPE: dict[str, Any] = {
    "uid": 7,
    "amt": 12.5,
    "nm": "O'Reilly; --",
    "obj": {"k": "v", "n": [1, None]},
    "tags": ["a", "b'c"],
    "flag": True,
    "day": "2024-02-29",
    "one": 1,
    "n": 3,
    "zero": 0,
    "re": "^O.R",
    "since": "2020-01-01T00:00:00Z",
    "nul": None,
    "ids": [1, 2],
    "col": "user_id",
    "dir": "DESC",
    "unit": "month",
    "fmt": "YYYY-MM",
    "tz": "Europe/Berlin",
    "rows": [{"a": 1, "b": "x'y"}],
    "rowsj": [{"id": 1, "name": "z"}],
    "idx": "o_idx",
    "tbl": "o",
    "tbl2": "o2",
    "newcol": "extra",
    "typ": "int",
}

STATEMENTS = """
CREATE TABLE o (id serial primary key, user_id int, amount numeric(10,2), name text, ts timestamptz default
now(), data jsonb, tags text[], ok bool, d date)

INSERT INTO o (user_id, amount, name, data, tags, ok, d) VALUES ({{ uid }}, {{ amt }}, '{{ nm }}', '{{ obj |
tojson }}', {{ tags }}, {{ flag }}, {{ day }})

INSERT INTO o (user_id, data) SELECT {{ uid }}, jsonb_build_object('k', {{ nm }}::text, 'n', {{ uid }})

INSERT INTO o (id, name) VALUES (1, {{ nm }}) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name || {{ nm }},
amount = coalesce(o.amount, {{ amt }})

UPDATE o SET name = {{ nm }}, data = data || {{ obj }}::jsonb, ts = now() - interval '{{ n }} hours' WHERE id
= {{ one }} RETURNING id, name

SELECT * FROM o WHERE data->>'k' = {{ nm }} OR data @> {{ obj }} OR name ILIKE '%{{ nm }}%' OR name ~ {{ re }}

SELECT * FROM o WHERE ts > {{ since }} AND ts <= now() AND d = {{ day }} AND user_id IN ({{ uid }}, {{ one }})

SELECT * FROM o WHERE ({{ nul }}::text IS NULL OR name = {{ nul }})

SELECT * FROM o WHERE id = ANY({{ ids }}) AND tags && {{ tags }} AND user_id = {{ uid }} LIMIT {{ n }} OFFSET
{{ zero }}

SELECT count(*) FILTER (WHERE amount > {{ amt }}) AS c, sum(amount) * {{ amt }} AS s, round(avg(amount), {{
one }}) FROM o GROUP BY user_id HAVING count(*) > {{ zero }} ORDER BY {{ col }} {{ dir }} NULLS LAST

WITH x AS (SELECT id FROM o WHERE user_id = {{ uid }}), y AS (SELECT {{ one }} AS one) SELECT * FROM x, y
WHERE x.id >= {{ one }}

SELECT date_trunc('{{ unit }}', ts), to_char(ts, {{ fmt }}), ts AT TIME ZONE {{ tz }}, ts AT TIME ZONE '{{ tz
}}' FROM o

SELECT row_number() OVER (PARTITION BY {{ col }} ORDER BY {{ col }} {{ dir }}) FROM o

SELECT id FROM o WHERE EXISTS (SELECT 1 FROM o p WHERE p.id = o.id AND p.user_id = {{ uid }}) UNION ALL SELECT
{{ one }}

SELECT * FROM jsonb_to_recordset({{ rows }}::jsonb) AS r(a int, b text)

SELECT * FROM json_populate_recordset(NULL::o, {{ rowsj }})

SELECT * FROM unnest({{ ids }}::int[]) AS u(i) JOIN o ON o.id = u.i AND o.user_id = {{ uid }}

DELETE FROM o WHERE id NOT IN ({{ ids }}) AND ts < {{ since }}::timestamptz - make_interval(days => {{ n }})

MERGE INTO o USING (VALUES ({{ one }}, {{ nm }})) AS v(id, name) ON o.id = v.id WHEN MATCHED THEN UPDATE SET
name = v.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (v.id, {{ nm }})

SELECT CASE {{ one }} WHEN 1 THEN {{ nm }} ELSE 'x' END, {{ one }} BETWEEN {{ zero }} AND {{ n }}, NOT {{ flag
}}, -{{ n }}, {{ n }} % 3

EXPLAIN SELECT * FROM o WHERE user_id = {{ uid }} AND name = '{{ nm }}'

CREATE TABLE o2 AS SELECT * FROM o WHERE user_id = {{ uid }} AND name = '{{ nm }}'

CREATE INDEX {{ idx }} ON {{ tbl }} ({{ col }})

ALTER TABLE {{ tbl }} ADD COLUMN IF NOT EXISTS {{ newcol }} {{ typ }} DEFAULT {{ n }}

COMMENT ON TABLE o IS '{{ nm }}'

TRUNCATE {{ tbl2 }}

DROP TABLE IF EXISTS {{ tbl2 }} CASCADE

CREATE OR REPLACE FUNCTION add1(a int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN a + 1; END; $$; SELECT
add1({{ n }})

SELECT set_config('app.user', {{ nm }}, true), current_setting('app.user')

SELECT '{{ uid }}'::int + 1, CAST('{{ amt }}' AS numeric), {{ day }}::date + 1, '{{ day }}'::date
"""


@pytest.mark.req("TOOL-05")
async def test_typical_statements_run_with_their_values_bound(pg_auth: dict[str, Any]) -> None:  # noqa: F811
    tool, failed = PostgresTool(), []

    for sql in STATEMENTS.strip().split("\n\n"):
        outcome = await outcome_of(tool, {"command": bind(sql, SCOPE), "auth": pg_auth})
        if outcome.error is not None:
            failed.append((sql, outcome.error.message))
    await tool.close()

    assert failed == []
