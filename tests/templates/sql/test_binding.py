"""SQL text with templates: what is bound, what may be a name, what is refused (design.md §8, O-23)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.pipeline.preparation import prepare
from noetl.net.task import Task
from noetl.templates.scope import Scope
from noetl.templates.sql.binding import bind, read
from noetl.templates.sql.statements import with_params
from noetl.templates.values import Authored
from noetl.tools.kinds import KINDS

EVIL = "x'; DROP TABLE t; --"


def bound(sql: Any, **scope: Any) -> list[tuple[str, list[Any]]]:
    return [(statement.text.strip(), list(statement.params)) for statement in bind(sql, scope).statements]


@pytest.mark.req("TOOL-05")
@pytest.mark.parametrize(
    ("sql", "text"),
    [
        # after an operator
        ("SELECT * FROM t WHERE a = {{ x }}", "SELECT * FROM t WHERE a = $1"),
        ("SELECT * FROM t WHERE a={{ x }}", "SELECT * FROM t WHERE a= $1"),
        ("SELECT * FROM t WHERE a ->> {{ x }} = 'k'", "SELECT * FROM t WHERE a ->> $1 = 'k'"),
        ("UPDATE t SET a = {{ x }}, b = 2", "UPDATE t SET a = $1, b = 2"),
        ("SELECT f(a => {{ x }})", "SELECT f(a => $1)"),
        ("SELECT a = ({{ x }})", "SELECT a = ($1)"),
        # in a value list or call
        ("INSERT INTO t (a) VALUES ({{ x }})", "INSERT INTO t (a) VALUES ($1)"),
        ("INSERT INTO t VALUES (1, {{ x }})", "INSERT INTO t VALUES (1, $1)"),
        ("INSERT INTO t VALUES (1), ({{ x }})", "INSERT INTO t VALUES (1), ($1)"),
        ("SELECT f({{ x }}, 1)", "SELECT f($1, 1)"),
        ("SELECT a AS b, f({{ x }})", "SELECT a AS b, f($1)"),
        ("SELECT s.f(1, {{ x }})", "SELECT s.f(1, $1)"),
        ("SELECT * FROM f({{ x }})", "SELECT * FROM f($1)"),
        ("SELECT * FROM t WHERE a IN ({{ x }}, 'b')", "SELECT * FROM t WHERE a IN ($1, 'b')"),
        ("SELECT ARRAY[{{ x }}]", "SELECT ARRAY[ $1 ]"),
        ("SELECT CAST({{ x }} AS int)", "SELECT CAST($1 AS int)"),
        ("SELECT extract(year FROM {{ x }})", "SELECT extract(year FROM $1)"),
        # after words that take a value
        ("SELECT 1 LIMIT {{ x }} OFFSET {{ x }}", "SELECT 1 LIMIT $1 OFFSET $1"),
        ("SELECT * FROM t WHERE a LIKE {{ x }}", "SELECT * FROM t WHERE a LIKE $1"),
        ("SELECT * FROM t WHERE a BETWEEN {{ x }} AND {{ x }}", "SELECT * FROM t WHERE a BETWEEN $1 AND $1"),
        ("SELECT a FROM t FETCH FIRST {{ x }} ROWS ONLY", "SELECT a FROM t FETCH FIRST $1 ROWS ONLY"),
        ("SELECT CASE WHEN a THEN {{ x }} ELSE {{ x }} END", "SELECT CASE WHEN a THEN $1 ELSE $1 END"),
        ("SELECT a AT TIME ZONE {{ x }}, b", "SELECT a AT TIME ZONE $1, b"),
        ("SELECT a IS NOT DISTINCT FROM {{ x }}", "SELECT a IS NOT DISTINCT FROM $1"),
        # with a cast
        ("SELECT {{ x }}::text", "SELECT $1 ::text"),
        # in quotes
        ("SELECT '{{ x }}'", "SELECT $1"),
        ("SELECT a LIKE'{{ x }}'", "SELECT a LIKE $1"),
        ("SELECT '{{ x }}'::text, E'{{ x }}', $$ {{ x }} $$", "SELECT $1 ::text, $1, $2"),
    ],
)
def test_a_template_in_a_value_position_is_bound(sql: str, text: str) -> None:
    ((found, params),) = bound(sql, x=EVIL)

    assert found == text
    assert all(EVIL in value for value in params)
    assert len(params) == len(set(re.findall(r"\$\d", text)))


@pytest.mark.parametrize(
    ("sql", "value", "text"),
    [
        ("SELECT * FROM {{ x }}", "orders", "SELECT * FROM orders"),
        ("SELECT * FROM s.{{ x }}", "orders", "SELECT * FROM s. orders"),
        ("SELECT * FROM {{ x }}.t", "s", "SELECT * FROM s .t"),
        ("SELECT * FROM {{ x }}", 'S."my orders"', 'SELECT * FROM S."my orders"'),
        ("SELECT * FROM t ORDER BY {{ x }}", "a, b", "SELECT * FROM t ORDER BY a, b"),
        ("SELECT * FROM t ORDER BY a {{ x }}", "DESC", "SELECT * FROM t ORDER BY a DESC"),
        ("SELECT a FROM t GROUP BY {{ x }}", ["a", "b"], "SELECT a FROM t GROUP BY a, b"),
        ("INSERT INTO t ({{ x }}) VALUES (1, 2)", "a, b", "INSERT INTO t (a, b) VALUES (1, 2)"),
        ("INSERT INTO s.t ({{ x }}) SELECT 1", "a", "INSERT INTO s.t (a) SELECT 1"),
        ("UPDATE t SET {{ x }} = 1", "a", "UPDATE t SET a = 1"),
        ("CREATE TABLE {{ x }} (a int)", "t", "CREATE TABLE t (a int)"),
        ("CREATE INDEX ON t ({{ x }})", "a", "CREATE INDEX ON t (a)"),
        ("SELECT a::{{ x }} FROM t", "int", "SELECT a:: int FROM t"),
        ("SELECT {{ x }}(1)", "lower", "SELECT lower(1)"),
        ("SELECT * FROM events_{{ x }}", 2024, "SELECT * FROM events_2024"),
        ("SELECT * FROM events_{{ x }}_raw", "eu", "SELECT * FROM events_eu_raw"),
        ('SELECT "a {{ x }}" FROM t', EVIL + '"', f'SELECT "a {EVIL}""" FROM t'),
        # where a value may stand too, a name is quoted: a keyword is then a column like any other
        ("SELECT {{ x }} FROM t", "a, B.c", 'SELECT "a", "b"."c" FROM t'),
        ("SELECT {{ x }} FROM t", "*", "SELECT * FROM t"),
        ("SELECT {{ x }} FROM t", "ÉA", 'SELECT "Éa" FROM t'),
        ("SELECT * FROM t WHERE {{ x }} = 1", "true", 'SELECT * FROM t WHERE "true" = 1'),
        ("SELECT * FROM t WHERE a = 1 OR {{ x }}", "current_user", 'SELECT * FROM t WHERE a = 1 OR "current_user"'),
        ("DELETE FROM t WHERE a = 1 RETURNING {{ x }}", "id", 'DELETE FROM t WHERE a = 1 RETURNING "id"'),
    ],
)
def test_a_name_in_another_position_is_inserted_as_a_name(sql: str, value: Any, text: str) -> None:
    assert bound(sql, x=value) == [(text, [])]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT {{ x }}",
        "SELECT * FROM {{ x }}",
        "SELECT * FROM t {{ x }}",
        "SELECT * FROM t WHERE {{ x }}",
        "SELECT * FROM t ORDER BY {{ x }}",
        "SELECT * FROM events_{{ x }}",
        "SELECT a::{{ x }}",
        "SELECT 1{{ x }}",
        "SELECT 1.{{ x }}",
        "SELECT ${{ x }}$",
        "SELECT B'{{ x }}'",
        "SELECT U&'{{ x }}'",
        "INSERT INTO t ({{ x }}) VALUES (1)",
        "DO $$ BEGIN PERFORM {{ x }}; END $$",
        "CREATE FUNCTION f() RETURNS int AS $$ SELECT {{ x }} $$ LANGUAGE sql",
        "{% if x != 'never' %}SELECT * FROM {{ x }}{% endif %}",
        "SELECT * FROM t {% for i in [x] %}{{ i }}{% endfor %}",
        "SELECT * FROM {% set table = x %}{{ table }}",
        "SELECT 1 {{ x if x else ',' }}{% if true %}{% endif %}",
    ],
)
@pytest.mark.parametrize("value", [EVIL, "a b", "a--", "a/*", "f()", "", "1; SELECT 2", "a\u00a0b", "$$"])
def test_other_text_in_another_position_is_refused(sql: str, value: str) -> None:
    with pytest.raises(ToolError) as caught:
        bound(sql, x=value)

    assert caught.value.kind == "sql.fragment"


