"""The language is Jinja2's: the same expressions give what Jinja2 itself gives, but for what is ruled otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import pytest

from noetl.base.errors import TemplateError
from noetl.templates.expression import parse

SCOPE: dict[str, Any] = {
    "n": 7,
    "f": 2.5,
    "s": "Hello World",
    "e": "",
    "xs": [3, 1, 2],
    "words": ["b", "A", "c"],
    "rows": [{"k": "x", "v": 2}, {"k": "y", "v": 1}, {"k": "x", "v": 3}],
    "m": {"b": 1, "a": 2},
    "t": True,
    "z": None,
}

EXPRESSIONS = (Path(__file__).parent / "jinja2_expressions.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def environment() -> jinja2.Environment:
    return jinja2.sandbox.ImmutableSandboxedEnvironment()


def _plain(value: Any) -> Any:
    """Jinja2's value as JSON data."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(item) for item in value]
    return value


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_gives_the_same_value_as_jinja2(expression: str, environment: jinja2.Environment) -> None:
    expected = _plain(environment.compile_expression(expression)(**SCOPE))

    value = parse("{{ " + expression + " }}").evaluate(SCOPE)

    assert value == expected
    assert type(value) is type(expected)


TEXTS = [
    "{% for x in xs %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in xs if x > 1 %}{{ x }}{{ loop.first }}{% else %}none{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for k, v in m | dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for r in rows %}{{ r.k }}{{ loop.cycle('a', 'b') }}{{ loop.nextitem }}{{ loop.revindex0 }}{% endfor %}",
    "{% for g in rows | groupby('k') %}{{ g.grouper }}{{ g.list | length }}{% endfor %}",
    "{% for a in xs %}{% for b in xs %}{{ a * b }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% if n > 8 %}a{% elif n > 6 %}b{% else %}c{% endif %}",
    "{% set a = n %}{% set b, c = [1, 2] %}{{ a }}{{ b }}{{ c }}",
    "{% set a = 1 %}{% for x in xs %}{% set a = x %}{% endfor %}{{ a }}",
    "{% set a %}x{{ n }}{% endset %}{{ a | upper }}",
    "{% set a | upper %}x{{ n }}{% endset %}{{ a }}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% filter upper | replace('A', 'b') %}a{{ s }}{% endfilter %}",
    "{% raw %}{{ not a template }}{% endraw %}{{ n }}",
    "a {{- n -}} b {# gone #} c",
    "  {%- if t %} x {% endif -%}  y",
    "{{ n }}\n{{ s }}\n",
    "{{ '{{' }} {{ '}}' }} }} %}",
    "{{ xs }} {{ m }} {{ none }} {{ true }} {{ 1.0 }} {{ (1,) }} {{ ['a\"b', \"it's\"] }}",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_renders_the_same_as_in_jinja2(text: str) -> None:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(keep_trailing_newline=True)

    assert parse(text).evaluate(SCOPE) == environment.from_string(text).render(SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ m.items }}", "data"),
        ("{{ m['items'] }}", "data"),
        ("{{ m.keys }}", None),
        ("{{ {'a': 'ü<'} | tojson }}", '{"a": "ü<"}'),
        ("{{ {'b': 1, 'a': [1.5, none]} | tojson(indent=1) }}", '{\n "b": 1,\n "a": [\n  1.5,\n  null\n ]\n}'),
        ("{{ 'ü' | b64encode }}", "w7w="),
        ("{{ 'w7w=' | b64decode }}", "ü"),
        ("{{ {'a': '<'} | tojson | safe }}", '{"a": "<"}'),
        ("{{ m | safe }}", {"items": "data"}),
        ("{{ [1, 2] == (1, 2) }}", True),
        ("{{ [none, 2, 1] | sort }}", [None, 1, 2]),
        ("{{ '9' * 2 }}", "99"),
        ("{{ {1: 'a'} }}", {"1": "a"}),
        ("{{ 'inf' | float }}", 0.0),
    ],
)
def test_intended_differences_from_jinja2_hold(text: str, expected: Any) -> None:
    """Mapping keys win over methods (design.md §4.2), JSON is not escaped for HTML, only JSON values exist."""
    assert parse(text).evaluate({"m": {"items": "data"}}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ '1' + 1 }}",
        "{{ 1 + none }}",
        "{{ [] - [] }}",
        "{{ {} * 2 }}",
        "{{ 1 / 0 }}",
        "{{ 1 // 0 }}",
        "{{ 1 % 0 }}",
        "{{ (-8) ** 0.5 }}",
        "{{ 10.0 ** 400 }}",
        "{{ -'a' }}",
        "{{ none | length }}",
        "{{ 5 | list }}",
        "{{ 5 | first }}",
        "{{ [1, 'a'] | sort }}",
        "{{ [{}] | sort }}",
        "{{ [{}] | max }}",
        "{{ 'x' | round }}",
        "{{ 'x' is odd }}",
        "{{ 1 is divisibleby 0 }}",
        "{{ [1, 'a'] | sum }}",
        "{{ 'x' | dictsort }}",
        "{{ 'x' | items }}",
        "{{ m | dictsort(by='x') }}",
        "{{ 'x' | truncate(1) }}",
        "{{ 'x' | b64decode }}",
        "{{ 5 | sql }}",
        "{{ '' | identifier }}",
        "{{ 'x' | upper(1) }}",
        "{{ 'x' | default(nope=1) }}",
        "{{ 'x'.upper(1) }}",
        "{{ 'x'.split('') }}",
        "{{ 'x'.join([1], 2) }}",
        "{{ [1] | map }}",
        "{{ [1] | map('nope') }}",
        "{{ [1] | select('nope') }}",
        "{{ [1] | selectattr }}",
        "{{ xs['a':'b'] }}",
        "{{ xs[::0] }}",
        "{{ [1].index(2) }}",
        "{{ range('a') }}",
        "{{ range(1, 2, 0) }}",
        "{{ dict(1) }}",
        "{{ '%d' % 'x' }}",
        "{{ '%s %s' % 1 }}",
        "{{ '%(a)s' % {'b': 1} }}",
        "{% for a, b in [1] %}{% endfor %}",
        "{% set a, b = [1] %}",
        "{% for x in 5 %}{% endfor %}",
    ],
)
@pytest.mark.req("TPL-09")
def test_every_failure_is_a_template_error_in_one_line(text: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(text).evaluate({"m": {"a": 1}, "xs": [1]})

    assert "\n" not in caught.value.message
    assert caught.value.message[0].islower() or caught.value.message[0] == '"'
    assert not caught.value.message.endswith(".")


@pytest.mark.req("TPL-09")
def test_the_format_method_is_refused_with_its_replacement() -> None:
    with pytest.raises(TemplateError, match=r"use '%\.2f' % value"):
        parse("{{ '{:.2f}'.format(1.5) }}").evaluate({})
