"""Resource bombs end as ordinary errors, within 250 ms and 64 MiB (RELIABILITY, first ruling)."""

from __future__ import annotations

import gc
import time
import tracemalloc

import pytest

from noetl.errors import TemplateError
from noetl.templates.expression import parse

SHARED = "{% set a=[0]*1000 %}{% set b=[a]*1000 %}{% set c=[b]*1000 %}"

BOMBS = [
    "{{ 'a'*(10**9) }}",
    "{{ (10**9)*'a' }}",
    "{{ 10**(10**8) }}",
    "{{ 2**4000*2**4000 }}",
    "{{ 'a'|center(10**9) }}",
    "{{ 'a\nb'|indent(10**9) }}",
    "{{ 'a\nb'|indent('x'*1000000) }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "{% set s='aaaaaaaa' %}" + "{% set s = s ~ s %}" * 40 + "{{ s }}",
    "{% set s='aaaaaaaa' %}" + "{% set s = s + s %}" * 40 + "{{ s }}",
    "{% set s=[1] %}" + "{% set s = s + s %}" * 40 + "{{ s }}",
    "{{ lipsum(n=100000) }}",
    "{{ 'a'.ljust(10**9) }}",
    "{{ 'a'.rjust(10**9, 'x') }}",
    "{{ 'a'.zfill(10**9) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%.999999999f' % 1 }}",
    "{{ '%(a)s' * 100000 % {'a': 'x' * 100000} }}",
    "{{ ('%s' * 100000) % (1,) }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ [0]*(10**9) }}",
    "{{ [[[0]*1000]*1000]*1000 }}",
    "{{ ([[0]*1000]*1000)|join|length }}",
    SHARED + "{{ c }}",
    SHARED + "{{ c|string }}",
    SHARED + "{{ c|tojson }}",
    SHARED + "{{ c ~ '' }}",
    SHARED + "{{ '%s' % c }}",
    SHARED + "{% set d=[0]*1000 %}{% set e=[d]*1000 %}{% set f=[e]*1000 %}{{ c == f }}",
    SHARED + "{% set d=[0]*1000 %}{% set e=[d]*1000 %}{% set f=[e]*1000 %}{{ c < f }}",
    SHARED + "{% set d=[0]*1000 %}{% set e=[d]*1000 %}{% set f=[e]*1000 %}{{ f in [c] }}",
    SHARED + "{{ [c, c]|sort }}",
    SHARED + "{{ [c, c]|unique }}",
    "{% set a=[1] %}" + "{% set a=[a,a] %}" * 60 + "{{ a }}",
    "{% set a=[1] %}" + "{% set a=[a] %}" * 300 + "{{ a|tojson }}",
    "{% set a=[1] %}{% set b=[1] %}" + "{% set a=[a,a] %}{% set b=[b,b] %}" * 60 + "{{ a==b }}",
    "{{ ['a'*1000000]*1000 }}",
    "{{ [big]*1000 }}",
    "{{ [range(99999)|list]*1000 }}",
    "{{ {'a': [big]*1000} | tojson }}",
    "{{ range(99999)|map('string')|map('upper')|map('lower')|map('title')|join }}",
    "{{ range(99999)|list|sort|sum }}",
    "{{ range(99999)|map('center', 10000)|list }}",
    "{{ range(99999)|map('replace','1','x'*100000)|list }}",
    "{{ range(99999)|batch(1)|list }}",
    "{{ range(9)|batch(10**9,'x')|list }}",
    "{{ range(9)|slice(10**9)|list }}",
    "{% for i in range(99999) %}{{ range(99999)|sum }}{% endfor %}",
    "{% for i in range(99999) if range(99999)|sum %}x{% endfor %}",
    "{% for a in range(300) %}{% for b in range(300) %}{{ ('x'*1000)|upper }}{% endfor %}{% endfor %}",
    "{% set x %}{% for i in range(99999) %}{{ 'a'*10000 }}{% endfor %}{% endset %}{{ x }}",
    "{% filter upper %}{% for i in range(99999) %}{{ 'a'*10000 }}{% endfor %}{% endfilter %}",
    "{% set s='a'*1000000 %}{% for i in range(99999) %}{{ s.count('b') }}{% endfor %}",
    "{% set s='a'*1000000 %}{% for i in range(99999) %}{{ 'ab' in s }}{% endfor %}",
    "{% set s='a'*1000000 %}{% for i in range(99999) %}{{ s == s ~ '' }}{% endfor %}",
    "{% set s='a'*1000000 %}{% for i in range(99999) %}{{ s is lower }}{% endfor %}",
    "{{ ('a '*500000).split() }}",
    "{{ ('a '*500000)|wordcount }}",
    "{{ ('a\n'*500000).splitlines() }}",
    "{{ ('a'*1000000)|list }}",
    "{{ ('a'*1000000).replace('','b'*1000) }}",
    "{{ ('x'*1000)|replace('x','y'*100000) }}",
    "{{ ('a'*1000000).strip('b'*1000000) }}",
    "{{ ('a'*1000000)|trim('b'*1000000) }}",
    "{{ (' '*1000000)|urlencode }}",
    "{{ ('<'*1000000)|e }}",
    "{{ ('ab'*500000)|title }}",
    "{{ 1|round(10**9,'ceil') }}",
    "{{ {'a':1}|tojson(indent=10**9) }}",
    "{{ range(10**9) }}",
    "{{ range(10**30) }}",
    "{{ ('€'*1000000)~1 }}" * 6,
    "{{ " + "[" * 500 + "]" * 500 + " }}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "not " * 3000 + "1 }}",
    "{{ " + "-" * 3000 + "1 }}",
    "{{ " + "1+" * 5000 + "1 }}",
    "{{ x " + "|upper" * 3000 + " }}",
    "{{ " + "a if b else " * 2000 + "c }}",
    "{{ 1 ~ x }}" * 3000,
    "{{ " + "9" * 5000 + " }}",
    "{% if 1 %}" * 300 + "{% endif %}" * 300,
    "{% for a in x %}{% for b in x %}{% for c in x %}{% endfor %}{% endfor %}{% endfor %}",
    "{{ 'x' " * 20000,
    "{{ x }}" * 200_000,
    "{{ x }}" * 30_000,
    "{# #}" * 50_000 + "{{ 1 + x }}",
    "\n" * 250_000 + "{{ a b }}",
    "{{ " + "a." * 120_000,
    "{{ " + "a" * 200_000 + " + 1 }}",
    "{{ '" + "a" * 200_000 + "'() }}",
    "{% raw %}" * 20_000,
    "{{" * 100_000,
    "{{ " + "x " * 100_000 + "}}",
]

