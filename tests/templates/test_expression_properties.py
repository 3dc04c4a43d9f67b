"""Any text is a template or an error, and any template gives JSON or an error."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.base.errors import TemplateError
from noetl.templates.expression import parse
from noetl.templates.scope import Scope
from noetl.templates.views import ResultProxy

SCOPE: dict[str, Any] = {"ctx": {"n": 1, "xs": [1, 2, None, {"a": "b"}], "s": "text"}, "workload": {"items": []}}

SIGNS = "{{ }} {% %} {# #} {{- -}} ( ) [ ] { } , . : | ~ + - * ** / // % == != < <= > >= .append( .items() .upper()"
STATEMENTS = "if else endif for endfor set endset with endwith filter endfilter loop in not and or is"
NAMES = "ctx n xs s workload items fetch x 0 1 2 1.5 'a' \"b\" true none __class__ now() range(3) 99999999 attribute="
FILTERS = "length sort join sum unique first tojson string int list max title urlencode items"
WORDS = st.sampled_from(f"{SIGNS} {STATEMENTS} {NAMES} {FILTERS} default(1) map select upper defined odd".split())
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _is_value_or_error(text: str, scope: Scope) -> None:
    with suppress(TemplateError):
        template = parse(text)
        assert isinstance(template.references, tuple)
        assert template.shape is not None
        json.dumps(template.evaluate(scope, now=0.0), allow_nan=False)


def _scope() -> Scope:
    return Scope(SCOPE, tasks={"fetch": ResultProxy({"data": [{"n": 1}]}, unwrap=True)})


@given(st.text(max_size=60))
def test_any_text_is_a_template_or_an_error(text: str) -> None:
    _is_value_or_error(text, _scope())


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(WORDS, max_size=14))
def test_any_sequence_of_tokens_is_a_template_or_an_error(words: list[str]) -> None:
    _is_value_or_error("{{ " + " ".join(words) + " }}", _scope())
    _is_value_or_error(" ".join(words), _scope())


OPERATORS = st.sampled_from(["+", "-", "*", "/", "//", "%", "==", "<", ">=", "in", "~", "and", "or"])


@settings(deadline=None)
@given(DATA, DATA, OPERATORS, st.sampled_from(FILTERS.split()))
def test_any_data_gives_a_value_or_an_error(left: Any, right: Any, operator: str, name: str) -> None:
    scope = Scope({"a": left, "b": right})

    _is_value_or_error(f"{{{{ a {operator} b }}}}", scope)
    _is_value_or_error(f"{{{{ a | {name} }}}}", scope)
    _is_value_or_error("{{ a.x }}{{ a[0] }}{{ b }}", scope)


@given(DATA)
def test_data_passes_through_a_path_unchanged(data: Any) -> None:
    """TPL-02: native means the value itself."""
    value = parse("{{ ctx.v }}").evaluate({"ctx": {"v": data}})

    assert value == data
    assert type(value) is type(data)
    assert parse("{{ ctx.v | default(1) }}").evaluate({"ctx": {"v": data}}) == data


@given(DATA)
def test_json_text_reads_back_as_the_data(data: Any) -> None:
    assert json.loads(parse("{{ v | tojson }}").evaluate({"v": data})) == data