@pytest.mark.parametrize("sql", ["SELECT a.{{ x }}", "SELECT {{ x }}.a", "SELECT {{ x }}(1)", "SELECT a::{{ x }}"])
def test_a_part_of_a_name_forms_one_name(sql: str) -> None:
    """`a.b, c` would be another column, or another table."""
    assert bound(sql, x="b")
    with pytest.raises(ToolError, match="stands where SQL takes a name"):
        bound(sql, x="b, c")


def test_a_refusal_suggests_what_to_write() -> None:
    with pytest.raises(ToolError) as caught:
        bound("SELECT * FROM {{ ctx.table }}", ctx={"table": "a b"})

    assert caught.value.message == (
        '{{ ctx.table }} stands where SQL takes a name and gives "a b"; for a value write it in quotes, '
        "for a name {{ … | identifier }}, for SQL of your own {{ … | sql }}"
    )


@pytest.mark.parametrize(
    ("sql", "text", "params"),
    [
        ("SELECT * FROM {{ x | identifier }}", 'SELECT * FROM "a b"', []),
        ("SELECT * FROM t WHERE a = {{ x | identifier }}", 'SELECT * FROM t WHERE a = "a b"', []),
        ("SELECT * FROM {{ [x, x] | identifier }}", 'SELECT * FROM "a b"."a b"', []),
        ("SELECT {{ 'now()' | sql }}, '{{ x }}'", "SELECT now(), $1", ["a b"]),
        ("DO $$ {{ 'NULL;' | sql }} $$", "DO $$ NULL; $$", []),
    ],
)
def test_text_marked_as_sql_is_inserted_as_sql(sql: str, text: str, params: list[Any]) -> None:
    assert bound(sql, x="a b") == [(text, params)]