BIG = [{"n": n, "text": "x" * 50} for n in range(2_000)]


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: text[:40].replace("\n", " "))
@pytest.mark.req("TPL-11")
def test_a_bomb_ends_as_an_error_in_bounded_time_and_memory(text: str) -> None:
    parse("{{ 1 + 1 }}").evaluate({})  # the parser's own import is not the bomb's
    elapsed, peak = _measured(text)

    assert elapsed < 0.25, f"{elapsed:.3f} s"
    assert peak < 64 * 1024 * 1024, f"{peak >> 20} MiB"


def _measured(text: str) -> tuple[float, int]:
    """Seconds of processor time (another process may hold the machine) and bytes at the peak, in two runs."""
    gc.collect()
    gc.freeze()  # the test session's own heap is not the bomb's to walk
    started = time.process_time()
    _explode(text)
    elapsed = time.process_time() - started
    parse.cache_clear()
    tracemalloc.start()
    try:
        _explode(text)
        return elapsed, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _explode(text: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(text).evaluate({"big": BIG})
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ rows | selectattr('n', 'gt', 9) | map(attribute='n') | sum }}", sum(range(10, 2_000))),
        ("{{ rows | length }}", 2_000),
        ("{{ (rows | sort(attribute='n', reverse=true) | first).n }}", 1_999),
        ("{{ rows | map(attribute='text') | join(',') | length }}", 2_000 * 51 - 1),
        ("{% for row in rows %}{{ row.n % 2 }}{% endfor %}", "01" * 1_000),
        ("{{ (rows | tojson | length) > 100000 }}", True),
        ("{{ rows == rows[:] }}", True),
        ("{{ ('x' * 500000) | upper | length }}", 500_000),
    ],
)
def test_ordinary_work_on_a_few_thousand_rows_fits(text: str, expected: object) -> None:
    assert parse(text).evaluate({"rows": BIG}) == expected
