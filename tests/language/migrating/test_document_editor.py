"""Text: what stays as it was written, where comments go, and which names are changed."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.template_names import expression, paths, renamed, tokens
from tests.language.migrating.migrated import HEAD, document, migrated


@pytest.mark.req("MIG-01")
def test_comments_stay_with_their_elements() -> None:
    text = (
        "# at the top\n"
        + HEAD
        + """
workflow:
  # the beginning
  - step: start   # first
    # what is called
    tool: {kind: noop}   # cheap
    # where it leads
    next: b   # onward

  # the second one
  - step: b
    # only one
    next: end
    # after everything in b
# at the foot
"""
    )

    assert migrated(text).text == (
        "# at the top\n"
        + HEAD.replace("/v2", "/v10")
        + """
workflow:
  # the beginning
  - step: start   # first
    # what is called
    tool: {kind: noop}   # cheap
    # where it leads
    next: { arcs: [{ step: b }] }  # onward

  # the second one
  - step: b
    # only one
    next: { arcs: [{ step: end }] }
    # after everything in b
  - step: end
# at the foot
"""
    )


@pytest.mark.req("MIG-01")
def test_comments_at_the_end_of_a_block_stay_in_it_with_the_blank_line_below() -> None:
    text = HEAD + dedent("""\
        workflow:
          - step: start
            next:
              - step: b
                args: { n: 1 }

                # the last word of start
          - step: b
        """)

    lines = migrated(text).text.splitlines()

    below = lines[lines.index("        # the last word of start") + 1 :]
    assert below[:2] == ["", "  - step: b"]


@pytest.mark.req("MIG-01")
def test_code_is_moved_but_not_rewritten() -> None:
    text = (
        HEAD
        + """workflow:
  - step: start
    tool:
      - go:
          kind: python
          code: |
            text = "{{ vars.x }}"   # not a template

              # deeper
            result = text
          eval: [{else: {do: continue, set_vars: {x: 1}}}]
"""
    )

    new = migrated(text).text

    assert document(new)["workflow"][0]["tool"][0]["code"] == document(text)["workflow"][0]["tool"][0]["go"]["code"]


@pytest.mark.req("MIG-01")
def test_line_endings_of_other_systems_are_kept() -> None:
    text = (HEAD + "workflow:\n  - step: start\n    next: end   # go\n").replace("\n", "\r\n")

    new = migrated(text).text

    assert new.count("\n") == new.count("\r\n")
    assert document(new.replace("\r\n", "\n"))["workflow"][0]["next"] == {"arcs": [{"step": "end"}]}


@pytest.mark.req("MIG-01")
def test_aliases_are_expanded_and_noted() -> None:
    text = (
        HEAD
        + "workflow:\n  - step: start\n    tool: &t {kind: noop}\n    next: b\n  - {step: b, tool: *t, next: end}\n"
    )

    migration = migrated(text)

    assert "*t" not in migration.text
    assert [note.message for note in migration.notes] == ["anchors and aliases are written out"]
    assert document(migration.text)["workflow"][1]["tool"] == {"kind": "noop"}


@pytest.mark.req("MIG-01")
@pytest.mark.parametrize("items", ["[&a {x: 1}, *a, 2]", "[[&a 1, 2], *a]", "[&a [1], {b: *a}]", "[&a t, *a]"])
def test_aliases_in_lists_are_expanded_too(items: str) -> None:
    text = f"{HEAD}workload: {{items: {items}}}\nworkflow: [{{step: start, next: [{{step: end}}]}}, {{step: end}}]\n"

    assert document(migrated(text).text)["workload"] == document(text)["workload"]


@pytest.mark.req("MIG-02")
@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("{{ vars.x }}", "{{ ctx.x }}"),
        ("{{vars.x}} and {{ vars['y'] }}", "{{ctx.x}} and {{ ctx['y'] }}"),
        ("{{ a.vars.x }}", "{{ a.vars.x }}"),
        ("{{ 'vars.x' }}", "{{ 'vars.x' }}"),
        ("{{ x | default(vars) }}", "{{ x | default(ctx) }}"),
        ("{{ dict(vars=1) }}", "{{ dict(vars=1) }}"),
        ("{{ page.data.n }}", "{{ call.result.n }}"),
        ("{{ page }}", "{{ call }}"),
        ("{% if vars.x %}a{% endif %}", "{% if ctx.x %}a{% endif %}"),
        ("vars.x", "vars.x"),
        ("{{ vars.x ? }}", None),
    ],
)
def test_names_are_replaced_token_by_token(text: str, changed: str | None) -> None:
    assert renamed(text, {"vars": "ctx", "page": "call", "page.data": "call.result"}) == changed


@pytest.mark.req("MIG-02")
def test_a_template_with_escaped_quotes_is_rewritten() -> None:
    text = HEAD + 'workflow:\n  - {step: start, tool: {kind: http, url: "{{ vars[\\"x\\"] }}"}, next: end}\n'

    assert document(migrated(text).text)["workflow"][0]["tool"]["url"] == '{{ ctx["x"] }}'


def test_expressions_and_paths_are_distinguished() -> None:
    assert expression(" {{ a.b == 1 }} ") == "a.b == 1"
    assert expression("{{ a }}{{ b }}") is None
    assert expression("text {{ a }}") is None
    assert paths("{{ a.b | default(c.d.e) }} {{ f(x=g) }}") == [("a", "b"), ("c", "d", "e"), ("f",), ("g",)]


@settings(deadline=None)
@given(st.text(alphabet="{}%# \"'ab.|()[]=\n", max_size=40))
def test_text_without_renames_is_unchanged(text: str) -> None:
    found = tokens(text)

    assert renamed(text, {}) in (text, None)
    if found is not None:
        assert "".join(token.text for token in found) == text


@pytest.mark.req("MIG-03")
def test_a_block_under_a_new_key_keeps_its_layout() -> None:
    text = HEAD + dedent("""\
        workflow:
          - step: start
            loop:
              collection:
                  - a: 1
                    b: 2
                  - a: 3
              element: x
            tool: { kind: noop }
            next: end
        """)

    assert document(migrated(text).text)["workflow"][0]["loop"]["in"] == [{"a": 1, "b": 2}, {"a": 3}]
