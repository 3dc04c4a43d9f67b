"""What a result's name gives: its own keys first, the envelope always under `_outcome` (TPL-07)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl.templates.budget import Evaluation
from noetl.templates.expression import parse
from noetl.templates.output import extent
from noetl.templates.render import holds, render_collection
from noetl.templates.scope import Scope
from noetl.templates.values import Authored
from noetl.templates.views import ResultProxy, full_view, payload_view

ERROR = {"kind": "http.status", "message": "answered 500", "retryable": True}
REFERENCE = {"store": "results", "key": "k"}
ROWS = [{"id": 1, "status": "new"}, {"id": 2, "status": "old"}]


def value(text: str, **views: Any) -> Any:
    return parse(text).evaluate(Scope({}, steps=views))


def http(body: Any) -> ResultProxy:
    return ResultProxy({"status": 200, "status_code": 200, "headers": {}, "data": body}, unwrap=True)


def rows(*found: dict[str, Any]) -> ResultProxy:
    return ResultProxy({"data": list(found), "row_count": len(found), "columns": ["id", "status"]}, unwrap=True)


@pytest.mark.parametrize(
    ("text", "view", "expected"),
    [
        ("{{ s.status }}", ResultProxy({"status": "shipped"}), "shipped"),
        ("{{ s.status }}", ResultProxy({"n": 1}), "success"),
        ("{{ s.status }}", ResultProxy(5), "success"),
        ("{{ s.status }}", http({"status": "ok"}), "ok"),
        ("{{ s.status }}", http({"n": 1}), "success"),
        ("{{ s.status }}", rows(ROWS[0]), "new"),
        ("{{ s.status }}", rows(*ROWS), "success"),
        ("{{ s.status }}", ResultProxy(status="error", error=ERROR), "error"),
        ("{{ s.error }}", ResultProxy({"error": "none today"}), "none today"),
        ("{{ s.error }}", ResultProxy({"n": 1}), None),
        ("{{ s.error.kind }}", ResultProxy(status="error", error=ERROR), "http.status"),
        ("{{ s.ref }}", ResultProxy({"ref": "INV-7"}), "INV-7"),
        ("{{ s.ref }}", ResultProxy({"n": 1}, ref=REFERENCE), REFERENCE),
        ("{{ s._ref }}", ResultProxy({"ref": "INV-7"}, ref=REFERENCE), REFERENCE),
        ("{{ s._ref is defined }}", ResultProxy({"ref": "INV-7"}), False),
        ("{{ s._ref is defined }}", ResultProxy({"n": 1}, ref=REFERENCE), True),
        ("{{ s.ref is defined }}", ResultProxy({"n": 1}), False),
        ("{{ s.rows }}", ResultProxy({"rows": [7]}), [7]),
        ("{{ s.rows }}", rows(*ROWS), ROWS),
        ("{{ s.rows[1].id }}", rows(*ROWS), 2),
        ("{{ s.rows | length }}", rows(), 0),
        ("{{ s.rows is defined }}", ResultProxy({"n": 1}), False),
        ("{{ s.results }}", ResultProxy({"results": [7]}), [7]),
        ("{{ s.results[0] }}", ResultProxy(["a", "b"]), "a"),
    ],
)
@pytest.mark.req("TPL-07")
def test_a_key_of_a_result_takes_precedence_over_the_envelope(text: str, view: ResultProxy, expected: Any) -> None:
    assert value(text, s=view) == expected


@pytest.mark.parametrize(
    ("text", "view", "expected"),
    [
        ("{{ s._outcome.status }}", http({"status": "ok", "_outcome": 1}), "success"),
        ("{{ s._outcome.error.kind }}", ResultProxy(status="error", error=ERROR), "http.status"),
        ("{{ s._outcome.ref }}", ResultProxy({"ref": "INV-7"}, ref=REFERENCE), REFERENCE),
        ("{{ s._outcome.data }}", http({"data": 1}), {"data": 1}),
        ("{{ s._outcome.result.status_code }}", http({"status_code": 7}), 200),
    ],
)
@pytest.mark.req("TPL-07")
def test_the_envelope_is_readable_under_its_reserved_name(text: str, view: ResultProxy, expected: Any) -> None:
    assert value(text, s=view) == expected


NESTED = {"data": {"n": 1, "items": [4]}, "total": 3}


@pytest.mark.parametrize(
    ("text", "view", "expected"),
    [
        # the payload itself answers first
        ("{{ s.data.total }}", ResultProxy(NESTED), 3),
        ("{{ s.data.data.n }}", ResultProxy(NESTED), 1),
        ("{{ s.result.data.n }}", ResultProxy(NESTED), 1),
        ("{{ s.data }}", ResultProxy(NESTED), NESTED),
        ("{{ s.result }}", ResultProxy(NESTED), NESTED),
        # then its own data or result
        ("{{ s.data.n }}", ResultProxy(NESTED), 1),
        ("{{ s.result.n }}", ResultProxy(NESTED), 1),
        ("{{ s.data.n }}", ResultProxy({"result": {"n": 2}}), 2),
        ("{{ s.data.n }}", ResultProxy({"n": 0, "result": {"n": 2}}), 0),
        ("{{ s.data[0].n }}", ResultProxy({"data": [{"n": 3}]}), 3),
        ("{{ s.data.n }}", http({"data": {"n": 4}}), 4),
        ("{{ s.result.n }}", http({"n": 5}), 5),
        ("{{ s.result.data.n }}", http({"n": 5}), 5),
        ("{{ s.result.status_code }}", http({"status_code": 7}), 200),
        ("{{ s.data.get('total') }}", ResultProxy(NESTED), 3),
        ("{{ s.data.items() | list | length }}", ResultProxy(NESTED), 2),
        ("{{ s.data.nope is defined }}", ResultProxy(NESTED), False),
        ("{{ 'n' in s.data }}", ResultProxy(NESTED), False),
        # a result that has neither is meant itself
        ("{{ s.data.result }}", ResultProxy({"n": 6}), {"n": 6}),
        ("{{ s.data.result.n }}", ResultProxy({"n": 6}), 6),
        ("{{ s.result.data.n }}", ResultProxy({"n": 6}), 6),
        ("{{ s.data.result }}", ResultProxy(7), 7),
        ("{{ s.data.result + 1 }}", ResultProxy(7), 8),
        ("{{ s.data.result[1] }}", ResultProxy([8, 9]), 9),
        ("{{ s.data.result[0].id }}", rows(*ROWS), 1),
        ("{{ s.data.result.n }}", http({"n": 6}), 6),
        ("{{ s.data | length }}", ResultProxy("text"), 4),
        ("{{ s.data.result | default('none') }}", ResultProxy(None), "none"),
    ],
)
@pytest.mark.req("TPL-07")
def test_data_and_result_mean_the_payload_in_both_spellings(text: str, view: ResultProxy, expected: Any) -> None:
    assert value(text, s=view) == expected


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("{{ outcome.result.rows[1].id }}", ROWS, 2),
        ("{{ outcome.result.rows | length }}", [], 0),
        ("{{ outcome.result.rows[0].id }}", ROWS[:1], 1),
        ("{{ outcome.result.data.rows[1].id }}", ROWS, 2),
        ("{{ outcome.data.rows | map(attribute='id') | list }}", ROWS, [1, 2]),
        ("{{ outcome.data.results }}", ROWS, ROWS),
        ("{{ s.data.rows[1].id }}", ROWS, 2),
        ("{{ s.result.rows[1].id }}", ROWS, 2),
        # a column of the one row has the word first
        ("{{ outcome.result.rows }}", [{"rows": 7}], 7),
        ("{{ outcome.data.rows is defined }}", {"n": 1}, False),
        ("{{ outcome.data.rows }}", {"rows": [5]}, [5]),
    ],
)
@pytest.mark.req("TPL-07")
def test_a_list_payload_reads_as_the_list(text: str, found: Any, expected: Any) -> None:
    full = {"data": found, "row_count": 2, "columns": ["id", "status"]}
    outcome = {"result": full_view(full, wrapped=True), "data": payload_view(found, full)}

    assert value(text, s=ResultProxy(full, unwrap=True), outcome=outcome) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ s.data.result is defined }}",
        "{{ s.data.result == 'x' }}",
        "{{ s.data.result | default(false) }}",
        "{{ true if s.data.result else false }}",
    ],
)
@pytest.mark.req("TPL-07")
def test_a_body_without_a_result_key_has_none(text: str) -> None:
    """An answer with `result` or `error` is told apart by which of them is there."""
    assert value(text, s=http({"error": "no such method"})) is False


@pytest.mark.req("TPL-07", "PIPE-09")
def test_results_of_the_tasks_of_a_step_are_read_through_the_step() -> None:
    tasks = {"fetch": http({"n": 1}), "store": ResultProxy({"status": "kept"})}
    view = ResultProxy(5, tasks=tasks)

    assert value("{{ s.results.fetch.data.n }}", s=view) == 1
    assert value("{{ s.results.store.status }}", s=view) == "kept"
    assert value("{{ s.results.nope is defined }}", s=view) is False
    assert value("{{ s.results.store }}", s=view) == {"status": "kept"}
    assert value("{{ s.results.keys() | list }}", s=view) == ["fetch", "store"]


@pytest.mark.req("TPL-07", "RES-06")
def test_a_stored_result_is_loaded_for_its_own_keys_only() -> None:
    loads: list[str] = []

    def stored(name: str, *own: str) -> ResultProxy:
        def load() -> Any:
            loads.append(name)
            return {"status": "shipped", "ref": "INV-7"}

        return ResultProxy(load=load, ref=REFERENCE, own=own)

    assert value("{{ [s.status, s.error] }}", s=stored("without")) == ["success", None]
    assert value("{{ s.ref }}", s=stored("without")) == value("{{ s._ref }}", s=stored("with", "ref")) == REFERENCE
    assert loads == []
    assert value("{{ s.status }}", s=stored("with", "status")) == "shipped"
    assert value("{{ s.ref }}", s=stored("with", "ref")) == "INV-7"
    assert loads == ["with", "with"]


@pytest.mark.req("TPL-07")
def test_the_result_of_an_outcome_follows_the_same_rule() -> None:
    def outcome(text: str, full: Any, *, wrapped: bool) -> Any:
        return parse(text).evaluate(Scope({"outcome": {"result": full_view(full, wrapped=wrapped)}}))

    wrapped = {"status": 200, "data": {"n": 1}}

    assert outcome("{{ outcome.result.n }}", wrapped, wrapped=True) == 1
    assert outcome("{{ outcome.result.data.n }}", wrapped, wrapped=True) == 1
    assert outcome("{{ outcome.result.status }}", wrapped, wrapped=True) == 200
    assert outcome("{{ outcome.result.data.n }}", {"n": 2}, wrapped=False) == 2
    assert outcome("{{ outcome.result }}", wrapped, wrapped=True) == wrapped
    assert outcome("{{ outcome }}", wrapped, wrapped=True) == {"result": wrapped}
    assert outcome("{{ outcome.result is none }}", None, wrapped=False) is True


@pytest.mark.req("TPL-07")
@pytest.mark.parametrize(
    ("text", "view", "expected"),
    [
        ("{{ s | length }}", rows(*ROWS), 2),
        ("{{ s | length }}", rows(), 0),
        ("{{ s.result | length }}", rows(*ROWS), 2),
        ("{{ s | map(attribute='id') | list }}", rows(*ROWS), [1, 2]),
        ("{{ s | first }}", rows(*ROWS), ROWS[0]),
        ("{{ s | selectattr('status', 'eq', 'old') | list }}", rows(*ROWS), [ROWS[1]]),
        ("{% for row in s %}{{ row.id }};{% endfor %}", rows(*ROWS), "1;2;"),
        ("{{ s | length }}", http([1, 2, 3]), 3),
        ("{{ s | length }}", http({"n": 1}), 4),
        ("{{ s | length }}", ResultProxy({"a": 1, "b": 2}), 2),
        ("{{ s | length }}", ResultProxy([1]), 1),
        ("{{ s.row_count }}", rows(*ROWS), 2),
    ],
)
def test_a_loop_or_a_list_filter_iterates_over_the_list_of_a_result(text: str, view: Any, expected: Any) -> None:
    assert value(text, s=view) == expected


@pytest.mark.req("TPL-07")
def test_the_bare_name_of_a_step_is_its_full_result() -> None:
    assert value("{{ s }}", s=rows(*ROWS)) == {"data": ROWS, "row_count": 2, "columns": ["id", "status"]}


@pytest.mark.req("TPL-07", "TPL-08")
@pytest.mark.parametrize(
    ("text", "view", "expected"),
    [
        ("{{ not s }}", rows(), True),
        ("{{ not s }}", rows(*ROWS), False),
        ("{{ 'some' if s else 'none' }}", rows(), "none"),
        ("{% if s %}some{% else %}none{% endif %}", http([]), "none"),
        ("{{ (s or [7]) | first }}", rows(), 7),
        ("{{ s | default([]) | length }}", rows(*ROWS), 2),
        ("{{ s | default([7], true) | list }}", rows(), [7]),
        ("{{ 'full' if s else 'empty' }}", http({}), "full"),
    ],
)
def test_a_result_is_as_true_as_the_list_it_stands_for(text: str, view: Any, expected: Any) -> None:
    assert value(text, s=view) == expected


@pytest.mark.req("TPL-08")
@pytest.mark.parametrize(("guard", "view", "expected"), [("{{ s }}", rows(), False), ("{{ s }}", rows(*ROWS), True)])
def test_a_guard_that_names_a_query_is_true_where_it_has_rows(guard: str, view: Any, expected: bool) -> None:
    assert holds(Authored(guard), Scope({}, steps={"s": view})) is expected


@pytest.mark.req("TPL-07", "LOOP-01")
@pytest.mark.parametrize(
    ("text", "view", "expected"),
    [
        ("{{ s }}", rows(*ROWS), ROWS),
        ("{{ s | default([]) }}", http([1, 2]), [1, 2]),
        ("{{ s or [] }}", http([1, 2]), [1, 2]),
        ("{{ s.result }}", rows(*ROWS), ROWS),
        ("{{ s }}", ResultProxy({"a": 1}), {"a": 1}),
        ("{{ s.data[:1] }}", rows(*ROWS), ROWS[:1]),
    ],
)
def test_a_step_loops_over_the_rows_of_a_result(text: str, view: Any, expected: Any) -> None:
    assert render_collection(Authored(text), Scope({}, steps={"s": view})) == expected


@pytest.mark.req("TPL-07")
@pytest.mark.parametrize(
    ("text", "view", "expected"),
    [
        ("{{ s.output.n }}", ResultProxy({"n": 1}), 1),
        ("{{ s.output.n }}", ResultProxy({"output": {"n": 2}}), 2),
        ("{{ s.output.data.n }}", http({"n": 1}), 1),
        ("{{ s.output.n }}", http({"n": 1}), 1),
        ("{{ s.output | default('none') }}", http({"n": 1}), "none"),
        ("{{ s.output }}", http({"output": 3}), 3),
        ("{{ s.output | length }}", rows(*ROWS), 2),
        ("{{ s.output }}", ResultProxy(5), 5),
    ],
)
def test_what_follows_output_is_read_of_the_result_itself(text: str, view: Any, expected: Any) -> None:
    assert value(text, s=view) == expected


def loop_of(*payloads: Any) -> ResultProxy:
    return ResultProxy(list(payloads), of_loop=True)


PEOPLE = ({"name": "ann", "n": 2}, {"name": "bob", "n": 1})
WITH_DATA = ({"data": {"name": "ann"}}, {"errors": ["gone"]})


@pytest.mark.req("TPL-07", "LOOP-13")
@pytest.mark.parametrize(
    ("text", "results", "expected"),
    [
        ("{{ s.results[0].data.name }}", PEOPLE, "ann"),
        ("{{ s.data[1].result.name }}", PEOPLE, "bob"),
        ("{{ s.result[-1].data.name }}", PEOPLE, "bob"),
        ("{{ s[0].data.name }}", PEOPLE, "ann"),
        ("{{ s.rows[0].result.data.name }}", PEOPLE, "ann"),
        ("{{ s.data.results[0].data.name }}", PEOPLE, "ann"),
        ("{{ s.results[5].data.name }}", PEOPLE, None),
        ("{{ s.results | map(attribute='data.name') | list }}", PEOPLE, ["ann", "bob"]),
        ("{{ s | map(attribute='result.name') | join(',') }}", PEOPLE, "ann,bob"),
        ("{{ s.results | sum(attribute='data.n') }}", PEOPLE, 3),
        ("{{ (s.results | sort(attribute='data.n') | first).name }}", PEOPLE, "bob"),
        ("{{ (s.results | last).data.name }}", PEOPLE, "bob"),
        ("{{ s.results | selectattr('data.n', '>', 1) | list }}", PEOPLE, [PEOPLE[0]]),
        ("{% for r in s.results %}{{ r.data.name }} {% endfor %}", PEOPLE, "ann bob "),
        ("{% for r in s.data if r.data.n > 1 %}{{ r.name }}{% endfor %}", PEOPLE, "ann"),
        # Rows of a query, one list for each iteration.
        ("{{ s.results[0].data.name }}", ([PEOPLE[0]], []), "ann"),
        ("{{ s.results[0].data[1].name }}", (list(PEOPLE), []), "bob"),
        ("{{ s.results[0].rows | length }}", (list(PEOPLE), []), 2),
        # An own key comes first, and a body's own `data` is read as that of a single result is.
        ("{{ s.results[0].data.name }}", WITH_DATA, "ann"),
        ("{{ s.results[0].data.data.name }}", WITH_DATA, "ann"),
        ("{{ s.results[0].data }}", WITH_DATA, {"name": "ann"}),
        # A missing `data` may say that the call failed.
        ("{{ s.results[1].data is defined }}", WITH_DATA, False),
        ("{{ s.results | selectattr('data') | list | length }}", WITH_DATA, 1),
        ("{{ s.results[1].data | default('none') }}", WITH_DATA, "none"),
        ("{{ s.results[0].data.name }}", (None, "text", 3), None),
    ],
)
def test_an_element_of_a_loops_results_is_read_as_a_result_is(
    text: str, results: tuple[Any, ...], expected: Any
) -> None:
    assert value(text, s=loop_of(*results)) == expected


@pytest.mark.req("TPL-07", "LOOP-13")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ s }}", list(PEOPLE)),
        ("{{ s.results }}", list(PEOPLE)),
        ("{{ s.results | list }}", list(PEOPLE)),
        ("{{ s.results[0] }}", PEOPLE[0]),
        ("{{ [s.results[0], s.data | first] }}", [PEOPLE[0], PEOPLE[0]]),
        ("{{ {'first': s.results[0]} }}", {"first": PEOPLE[0]}),
        ("{{ s.results[:1] }}", [PEOPLE[0]]),
        ("{{ s.results | batch(1) | list }}", [[PEOPLE[0]], [PEOPLE[1]]]),
        ("{{ s.results | reverse | list }}", [PEOPLE[1], PEOPLE[0]]),
        ("{{ s.results | list | tojson }}", '[{"name": "ann", "n": 2}, {"name": "bob", "n": 1}]'),
        ("{{ s.results[0] | tojson }}", '{"name": "ann", "n": 2}'),
        ("{{ s.results | list | string }}", "[{'name': 'ann', 'n': 2}, {'name': 'bob', 'n': 1}]"),
        ("{{ s.results == s.data }}", True),
        ("{{ s.results[0] == {'name': 'ann', 'n': 2} }}", True),
        ("{{ {'name': 'bob', 'n': 1} in s.results }}", True),
        ("{{ s.results | length + s.results[0] | length }}", 4),
        ("{{ s.results[0].get('name') }}", "ann"),
        ("{{ s.results[0] is mapping }}", True),
        ("{{ s.results + s.results == (s.results | list) * 2 }}", True),
    ],
)
def test_elements_of_a_loops_results_stay_plain_data(text: str, expected: Any) -> None:
    assert value(text, s=loop_of(*PEOPLE)) == expected
    found = value(text, s=loop_of(*PEOPLE))
    assert json.loads(json.dumps(found)) == expected
    assert plain_types(found) <= {dict, list, str, int, bool}


def plain_types(found: Any) -> set[type]:
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return {type(found)}.union(*map(plain_types, inner))


@pytest.mark.req("TPL-07", "LOOP-01")
def test_a_step_loops_over_the_plain_results_of_another_loop() -> None:
    for text in ("{{ s }}", "{{ s.results }}", "{{ s.results or [] }}", "{{ s.results | list }}"):
        found = render_collection(Authored(text), Scope({}, steps={"s": loop_of(*PEOPLE)}))

        assert found == list(PEOPLE)
        assert plain_types(list(found)) <= {dict, list, str, int}


@pytest.mark.req("TPL-07", "TPL-11")
def test_an_element_in_a_list_weighs_what_it_holds() -> None:
    """The budget is asked before the text of a list is made."""
    nothing: dict[str, Any] = {}
    run = Evaluation(nothing.__getitem__)
    [view] = loop_of({"text": "x" * 5_000}).elements() or []

    assert type(view) is not dict
    assert extent(run, [view], {}) == extent(run, [view.value()], {})


@pytest.mark.req("TPL-07")
def test_rows_of_a_query_are_not_read_as_results() -> None:
    assert value("{{ s.rows[0].data.id }}", s=rows(*ROWS)) is None
