"""What a name means (TPL-05, TPL-06) and what a result's name gives (TPL-07)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.templates.expression import parse
from noetl.templates.scope import DIALECTS, RESERVED, Scope, TemplateSite, foreign, is_reserved, table, visible
from noetl.templates.views import PayloadView, ResultProxy

# Evaluated by the server, which never holds a secret: `keychain` is an error there (reliability.md §2.6).
SERVER_SITES = tuple(
    TemplateSite[name]
    for name in [
        "ADMISSION",
        "STEP_ARGS",
        "LOOP_ARGS",
        "LOOP_IN",
        "NESTED_LOOP_IN",
        "SET_CTX_STEP",
        "TIMEOUT",
        "HANDLER",
        "EMIT",
        "VARS",
        "KEYCHAIN",
        "INITIAL_CTX",
        "ARC",
        "WAIT",
        "NOTICE",
    ]
)


def value(text: str, scope: Scope) -> Any:
    return parse(text).evaluate(scope)


@pytest.mark.req("TPL-06")
def test_a_bare_name_is_looked_up_in_args_then_ctx_then_workload() -> None:
    args, ctx, workload = {"api_url": "A"}, {"api_url": "C"}, {"api_url": "W"}

    assert value("{{ api_url }}", Scope({"args": args, "ctx": ctx, "workload": workload})) == "A"
    assert value("{{ api_url }}", Scope({"args": {}, "ctx": ctx, "workload": workload})) == "C"
    assert value("{{ api_url }}", Scope({"args": {}, "ctx": {}, "workload": workload})) == "W"
    assert value("{{ api_url }}", Scope({"args": {}, "ctx": {}, "workload": {}})) is None


@pytest.mark.req("TPL-06")
def test_names_resolve_in_the_order_of_the_specification() -> None:
    layers: list[dict[str, Any]] = [{"x": name} for name in ("namespace", "iteration", "task", "step", "args")]
    namespaces = {"args": layers[4]}
    kept = {"iteration": layers[1], "tasks": layers[2], "steps": layers[3]}

    seen = [value("{{ x }}", Scope({**namespaces, "x": "namespace"}, **kept))]
    for layer in (None, "iteration", "tasks", "steps"):
        kept.pop(layer or "", None)
        seen.append(value("{{ x }}", Scope(namespaces, **kept)))

    assert seen == ["namespace", "iteration", "task", "step", "args"]


@pytest.mark.parametrize("name", ["result", "outcome", "iter", "error", "_prev"])
@pytest.mark.req("TPL-06")
def test_a_reserved_word_is_never_a_field_of_the_workload(name: str) -> None:
    """Else `error` would mean one thing in v2-case and another in v10 (C-26)."""
    assert value(f"{{{{ {name} }}}}", Scope({"workload": {name: 1}})) is None
    assert value(f"{{{{ workload.{name} }}}}", Scope({"workload": {name: 1}})) == 1


@pytest.mark.req("TPL-06")
def test_loop_index_is_the_index_of_the_iteration() -> None:
    assert value("{{ loop_index }}", Scope({"iter": {"index": 3}})) == 3
    assert value("{{ loop_index }}", Scope({"workload": {"loop_index": 9}})) == 9


@pytest.mark.req("TPL-06")
def test_a_scope_reads_the_current_values_of_its_namespaces() -> None:
    ctx: dict[str, Any] = {}
    scope = Scope({"ctx": ctx})

    ctx["n"] = 1

    assert value("{{ n }}", scope) == 1


NAMESPACE_VALUES = {"iter": {"x": 7}, "event": {"name": "step.done"}}


@pytest.mark.parametrize("row", table(), ids=lambda row: f"{row.site}/{row.dialect}")
@pytest.mark.req("TPL-05")
def test_every_visible_name_renders_in_every_place(row: Any) -> None:
    scope = Scope({name: NAMESPACE_VALUES.get(name, name.upper()) for name in row.names})

    for name in row.names:
        assert value(f"{{{{ {name} }}}}", scope) == NAMESPACE_VALUES.get(name, name.upper())


PIPELINE = {"args", "ctx", "workload", "iter", "keychain", "execution_id", "_prev", "_task", "_attempt", "token"}


@pytest.mark.parametrize(
    ("site", "dialect", "names"),
    [
        (TemplateSite.ADMISSION, "v10", {"args", "ctx", "workload", "event", "execution_id", "token"}),
        (TemplateSite.LOOP_IN, "v10", {"args", "ctx", "workload", "event", "execution_id", "token"}),
        (TemplateSite.TASK_INPUT, "v10", PIPELINE),
        (TemplateSite.TASK_POLICY, "v10", PIPELINE | {"outcome"}),
        (TemplateSite.ARC, "v10", {"event", "ctx", "workload", "args", "execution_id"}),
        (TemplateSite.ARC, "v2-eval", {"event", "ctx", "workload", "args", "execution_id", "vars"}),
        (TemplateSite.TASK_INPUT, "v2-eval", PIPELINE | {"vars"}),
    ],
)
@pytest.mark.req("TPL-05", "V2E-05")
def test_the_table_of_visible_names_matches_the_specification(
    site: TemplateSite, dialect: str, names: set[str]
) -> None:
    assert visible(site, dialect) == names


@pytest.mark.req("V2C-05")
def test_case_conditions_and_actions_read_the_response_by_its_own_names() -> None:
    assert {"event", "response"} <= visible(TemplateSite.CASE_WHEN, "v2-case")
    assert {"result", "this"} <= visible(TemplateSite.CASE_THEN, "v2-case")
    assert {"status_code", "error", "_retry"} <= visible(TemplateSite.RETRY, "v2-case")
    assert not {"outcome", "_prev"} & visible(TemplateSite.CASE_THEN, "v2-case")


@pytest.mark.req("TPL-05")
def test_iter_ends_with_its_iteration() -> None:
    for dialect in DIALECTS:
        assert "iter" not in visible(TemplateSite.ARC, dialect)
    assert value("{{ iter.x }}", Scope({"event": {}, "ctx": {}})) is None


def test_the_server_cannot_read_the_keychain() -> None:
    for dialect in DIALECTS:
        for site in SERVER_SITES:
            assert "keychain" not in visible(site, dialect)


@pytest.mark.parametrize(
    ("name", "dialect", "site", "instead"),
    [
        ("response", "v10", TemplateSite.TASK_POLICY, "outcome.result"),
        ("response", "v10", TemplateSite.ARC, "STEP.result, with the name of the step"),
        ("error", "v10", TemplateSite.ARC, "event.error"),
        ("error", "v10", None, "outcome.error"),
        ("this", "v2-eval", None, "outcome"),
        ("vars", "v10", TemplateSite.TASK_INPUT, "ctx"),
        ("vars", "v2-eval", None, None),
        ("vars", "v2-case", None, None),
        ("_retry", "v10", None, "_attempt"),
        ("outcome", "v2-case", TemplateSite.CASE_WHEN, "response in when, this in then"),
        ("error", "v2-case", TemplateSite.CASE_WHEN, "response.error"),
        ("error", "v2-case", TemplateSite.CASE_THEN, "response.error"),
        ("error", "v2-case", TemplateSite.RETRY, None),
        ("status_code", "v2-case", TemplateSite.VARS, "response.status_code"),
        ("result", "v10", TemplateSite.COMPENSATE, None),
        ("ctx", "v10", TemplateSite.ARC, None),
        ("api_url", "v10", TemplateSite.ARC, None),
    ],
)
def test_a_name_of_another_dialect_has_a_replacement(
    name: str, dialect: str, site: TemplateSite | None, instead: str | None
) -> None:
    assert foreign(name, dialect, site) == instead


@pytest.mark.req("VAL-17")
def test_reserved_words_are_listed() -> None:
    assert all(map(is_reserved, [*RESERVED, "_prev", "_anything"]))
    assert not any(map(is_reserved, ["start", "fetch", "index", "page"]))


HTTP = {"status": 200, "status_code": 200, "headers": {}, "data": {"n": 1, "status": "ok"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ fetch.data.n }}", 1),
        ("{{ fetch.result.data.n }}", 1),
        ("{{ fetch.n }}", 1),
        ("{{ fetch.result.status_code }}", 200),
        ("{{ fetch.status_code }}", 200),
        ("{{ fetch.status }}", "ok"),
        ("{{ fetch._outcome.status }}", "success"),
        ("{{ fetch.error }}", None),
        ("{{ fetch.ref }}", {"key": "k"}),
        ("{{ fetch._ref.key }}", "k"),
        ("{{ fetch['n'] + 1 }}", 2),
        ("{{ fetch.nope | default('x') }}", "x"),
        ("{{ fetch }}", HTTP),
        ("{{ fetch.data == {'n': 1, 'status': 'ok'} }}", True),
        ("{{ fetch is mapping }}", True),
    ],
)
@pytest.mark.req("TPL-07")
def test_a_result_is_read_by_its_name(text: str, expected: Any) -> None:
    scope = Scope({}, tasks={"fetch": ResultProxy(HTTP, unwrap=True, ref={"key": "k"})})

    assert value(text, scope) == expected


@pytest.mark.req("TPL-07")
def test_a_result_without_an_envelope_is_its_own_payload() -> None:
    scope = Scope({}, steps={"count": ResultProxy(5), "made": ResultProxy({"result": 3, "data": 4})})

    assert value("{{ count.data }}", scope) == 5
    assert value("{{ count + 1 }}", scope) == 6
    assert value("{{ made.data.result }}", scope) == 3
    assert value("n={{ count }}", scope) == "n=5"


ROW = {"order_id": 7, "status": "new"}


@pytest.mark.parametrize(
    ("text", "rows", "expected"),
    [
        ("{{ q.order_id }}", [ROW], 7),
        ("{{ q.data.order_id }}", [ROW], 7),
        ("{{ q.data[0].order_id }}", [ROW], 7),
        ("{{ q[0].order_id }}", [ROW], 7),
        ("{{ q.data | length }}", [ROW, ROW], 2),
        ("{{ q.data.order_id }}", [ROW, ROW], None),
        ("{{ q.data.order_id }}", [], None),
        ("{{ q.row_count }}", [ROW, ROW], 2),
        ("{{ q.command_0.row_count }}", [ROW, ROW], 2),
        ("{{ q.data.command_0.row_count }}", [ROW], 1),
        ("{{ q.data | map(attribute='order_id') | list }}", [ROW, ROW], [7, 7]),
        ("{{ q.data }}", [ROW], [ROW]),
        ("{{ 'order_id' in q.data }}", [ROW], False),
        ("{% for row in q.data %}{{ row.order_id }}{% endfor %}", [ROW, ROW], "77"),
    ],
)
@pytest.mark.req("TPL-07")
def test_exactly_one_row_can_be_read_by_its_fields(text: str, rows: list[Any], expected: Any) -> None:
    """C-48: both `result[0].user_id` and `result.order_id` are in the seeds."""
    full = {"data": rows, "row_count": len(rows), "command_0": {"row_count": len(rows)}}

    assert value(text, Scope({}, tasks={"q": ResultProxy(full, unwrap=True)})) == expected


def test_a_payload_as_a_namespace_reads_the_same_way() -> None:
    scope = Scope({"result": PayloadView([ROW])})

    assert value("{{ result.order_id }}/{{ result[0].order_id }}/{{ result | length }}", scope) == "7/7/1"


@pytest.mark.req("TPL-07", "RES-05")
def test_the_result_of_a_storing_task_is_its_reference() -> None:
    kept = {"store": "results", "key": "k", "checksum": "c", "size": 1, "schema_hint": None}
    tasks = {
        "put": ResultProxy(kept),
        "insert": ResultProxy({"store": "postgres.table", "key": "t"}),
        "none": ResultProxy(5),
    }
    scope = Scope({}, tasks=tasks)

    assert value("{{ put.ref }}", scope) == value("{{ put._ref }}", scope) == kept
    assert value("{{ insert.ref }}", scope) is value("{{ none.ref }}", scope) is None


@pytest.mark.req("TPL-07", "RES-06")
def test_a_reference_is_loaded_only_when_a_template_needs_the_data() -> None:
    loads: list[int] = []

    def load() -> Any:
        loads.append(1)
        return {"rows": [1, 2], "count": 2}

    view = ResultProxy(load=load, ref={"key": "k"}, inline={"count": 2})
    scope = Scope({}, steps={"big": view})

    assert value("{{ big.ref }}", scope) == {"key": "k"}
    assert value("{{ big.status }} {{ big.count }}", scope) == "success 2"
    assert loads == []
    assert value("{{ big.data.rows | length }}", scope) == 2
    assert value("{{ big.rows[1] }}", scope) == 2
    assert loads == [1]