def test_a_marked_value_cannot_end_the_enclosing_body() -> None:
    with pytest.raises(ToolError, match="would end the body"):
        bound("DO $$ {{ x | sql }} $$", x="NULL; $$; DROP TABLE t; $$")


@pytest.mark.parametrize(
    ("sql", "value", "text"),
    [
        ("CREATE TABLE t (a text DEFAULT '{{ x }}')", EVIL, "CREATE TABLE t (a text DEFAULT 'x''; DROP TABLE t; --')"),
        ("CREATE TABLE t (a int DEFAULT -{{ x }})", -1, "CREATE TABLE t (a int DEFAULT - -1)"),
        ("SET app.user = '{{ x }}'", EVIL, "SET app.user = 'x''; DROP TABLE t; --'"),
        ("SELECT DATE '{{ x }}'", EVIL, "SELECT DATE 'x''; DROP TABLE t; --'"),
        ("SELECT INTERVAL'{{ x }} days'", 3, "SELECT INTERVAL '3 days'"),
        ("SELECT TIMESTAMP WITH TIME ZONE '{{ x }}'", "Z", "SELECT TIMESTAMP WITH TIME ZONE 'Z'"),
        ("COMMENT ON TABLE t IS {{ x }}", None, None),
        ("ALTER TABLE t ALTER a SET DEFAULT {{ x }}", None, "ALTER TABLE t ALTER a SET DEFAULT NULL"),
        ("ALTER TABLE t ALTER a SET DEFAULT {{ x }}", True, "ALTER TABLE t ALTER a SET DEFAULT TRUE"),
        (
            "ALTER TABLE t ALTER a SET DEFAULT {{ x }}",
            {"k": "'"},
            """ALTER TABLE t ALTER a SET DEFAULT '{"k": "''"}'""",
        ),
    ],
)
def test_a_value_where_sql_takes_no_parameter_becomes_a_constant(sql: str, value: Any, text: str | None) -> None:
    if text is None:
        with pytest.raises(ToolError, match="stands where SQL takes a name"):
            bound(sql, x=value)
    else:
        assert bound(sql, x=value) == [(text, [])]


