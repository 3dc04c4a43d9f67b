"""No way out of a template (TPL-11, reliability.md §2.1): published escapes, and what data may not become."""

from __future__ import annotations

import copy
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from noetl.base.errors import TemplateError
from noetl.templates.expression import parse
from noetl.templates.scope import Scope
from noetl.templates.views import ResultProxy

STATIC_ESCAPES = [
    "{{ ''.__class__ }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__'] }}",
    '{{ ""["__class__"]["__mro__"] }}',
    "{{ [].__class__.__base__.__subclasses__() }}",
    "{{ ().__class__.__bases__[0] }}",
    "{{ {}.__class__ }}",
    "{{ ctx.__class__ }}",
    "{{ ctx.a.__dict__ }}",
    "{{ fetch.__init__.__globals__ }}",
    "{{ __import__('os') }}",
    "{{ __builtins__ }}",
    "{{ '%s' | attr('__class__') }}",
    "{{ '' | attr('_' ~ '_class__') }}",
    "{{ [''] | map(attribute='__class__') | list }}",
    "{{ [''] | map(attribute='a.__class__') | list }}",
    "{{ [''] | map('attr', '__class__') | list }}",
    "{{ [''] | selectattr('__class__') | list }}",
    "{{ [''] | rejectattr('__class__', 'none') | list }}",
    "{{ [''] | groupby('__class__') }}",
    "{{ [''] | sort(attribute='__class__') }}",
    "{{ [''] | sum(attribute='a,__class__') }}",
    "{{ [''] | unique(attribute='__class__') | list }}",
    "{{ [''] | join(',', attribute='__class__') }}",
    "{{ self.__dict__ }}",
    "{{ self._TemplateReference__context }}{{ self() }}",
    "{{ cycler('a').__init__ }}",
    "{{ cycler.next() ~ cycler('a') }}",
    "{{ joiner() }}",
    "{{ namespace() }}",
    "{% set ns = namespace(x=1) %}{{ ns }}",
    "{% set ctx.a = 1 %}",
    "{{ lipsum() }}",
    "{{ lipsum.__globals__ }}",
    "{{ lipsum.__globals__['os'].popen('id') }}",
    "{{ config.__class__.__init__.__globals__['os'] }}",
    "{{ request.application.__globals__.__builtins__ }}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ url_for('x') }}",
    "{{ open('/etc/passwd') }}",
    "{{ eval('1') }}",
    "{{ getattr('', 'x') }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% from 'os' import path %}",
    "{% extends 'base' %}",
    "{% block a %}{% endblock %}",
    "{% macro m() %}{% endmacro %}",
    "{% macro m() %}{{ m.__globals__ }}{% endmacro %}{{ m() }}",
    "{% call m() %}{% endcall %}",
    "{% autoescape false %}{% endautoescape %}",
    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{{ range(*[1]) }}",
    "{{ dict(**{'a': 1}) }}",
    "{{ ''.upper(__class__=1) }}",
    "{{ 'a' | safe | pprint }}",
    "{{ {'a': 1} | xmlattr }}",
    "{{ 'x' | urlize }}",
    "{{ 'x' is callable }}",
    "{{ (1).__class__ }}",
    "{{ x.__init__ is defined }}",
    "{{ x.__class__ | default(1) }}",
]


@pytest.mark.parametrize("text", STATIC_ESCAPES)
@pytest.mark.req("TPL-11")
def test_a_sandbox_escape_is_refused_before_evaluation(text: str) -> None:
    with pytest.raises(TemplateError):
        parse(text)


RUNTIME_ESCAPES = [
    "{{ ''['__cl' + 'ass__'] }}",
    "{{ ''['_' ~ '_class__'] }}",
    "{{ ctx[ctx.dunder] }}",
    "{{ [''] | map(attribute=ctx.dunder) | list }}",
    "{{ [''] | map(attribute='a.' ~ ctx.dunder) | list }}",
    "{{ [''] | groupby('_' ~ '_class__') }}",
    "{{ [''] | map(ctx.filter, ctx.dunder) | list }}",
    "{{ [''] | select(ctx.filter) | list }}",
    "{{ '{0.__class__}' | format('') }}",
    "{{ '{0.__class__}'.format('') }}",
    "{{ '{a.__class__}'.format_map({'a': ''}) }}",
    "{% set f = '{0.__class__}'.format %}{{ f('') }}",
    "{{ ''.upper.x() }}",
    "{{ 'a'.encode() }}",
    "{{ 'a'.translate({}) }}",
    "{{ 'a'.maketrans('a', 'b') }}",
    "{{ 'x'.join.im_self() }}",
    "{{ ctx.items.append(1) }}",
    "{{ ctx.items.pop() }}",
    "{{ ctx.update({'a': 1}) }}",
    "{{ ctx.setdefault('z', 1) }}",
    "{{ ctx.clear() }}",
    "{{ ctx.pop('dunder') }}",
    "{{ fetch.lookup('data') }}",
    "{{ fetch.value() }}",
    "{{ fetch._full() }}",
    "{{ now().tzinfo.x() }}",
    "{{ now().__class__ if false else now().astimezone() }}",
    "{% for x in [1] %}{{ loop.move(9) }}{% endfor %}",
    "{{ {'__class__': 1}['__cla' ~ 'ss__'] }}",
    "{{ {[]: 1} }}",
    "{{ {'items': 1}.items() }}",
]


