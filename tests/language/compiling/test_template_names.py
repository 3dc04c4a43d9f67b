"""Completion of templates: what it offers at a place is what the checks of names let pass there (TPL-03, TPL-05)."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.language.compiling.template_names import template_names
from noetl.templates.scope import RESERVED
from noetl.tools.kinds import KINDS
from tests.engine_script import playbook

TEXT = playbook(
    """\
    workload: {url: x, day: 1}
    keychain: [{name: shop, kind: credential, auth: shop}]
    workflow:
      - step: start
        set_ctx: {seen: "{{ <A> }}"}
        tool: {kind: http, url: "{{ <B> }}"}
        next:
          arcs:
            - step: each
              when: "{{ <C> }}"
              args: {lot: 1}
      - step: each
        loop: {in: "{{ <D> }}", iterator: order}
        tool:
          - name: first
            kind: python
            args: {a: "{{ <E> }}"}
            code: result = a
          - name: second
            kind: python
            code: result = 1
            spec: {policy: {rules: [{when: "{{ <F> }}", then: {do: continue}}, {else: {then: {do: continue}}}]}}
        next: {arcs: [{step: ask}]}
      - step: ask
        human_task: {title: Sure?, form: [{field: decision, type: string}]}
    """
)
PLACES = "ABCDEF"


def text_and_offset(place: str) -> tuple[str, int]:
    text = TEXT.replace(f"<{place}>", "@")
    for other in PLACES:
        text = text.replace(f"<{other}>", "1")
    return text.replace("@", ""), text.index("@")


def names_at(place: str) -> list[str]:
    text, offset = text_and_offset(place)
    return template_names(text, offset, KINDS)


@pytest.mark.req("TPL-05")
@pytest.mark.parametrize("place", PLACES)
def test_completion_offers_exactly_the_names_that_the_checker_accepts(place: str) -> None:
    text, offset = text_and_offset(place)

    def is_right(name: str) -> bool:
        written = text[:offset] + name + text[offset:]
        found = check(Source("a.yaml", written), kinds=KINDS, proofs=False)
        return not {"W_FOREIGN_NAME", "E_UNDEFINED_NAME", "W_KEYCHAIN", "E_KEYCHAIN", "W_ITER_IN_ARC"} & {
            one.code for one in found.diagnostics
        }

    offered = names_at(place)

    assert [name for name in offered if not is_right(name)] == []
    assert [word for word in RESERVED - set(offered) if is_right(word)] == []


def test_completion_depends_on_the_place() -> None:
    assert "start" in names_at("A")
    assert "start" not in names_at("B")
    assert {"event", "event.name", "start"} <= set(names_at("C"))
    assert {"start.status", "start.data", "args.lot", "ctx.seen", "workload.day", "execution_id"} <= set(names_at("D"))
    assert {"order", "iter.order", "keychain.shop", "token", "ask.decision"} <= set(names_at("E"))
    assert not {"first", "second", "each", "outcome", "event"} & set(names_at("E"))
    assert {"outcome.status", "first"} <= set(names_at("F"))


@pytest.mark.parametrize(
    "tail", ["", '"', ' }}"', "}}", '" } }', ' | default(1) }}"\n  - step: more\n    tool: {kind: noop}']
)
@pytest.mark.parametrize("begin", ['    args: { a: "{{ ', '    args:\n      a: "{{ 1 + start.da'])
def test_names_are_offered_while_the_line_is_incomplete(begin: str, tail: str) -> None:
    text = playbook("workflow:\n  - step: start\n    tool: {kind: noop}\n  - step: two\n") + begin
    assert {"start", "workload"} <= set(template_names(text + tail, len(text), KINDS))


def test_nothing_is_offered_where_no_template_is_allowed() -> None:
    text = playbook('workload: {a: "{{ ')
    assert template_names(text, len(text), KINDS) == []
    assert template_names("{{ ", 3, KINDS) == []


@pytest.mark.req("TPL-05")
@pytest.mark.parametrize(
    "rules", ['\n        - when: "{{ outcome.', ' [{ when: "{{ outcome.', '\n        - { when: "{{ outcome.']
)
def test_the_condition_of_a_rule_is_completed_before_the_rule_says_what_to_do(rules: str) -> None:
    text = playbook("workflow:\n  - step: start\n    tool:\n      kind: http\n      url: http://a\n")
    text += f"      spec:\n       policy:\n        rules:{rules}"

    assert {"outcome.status", "outcome.error"} <= set(template_names(text, len(text), KINDS))


RESULTS = playbook(
    """\
    workload: {region: {zone: {id: 1}, name: eu}, day: 1}
    workflow:
      - step: start
        tool:
          kind: python
          code: |
            result = {"greeting": "hi", "two words": 1}
        next: {arcs: [{step: load}]}
      - step: load
        tool: {kind: shell, cmds: echo}
        next: {arcs: [{step: end}]}
      - step: end
        args: {a: "{{ @ }}"}
    """
)


def test_members_of_inputs_and_results_are_offered_where_the_text_tells_them() -> None:
    offered = template_names(RESULTS.replace("@", ""), RESULTS.index("@"), KINDS)

    assert {"workload.region.name", "workload.region.zone.id", "start.greeting", "load.exit_code"} <= set(offered)
    assert [one for one in offered if "two" in one] == []