@pytest.mark.parametrize(
    ("value", "param"),
    [(5, "5"), (1.5, "1.5"), (True, "true"), (None, None), ({"a": 1}, '{"a": 1}'), ([1], "[1]"), ("", "")],
)
def test_a_quoted_template_is_bound_as_text(value: Any, param: str | None) -> None:
    assert bound("SELECT '{{ x }}'", x=value) == [("SELECT $1", [param])]


@pytest.mark.parametrize(
    ("sql", "param"),
    [
        ("SELECT 'a {{ x }} b'", "a v b"),
        ("SELECT 'a''s {{ x }}'", "a's v"),
        ("SELECT 'a {{- x -}} b'", "avb"),
        ("SELECT '{{ x }}{{ x }}'", "vv"),
        ("SELECT 'a {# never #}{{ x }}'", "a v"),
        (r"SELECT E'\t\\\'\x41\101\u0042 {{ x }}'", "\t\\'AAB v"),
        ("SELECT $t$ it's {{ x }} $t$", " it's v "),
        ("SELECT '{{ missing }}!'", "!"),
        ("SELECT '{{ {'a': {'b': x}} | tojson }}'", '{"a": {"b": "v"}}'),
        ("SELECT '{{ '}}' ~ x }}'", "}}v"),
    ],
)
def test_quoted_text_with_templates_is_one_parameter(sql: str, param: str) -> None:
    assert bound(sql, x="v") == [("SELECT $1", [param])]


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("SELECT 1; SELECT 2", 2),
        ("SELECT 1;;\n;  -- nothing\n", 1),
        ("SELECT ';'; SELECT \";\"", 2),
        ("SELECT $$;$$; SELECT $a$;$$;$a$", 2),
        ("SELECT 1 /* ; /* ; */ ; */; SELECT 2 -- ;", 2),
        (r"SELECT E'\';'; SELECT 2", 2),
        ("SELECT 'it''s;'", 1),
        ("CREATE FUNCTION f() LANGUAGE sql BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; SELECT 2; END; SELECT 3", 2),
        ("CREATE RULE r AS ON INSERT TO t DO (DELETE FROM a; DELETE FROM b); SELECT 1", 2),
        ("DO $body$ BEGIN NULL; END $body$; SELECT 1", 2),
        ("BEGIN; SELECT 1; COMMIT", 3),
        ("SELECT a$b$c; SELECT 1", 2),
        ("", 0),
    ],
)
def test_statements_are_split_at_semicolons_outside_quotes(sql: str, count: int) -> None:
    assert len(bind(sql, {}).statements) == len(read(sql).statements) == count


def test_commands_are_a_list_of_texts() -> None:
    assert bound(["SELECT {{ x }} + 1; SELECT 2", "{{ y }}"], x=1, y="SELECT 3") == [
        ("SELECT $1 + 1", [1]),
        ("SELECT 2", []),
        ("SELECT 3", []),
    ]


def test_templates_in_comments_are_not_even_evaluated() -> None:
    ((text, params),) = bound("SELECT 1 -- {{ 1 / 0 }}\n + /* {{ 1 / 0 }} */ 2")

    assert (text.split(), params) == (["SELECT", "1", "+", "2"], [])


def test_a_command_that_is_one_expression_is_inserted_as_sql() -> None:
    assert bound("{{ x }}", x="SELECT '{{ y }}'; SELECT 2") == [("SELECT '{{ y }}'", []), ("SELECT 2", [])]


@pytest.mark.parametrize(
    "sql",
    [
        "{{ keychain.pg }}",
        "SELECT * FROM {{ keychain.pg }}",
        "SELECT * FROM t_{{ keychain.pg }}",
        'SELECT "{{ keychain.pg }}"',
        "SELECT {{ keychain.pg | identifier }}",
        "SELECT {{ keychain.pg | sql }}",
        "CREATE ROLE r PASSWORD '{{ keychain.pg }}'",
        "SELECT DATE '{{ keychain.pg }}'",
        "DO $$ {{ keychain.pg | sql }} $$",
    ],
)
def test_a_keychain_value_can_only_be_bound(sql: str) -> None:
    with pytest.raises(ToolError, match="reads a secret, and a secret can only be bound") as caught:
        bound(sql, keychain={"pg": "sesame"})

    assert "sesame" not in caught.value.message