@pytest.fixture
def scope() -> Scope:
    ctx = {"dunder": "__class__", "filter": "attr", "items": [1], "_id": 5}
    return Scope({"ctx": ctx, "workload": {}}, tasks={"fetch": ResultProxy({"data": 1}, unwrap=True)})


@pytest.mark.parametrize("text", RUNTIME_ESCAPES)
@pytest.mark.req("TPL-11")
def test_a_late_sandbox_escape_is_a_template_error(text: str, scope: Scope) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(text).evaluate(scope, now=0.0)

    message = caught.value.message
    assert "\n" not in message
    assert "<" not in message, "no repr of an internal object in a message"
    assert "Traceback" not in message


@pytest.mark.req("TPL-11")
def test_mutation_is_an_error_and_changes_nothing() -> None:
    workload = {"items": [1, {"a": [2]}], "m": {"k": 1}}
    before = copy.deepcopy(workload)

    for call in ("items.append(1)", "items[1].a.extend([3])", "m.update({'k': 2})", "m.pop('k')", "items.sort()"):
        with pytest.raises(TemplateError):
            parse(f"{{{{ workload.{call} }}}}").evaluate({"workload": workload})

    assert workload == before


@pytest.mark.parametrize(
    "text",
    [
        "{{ workload.items + [9] }}",
        "{{ workload.items | sort(attribute='a') }}",
        "{{ workload.items | batch(5, 'x') | list }}",
        "{{ workload.items | slice(3, 'x') | list }}",
        "{{ dict(workload, z=1) }}",
        "{{ workload.items | reverse }}",
        "{% set workload = 1 %}{{ workload }}",
        "{% for k, v in workload.items() %}{% set v = 1 %}{% endfor %}",
    ],
)
@pytest.mark.req("TPL-11")
def test_a_template_result_is_independent_of_the_scope(text: str) -> None:
    workload: dict[str, Any] = {"items": [{"a": 2}, {"a": 1}]}
    before = copy.deepcopy(workload)

    try:
        parse(text).evaluate({"workload": workload})
    except TemplateError:
        assert "workload.items()" in text  # a key wins over the method

    assert workload == before


@pytest.mark.parametrize(
    "name", ["upper", "items", "get", "lookup", "value", "_load", "real", "denominator", "func", "im_self"]
)
@pytest.mark.parametrize(
    "holder", ["''", "[]", "{}", "1", "1.5", "fetch", "now()", "duration(1)", "range(2)", "none", "ctx"]
)
@pytest.mark.req("TPL-11")
def test_attributes_of_python_objects_do_not_exist(holder: str, name: str, scope: Scope) -> None:
    """A method is not a value, and nothing but data can be read."""
    value = parse(f"{{{{ ({holder}).{name} }}}}").evaluate(scope, now=0.0)

    assert value == ([1] if (holder, name) == ("ctx", "items") else None)


def test_a_single_underscore_is_a_key_or_undefined(scope: Scope) -> None:
    assert parse("{{ ctx._id }}").evaluate(scope) == 5
    assert parse("{{ ctx._links.self | default('none') }}").evaluate(scope) == "none"
    assert parse("{{ fetch._load }}").evaluate(scope) is None


@pytest.mark.parametrize(
    "text",
    [
        "{{ [now(), duration(1), range(2), (1, 2), nope, fetch, {'a': nope}] }}",
        "{{ ctx.items | groupby(0) }}",
        "{{ {'a': 1}.items() }}",
        "{{ ctx | dictsort }}",
        "{{ 'a' | sql }}",
        "{{ ['t' | identifier] }}",
        "{% for x in [1] %}{{ loop }}{% endfor %}",
        "{{ [[1]] | map('first') }}",
        "{{ range(3) | select('odd') }}",
    ],
)
def test_only_plain_json_leaves_a_template(text: str, scope: Scope) -> None:
    def plain(value: Any) -> bool:
        if type(value) is list:
            return all(map(plain, value))
        if type(value) is dict:
            return all(type(key) is str and plain(item) for key, item in value.items())
        return type(value) in (str, int, float, bool, type(None)) and not isinstance(value, datetime | timedelta)

    value = parse(text).evaluate(scope, now=0.0)

    assert plain(value)
    assert json.loads(json.dumps(value)) == value


def test_numbers_that_json_cannot_hold_are_errors() -> None:
    for text in ("{{ 1e308 * 10 }}", "{{ [1e308 * 10] }}", "{{ 1e999 }}", "{{ (1e308 * 10) | tojson }}"):
        with pytest.raises(TemplateError):
            parse(text).evaluate({})


def test_sql_marks_survive_only_on_request() -> None:
    from noetl.templates.render import render
    from noetl.templates.values import SqlFragment, SqlIdentifier

    assert type(render("{{ 'a\"b' | identifier }}", {})) is str
    assert render("{{ 'a\"b' | identifier }}", {}) == '"a""b"'
    marked = render(["{{ ['public', 't'] | identifier }}", "{{ 'a = 1' | sql }}"], {}, marks=True)
    assert marked == ['"public"."t"', "a = 1"]
    assert [type(mark) for mark in marked] == [SqlIdentifier, SqlFragment]
