"""Parsing: what is refused and where, what a template reads, and what never needs the full parser (VAL-15, TPL-11)."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import TemplateError
from noetl.templates.expression import Comparison, GuardReference, parse
from noetl.templates.filters import FILTERS
from noetl.templates.logic import And, Compare, Const, Not, Opaque, Or
from tests import quick_yaml

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("{{ workload. }}", 13),
        ("{{ a b }}", 5),
        ("x {{ a b }}", 7),
        ("{{ (1 }}", 6),
        ("{{ 'abc }}", 3),
        ("{{ a ! b }}", 5),
        ("first\n{{ a b }}", 11),
        ("{{ a }} {{ | }}", 11),
        ("{{ x | nope }}", 7),
        ("{{ x is nope }}", 8),
        ("{{ nope(1) }}", 3),
        ("{{ ''.__class__ }}", 6),
        ("{{ ctx.__class__ }}", 7),
        ("a\nb {{ 1 + ctx['__class__'] }}", 16),
        ("{% include 'x' %}", 3),
    ],
)
@pytest.mark.req("VAL-15")
def test_a_syntax_error_is_reported_at_its_place(text: str, offset: int) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(text)

    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ workload. }}", "expected name or number"),
        ("{{ x | uper }}", 'there is no filter "uper": did you mean "upper"?'),
        ("{{ x | attr('a') }}", "there is no filter \"attr\": write a.b or a['b']"),
        ("{{ foo() }}", 'there is no function "foo": there are dict, duration, now, range'),
        ("{{ x | frobnicate }}", f'there is no filter "frobnicate": there are {", ".join(sorted(FILTERS))}'),
        ("{{ x is definde }}", 'there is no test "definde": did you mean "defined"?'),
        ("{% include 'x' %}", '"include" is not allowed'),
        (r"{{ '\ud800' }}", "the template holds half of a surrogate pair, which is no character"),
    ],
)
def test_messages_name_the_problem_and_the_fix(text: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(text)

    assert caught.value.message == message


@pytest.mark.parametrize(
    "text",
    [
        "{{ }}",
        "{{ a.b. }}",
        "{{ a[ }}",
        "{% if x %}",
        "{% endif %}",
        "{% nope %}",
        "{{ 'a' if }}",
        "{{ {1} }}",
        "{{ a..b }}",
        "{{ a",
        "{# open",
        "{{ a | }}",
        "{{ @ }}",
        "{{ x | map(*a) }}",
    ],
)
@pytest.mark.req("VAL-15")
def test_invalid_syntax_is_an_error(text: str) -> None:
    with pytest.raises(TemplateError):
        parse(text)


def reads(text: str) -> list[str]:
    """References as text; a question mark shows that being undefined is provided for."""
    shown = (".".join(map(str, (read.root, *read.path))) + "?" * read.defaulted for read in parse(text).references)
    return list(shown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ ctx.a['b'].c }}", ["ctx.a.b.c"]),
        ("{{ ctx.a['b'].c + 1 }}", ["ctx.a.b.c"]),
        ("{{ a[0].b }}", ["a.0.b"]),
        ("{{ a[0].b | int }}", ["a.0.b"]),
        ("{{ ctx[args.k].x + 1 }}", ["args.k", "ctx"]),
        ("{{ ctx.a.upper() }}", ["ctx.a"]),
        ("u/{{ a }}/{{ b.c }}/{{ a }}", ["a", "b.c"]),
        ("u/{{ a }}/{{ b.c }}/{{ a ~ 1 }}", ["a", "b.c"]),
        ("{{ ctx.n | default(iter.page) }}", ["ctx.n?", "iter.page"]),
        ("{{ ctx.n | d(1) | int }}", ["ctx.n?"]),
        ("{{ ctx.n is defined }}", ["ctx.n?"]),
        ("{{ ctx.n is not defined }}", ["ctx.n?"]),
        ("{{ ctx.n.m if ctx.n else 0 }}", ["ctx.n", "ctx.n.m?"]),
        ("{{ ctx.a and ctx.a.b == 1 }}", ["ctx.a", "ctx.a.b?"]),
        ("{{ ctx.a and ctx.b }}", ["ctx.a", "ctx.b"]),
        ("{% if x is defined %}{{ x.y }}{% endif %}", ["x?", "x.y?"]),
        ("{% for x in ctx.list %}{{ x.a }}{{ loop.index }}{{ ctx.z }}{% endfor %}{{ x }}", ["ctx.list", "ctx.z", "x"]),
        ("{% for k, v in m.items() %}{{ k }}{{ v }}{% endfor %}", ["m"]),
        ("{% set t = ctx.a %}{{ t }}{{ u }}", ["ctx.a", "u"]),
        ("{% set t %}{{ q }}{% endset %}{{ t }}", ["q"]),
        ("{% with t = a %}{{ t }}{% endwith %}{{ t }}", ["a", "t"]),
        ("{% filter replace('a', b) %}{{ c }}{% endfilter %}", ["b", "c"]),
        ("{{ now() + duration(ctx.wait) }}", ["ctx.wait"]),
        ("{{ range(n) }}", ["n"]),
        ("{{ rows | map(attribute='a') | list }}", ["rows"]),
        ("{{ rows[a:b] }}", ["a", "b", "rows"]),
        ("{{ {'k': v}[j] }}", ["j", "v"]),
        ("{{ 1 }}{{ true }}", []),
        ("plain", []),
    ],
)
def test_the_references_of_a_template_are_what_it_reads(text: str, expected: list[str]) -> None:
    assert sorted(reads(text)) == sorted(expected)


def test_a_reference_has_a_root_and_a_path() -> None:
    assert parse("{{ ctx.a['b'][0] }}").references == (GuardReference("ctx", ("a", "b", 0), False),)


@pytest.mark.parametrize(
    ("text", "known", "value"),
    [
        ("{{ 1 }}", True, 1),
        ("{{ 'a' }}", True, "a"),
        ("{{ true }}", True, True),
        ("{{ none }}", True, None),
        ("plain", True, "plain"),
        ("{{ 1 + 1 }}", True, 2),
        ("{{ [1, 'a'] }}", True, [1, "a"]),
        ("p{{ 1 }}", True, "p1"),
        ("{{ x }}", False, None),
        ("{{ now() }}", False, None),
        ("{{ 1 / 0 }}", False, None),
    ],
)
def test_a_constant_is_evaluated_without_a_scope(text: str, known: bool, value: Any) -> None:
    template = parse(text)

    assert template.is_constant is known
    if known:
        assert template.constant == value
    else:
        with pytest.raises(TemplateError):
            _ = template.constant


E, H = ("event", ("name",)), ("outcome", ("http", "status"))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("{{ event.name == 'step.done' }}", Compare(*E, "==", ("step.done",))),
        ("{{ 'step.done' == event.name }}", Compare(*E, "==", ("step.done",))),
        ("{{ event.name in ['a', 'b'] }}", Compare(*E, "in", ("a", "b"))),
        ("{{ event.name not in ('a', 'b') }}", Compare(*E, "not in", ("a", "b"))),
        ("{{ not event.name != 'a' }}", Not(Compare(*E, "!=", ("a",)))),
        ("{{ 500 <= outcome.http.status }}", Compare(*H, ">=", (500,))),
        ("{{ outcome.http.status < -1.5 }}", Compare(*H, "<", (-1.5,))),
        ("{{ 1 < ctx.n <= 5 }}", And((Compare("ctx", ("n",), ">", (1,)), Compare("ctx", ("n",), "<=", (5,))))),
        ("{{ ctx.ok }}", Compare("ctx", ("ok",), "truthy")),
        ("{{ not ctx.ok }}", Not(Compare("ctx", ("ok",), "truthy"))),
        ("{{ ctx.ok | default(false) }}", Compare("ctx", ("ok",), "truthy")),
        ("{{ ctx.ok is defined }}", Compare("ctx", ("ok",), "defined")),
        ("{{ ctx.ok is none }}", Compare("ctx", ("ok",), "==", (None,))),
        ("{{ ctx.ok == true }}", Compare("ctx", ("ok",), "==", (True,))),
        (
            "{{ a and (b or c) and d }}",
            And(
                (
                    Compare("a", (), "truthy"),
                    Or((Compare("b", (), "truthy"), Compare("c", (), "truthy"))),
                    Compare("d", (), "truthy"),
                )
            ),
        ),
        ("{{ true }}", Const(True)),
        ("{{ 'no' }}", Const(False)),
        ("{{ 1 + 1 == 2 }}", Const(True)),
        ("true", Const(True)),
    ],
)
def test_guards_are_parsed_into_shapes(text: str, shape: object) -> None:
    assert parse(text).shape == shape


@pytest.mark.parametrize(
    "text", ["{{ ctx.n + 1 }}", "{{ a == b }}", "{{ 'x' in ctx.list }}", "x{{ a }}", "{{ a > 'x' }}"]
)
def test_an_unknown_expression_is_opaque_and_equal_to_itself(text: str) -> None:
    assert isinstance(parse(text).shape, Opaque)
    assert parse(text).shape == parse(text + "\n").shape or not parse(text).single


def test_comparisons_are_found_at_any_depth() -> None:
    text = "{{ 1 if (event.name == 'a' or 'b' != event.name) and ctx.n + (x in [1, 2]) and ctx.n > 3 else 2 }}"

    assert parse(text).comparisons == (
        Comparison("event", ("name",), "==", ("a",)),
        Comparison("event", ("name",), "!=", ("b",)),
        Comparison("x", (), "in", (1, 2)),
    )
    assert parse("{% for x in ctx.xs %}{% if x == 1 %}{% endif %}{% endfor %}").comparisons == ()


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("{{ 'process' if result.decision == 'approve' else 'reject' }}", ("process", "reject")),
        ("{{ 'a' if x else 'b' if y else 'c' }}", ("a", "b", "c")),
        ("{{ 'a' }}", ("a",)),
        ("{{ 'a' if x else y }}", ()),
        ("{{ x }}", ()),
        ("a{{ x }}", ()),
    ],
)
@pytest.mark.req("V2C-25")
def test_a_choice_between_constants_is_recognised(text: str, choices: tuple[str, ...]) -> None:
    assert parse(text).choices == choices


def _texts(data: Any) -> list[str]:
    match data:
        case str():
            return [data]
        case list():
            return [text for item in data for text in _texts(item)]
        case dict():
            return [text for item in data.values() for text in _texts(item)]
    return []


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_template_of_every_fixture_parses_and_evaluates(path: Path) -> None:
    for text in _texts(quick_yaml.loaded(path.read_text())):
        template = parse(text)
        assert template.shape is not None
        with suppress(TemplateError):  # arithmetic on what an empty scope does not have
            template.evaluate({}, now=0.0)


def test_parsing_the_same_text_twice_is_cached() -> None:
    assert parse("{{ ctx.n + 41 }}") is parse("{{ ctx.n + 41 }}")


SIMPLE = [
    "{{ ctx.n }}",
    "{{ a.b[0].c }}",
    "{{ x['k'] }}",
    "{{ 1 }}",
    "{{ true }}",
    "{{ 'a' }}",
    "u/{{ a.b }}/x",
    "text",
]


def test_paths_and_constants_never_import_jinja2() -> None:
    program = f"""
import sys
import noetl.templates.values, noetl.templates.render, noetl.templates.scope, noetl.templates.scope
import noetl.templates.views, noetl.templates.logic, noetl.templates.expression
from noetl.templates.expression import parse
for text in {SIMPLE!r}:
    template = parse(text)
    template.evaluate({{"ctx": {{"n": 1}}}})
    template.shape, template.references, template.comparisons, template.choices
assert "jinja2" not in sys.modules, "jinja2 was imported"
"""
    subprocess.run([sys.executable, "-c", program], check=True)