def test_a_secret_passed_as_args_can_only_be_bound() -> None:
    inputs = {"command": "SELECT f({{ args.pw }}, {{ pw }})", "args": {"pw": "{{ keychain.pg }}"}}
    scope = Scope({"args": {}, "keychain": {"pg": "sesame"}})

    declared = KINDS["postgres"].bound_inputs

    prepared = prepare(Task(name="t", kind="postgres", inputs=Authored(inputs)), scope, now=0.0, bound=declared)

    assert prepared.inputs["command"].statements[0].params == ("sesame", "sesame")
    for sql in ("SELECT * FROM {{ args.pw }}", "SELECT * FROM {{ pw }}", "{{ args.pw }}"):
        task = Task(name="t", kind="postgres", inputs=Authored({**inputs, "command": sql}))
        with pytest.raises(ToolError, match="a secret can only be bound"):
            prepare(task, scope, now=0.0, bound=declared)


def test_a_value_of_the_keychain_is_bound() -> None:
    assert bound("SELECT f({{ keychain.pg }}, '{{ keychain.pg }}')", keychain={"pg": "s"}) == [
        ("SELECT f($1, $2)", ["s", "s"])
    ]


@pytest.mark.parametrize(
    ("sql", "text", "params"),
    [
        ("SELECT date_trunc('{{ u }}', d) FROM t GROUP BY date_trunc('{{ u }}', d)", 2, ["day"]),
        ("SELECT a % {{ n }} FROM t GROUP BY a % {{ n }}", 2, [3]),
        ("SELECT a || 'by {{ u }}' FROM t GROUP BY a || 'by {{ u }}'", 2, ["by day"]),
        ("SELECT '{{ n }}', {{ n }} + 1", 1, ["3", 3]),  # text and a number: two values
        ("SELECT f({{ u }}), g({{ v }})", 1, ["day", "day"]),  # other templates, though their values are the same
    ],
)
def test_the_same_template_with_the_same_value_is_one_parameter(sql: str, text: int, params: list[Any]) -> None:
    ((found, values),) = bound(sql, u="day", v="day", n=3)

    assert (found.count("$1"), values) == (text, params)


def test_a_template_with_a_different_value_each_time_is_bound_each_time() -> None:
    ((_, params),) = bound("SELECT 1 {% for i in [1, 2] %}, f({{ i }}){% endfor %}")

    assert params == [1, 2]


@pytest.mark.req("TOOL-05", "O-23")
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("""'{{ x | replace("'", "''") }}'""", "it's"),
        ("""'{{ x|replace("'","''") }}'""", "it's"),
        (r"""'{{ x | replace('\'', '\'\'') }}'""", "it's"),
        ("""'{{ x.replace("'", "''") }}'""", "it's"),
        ("""'{{ x | string | replace("'", "''") | trim }}'""", "it's"),
        ("""'{{ x | escape | replace("'", "''") }}'""", "it&#x27;s"),
        ("""'{{ {"k": x} | tojson | replace("'", "''") }}'""", '{"k": "it\'s"}'),
        ("""'{{ (x or "") | replace("'", "''") }}'""", "it's"),
        ("""'{{ "" if not x else x | replace("'", "''") }}'""", "it's"),
        ("""'{{ x | replace("'", "''") ~ "!" }}'""", "it's!"),
        ("""'a''b {{ x | replace("'", "''") }} {{ x }}'""", "a'b it's it's"),
        ("""{{ x | replace("'", "''") }}""", "it's"),
        ("""{{ "'" ~ x | replace("'", "''") ~ "'" }}""", "it's"),
        ("""{{ "'" + x.replace("'", "''") + "'" }}""", "it's"),
        ("""{{ "'%s!'" % (x | replace("'", "''")) }}""", "it's!"),
        ("""{{ "'%s %s'" % (x | replace("'", "''"), 1) }}""", "it's 1"),
        ("""{{ "'it''s'" if x else "NULL" }}""", "it's"),
        ("""{{ "NULL" if x else "'" ~ x ~ "'" }}""", None),
        ("""{{ missing or 'null' }}""", None),
        ("""{{ missing | default('NULL') }}""", None),
        ("""{{ 'TRUE' if x else 'FALSE' }}""", True),
        # other replacements are the author's own
        ("""'{{ x | replace("'", "") }}'""", "its"),
        ("""'{{ x | replace("'", "´") }}'""", "it´s"),
        ("""'{{ x | replace("'", "''", 0) }}'""", "it's"),
        ("""'{{ ["it''s"] | first }}'""", "it''s"),
        ("""$${{ x | replace("'", "''") }}$$""", "it''s"),
        ("""{{ 'nullable' if x else 'NULL' }}""", "nullable"),
    ],
)
def test_text_escaping_by_the_author_is_not_applied_to_a_bound_value(written: str, value: Any) -> None:
    """Bound, a doubled quote would be stored twice, and "NULL" as four letters."""
    for sql in (f"SELECT f({written})", f"{{% if true %}}SELECT f({written}){{% endif %}}"):
        if "$$" in sql and "{%" in sql:
            continue  # what stands between dollars is not known before the blocks have run

        assert bound(sql, x="it's") == [("SELECT f($1)", [value])]


def test_a_quoted_name_escapes_its_quotes_once() -> None:
    """A name is written and not bound: the author's doubling and ours are one."""
    ((text, _),) = bound("""SELECT "{{ x | replace('"', '""') }}" FROM t""", x='a"b')

    assert text == 'SELECT "a""b" FROM t'


def test_sql_keywords_in_a_template_are_sql_only_where_the_author_wrote_them() -> None:
    assert bound("UPDATE t SET a = {{ 'now()' if x else 'DEFAULT' }}", x=True) == [("UPDATE t SET a = now()", [])]
    assert bound("UPDATE t SET a = {{ x }}", x="now()") == [("UPDATE t SET a = $1", ["now()"])]


@pytest.mark.req("TOOL-05", "O-23")
@pytest.mark.parametrize(
    ("sql", "value", "text", "params"),
    [
        ("SELECT ARRAY[{{ x }}]", [1, 2], "SELECT ARRAY[ $1, $2 ]", [1, 2]),
        ("SELECT ARRAY[0, {{ x }}]", [1], "SELECT ARRAY[0, $1 ]", [1]),
        ("SELECT [{{ x }}]", ["a"], "SELECT [ $1 ]", ["a"]),
        ("SELECT ARRAY[{{ x }}]", [[1, 2], [3, 4]], "SELECT ARRAY[ [$1, $2], [$3, $4] ]", [1, 2, 3, 4]),
        ("SELECT ARRAY[{{ x | join(',') }}]", [1, 2], "SELECT ARRAY[ $1, $2 ]", [1, 2]),
        ("SELECT a = ANY(ARRAY[{{ x }}])", [], "SELECT a = ANY($1)", [[]]),
        ("SELECT a = ANY({{ x }})", [1, 2], "SELECT a = ANY($1)", [[1, 2]]),
        ("SELECT a = ANY('{{ x }}')", [1, 2], "SELECT a = ANY($1)", [[1, 2]]),
        ("SELECT a = ANY('{{ x }}')", "{1,2}", "SELECT a = ANY($1)", ["{1,2}"]),
        ("SELECT a FROM t WHERE a IN {{ x }}", [1], "SELECT a FROM t WHERE a = ANY ($1)", [[1]]),
        ("SELECT a FROM t WHERE a NOT IN {{ x }}", [1], "SELECT a FROM t WHERE a <> ALL ($1)", [[1]]),
        ("INSERT INTO t VALUES ({{ x }})", [1, "b"], "INSERT INTO t VALUES ($1, $2)", [1, "b"]),
        ("INSERT INTO t (a, b) VALUES ({{ x }})", [1, "b"], "INSERT INTO t (a, b) VALUES ($1, $2)", [1, "b"]),
        ("INSERT INTO t (tags) VALUES ({{ x }})", ["a"], "INSERT INTO t (tags) VALUES ($1)", [["a"]]),
        ("INSERT INTO t (a, tags) VALUES (1, {{ x }})", ["a"], "INSERT INTO t (a, tags) VALUES (1, $1)", [["a"]]),
        (
            "INSERT INTO t VALUES {{ x }}",
            [[1, "a"], [2, "b"]],
            "INSERT INTO t VALUES ($1, $2), ($3, $4)",
            [1, "a", 2, "b"],
        ),
        (
            'INSERT INTO t ("B", a) VALUES {{ x }}',
            [{"a": 1, "B": 2}, {"B": 4, "a": 3}],
            'INSERT INTO t ("B", a) VALUES ($1, $2), ($3, $4)',
            [2, 1, 4, 3],
        ),
        ("INSERT INTO t (a) VALUES ({{ x | join('), (') }})", [1, 2], "INSERT INTO t (a) VALUES ($1), ($2)", [1, 2]),
    ],
)
def test_a_list_expands_to_its_items_where_sql_takes_a_list(sql: str, value: Any, text: str, params: list[Any]) -> None:
    assert bound(sql, x=value) == [(text, params)]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "gives an empty list"),
        ([{"a": 1}], 'has no "b", which VALUES needs'),
        ("(1, 2), (3, 4)", r'VALUES takes rows and gives "\(1, 2\), \(3, 4\)"; give a list of rows, or mark'),
    ],
)
def test_rows_that_do_not_fit_values_are_refused(value: Any, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        bound("INSERT INTO t (a, b) VALUES {{ x }}", x=value)


def test_rows_marked_as_sql_text_are_inserted_as_sql() -> None:
    assert bound("INSERT INTO t VALUES {{ x | sql }}", x="(1, 2)") == [("INSERT INTO t VALUES (1, 2)", [])]


def test_a_secret_in_place_of_rows_is_not_shown() -> None:
    with pytest.raises(ToolError, match="reads a secret") as refused:
        bound("INSERT INTO t VALUES {{ keychain.x }}", keychain={"x": "hunter2"})

    assert "hunter2" not in str(refused.value)


def test_a_list_as_the_only_item_of_in_is_bound_whole() -> None:
    assert bound("SELECT 1 WHERE a IN ({{ x }}) AND b NOT IN ( {{ x }} )", x=[1, 2]) == [
        ("SELECT 1 WHERE a = ANY ($1) AND b <> ALL ($1 )", [[1, 2]])
    ]


@pytest.mark.req("TOOL-05", "O-23")
@pytest.mark.parametrize(
    ("listed", "params"),
    [
        ("{{ x | join(',') }}", [[1, "b'; --"]]),
        ("{{x|join(', ')}}", [[1, "b'; --"]]),
        ("{{ m.x[0:2] | map('string') | join(', ') }}", [["1", "b'; --"]]),
        ("""'{{ x | join("','") }}'""", [[1, "b'; --"]]),
        ("""'{{ x | map('upper') | join("', '") }}'""", [["1", "B'; --"]]),
        ("{{ absent | default([]) | join(',') }}", [[]]),
        ("{{ (x + [3]) | join(', ') }}", [[1, "b'; --", 3]]),
        ("{{ m['x'] | join(', ') }}", [[1, "b'; --"]]),
        ("{{ (m.x or [0]) | list | join(',') }}", [[1, "b'; --"]]),
        ("{% if m %}{{ x | join(', ') }}{% endif %}", [[1, "b'; --"]]),
        ("""{% if m %}'{{ (x + ['c']) | join("', '") }}'{% endif %}""", [[1, "b'; --", "c"]]),
        ("{% for ids in [x] %}{{ ids | join(',') }}{% endfor %}", [[1, "b'; --"]]),
    ],
)
def test_a_list_joined_for_in_is_bound_as_a_list(listed: str, params: list[Any]) -> None:
    """Their author thinks of SQL as text; the text could not be bound, and says no more than the list."""
    for written, compared in (("IN", "= ANY"), ("NOT IN", "<> ALL")):
        found = bound(f"SELECT 1 WHERE a {written} ({listed})", x=[1, "b'; --"], m={"x": [1, "b'; --"]})

        assert found == [(f"SELECT 1 WHERE a {compared} ($1)", params)]


@pytest.mark.parametrize(
    "condition",
    [
        "a = {{ x | join(',') }}",
        "a IN ('z', {{ x | join(',') }})",
        "a IN ({{ x | join('-') }})",
        "a IN ('{{ x | join(',') }}')",
        "a IN ({{ '0,' ~ x | join(',') }})",
        "a IN ({{ x | join(',') if x else 'none' }})",
        "{% if x %}a IN ({{ x | join('-') }}){% endif %}",
        "{% if x %}a = {{ x | join(',') }}{% endif %}",
    ],
)
def test_joined_text_elsewhere_is_bound_as_text(condition: str) -> None:
    [(_, params)] = bound(f"SELECT 1 WHERE {condition}", x=[1, 2])

    assert [type(value) for value in params] == [str]


def test_a_failing_sql_template_is_a_template_error() -> None:
    with pytest.raises(TemplateError):
        bound("SELECT {{ 1 / 0 }} + 1")


@pytest.mark.parametrize(
    "sql", ["SELECT 'a", 'SELECT "a', "SELECT $$ a", "SELECT /* a", "SELECT '{{ x }}", "SELECT \x00"]
)
def test_sql_that_ends_inside_a_quote_is_refused(sql: str) -> None:
    with pytest.raises(ToolError) as caught:
        bind(sql, {"x": 1})

    assert caught.value.kind == "sql.fragment"


@pytest.mark.parametrize(
    ("sql", "params", "text", "values"),
    [
        ("SELECT $2, $1", ["a", "b"], "SELECT $1, $2", ["b", "a"]),
        ("SELECT $1, $1", ["a"], "SELECT $1, $2", ["a", "a"]),
        ("SELECT %s, 5 % 3", ["a"], "SELECT $1, 5 % 3", ["a"]),
        ("SELECT '$1 %s :n', :n", {"n": 1}, "SELECT '$1 %s :n', $1", [1]),
        ("SELECT a::int, b[1:2], :n", {"n": 1, "int": 2}, "SELECT a::int, b[1:2], $1", [1]),
        ("SELECT %(n)s, :n, :other", {"n": 1}, "SELECT $1, $2, :other", [1, 1]),
        ("SELECT a ? 'k', %s", ["x"], "SELECT a ? 'k', $1", ["x"]),
        ("SELECT a=%s, -%s, a <% s", ["x", 1], "SELECT a=$1, -$2, a <% s", ["x", 1]),
        ("SELECT a>=%(n)s, :n", {"n": 1}, "SELECT a>=$1, $2", [1, 1]),
        ("SELECT a LIKE '5%%', a %% 2, %s", ["x"], "SELECT a LIKE '5%', a % 2, $1", ["x"]),
        ("SELECT 5 %%%s, '%%s'", [3], "SELECT 5 %$1, '%s'", [3]),
        ("SELECT a LIKE '5%%', %(n)s", {"n": "50%%"}, "SELECT a LIKE '5%', $1", ["50%%"]),
        ("SELECT a LIKE '5%%', a %% 2, $1", ["x"], "SELECT a LIKE '5%%', a %% 2, $1", ["x"]),
        ("SELECT a LIKE '5%%', :n", {"n": 1}, "SELECT a LIKE '5%%', $1", [1]),
    ],
)
def test_params_fill_placeholders_outside_of_quotes(sql: str, params: Any, text: str, values: list[Any]) -> None:
    (statement,) = with_params(read(sql), params).statements

    assert (statement.text, list(statement.params)) == (text, values)


def test_a_question_mark_that_is_not_an_operator_is_a_placeholder() -> None:
    (statement,) = with_params(read("SELECT a=?, ?+?, '?'"), [1, 2, 3], question_marks=True).statements

    assert (statement.text, list(statement.params)) == ("SELECT a=$1, $2+$3, '?'", [1, 2, 3])


def test_a_doubled_percent_is_unescaped_only_in_a_statement_with_percent_placeholders() -> None:
    first, second = with_params(read("SELECT '5%%';SELECT '5%%', %s"), ["x"]).statements

    assert (first.text, second.text) == ("SELECT '5%%'", "SELECT '5%', $1")
