"""Data flow: what no path can have set is reported; whatever some path may have set is not."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.language.proving.certificate import analyse
from noetl.net.net import Handler, Handlers, Loop, Transition
from noetl.net.task import Directive, Mutations, Policy, Repeat, Retry, Rule, Task
from noetl.templates.values import Authored
from tests.language.proving.nets import arc, net, step


def reads(template: Any, name: str = "use", **more: Any) -> Task:
    return Task(name=name, kind="python", inputs=Authored({"args": {"x": template}}), **more)


def sets(name: str = "set", **keys: Any) -> Task:
    return Task(name=name, kind="noop", policy=Policy(rules=(Rule(mutations=Mutations(set_ctx=Authored(keys))),)))


def messages(*steps: Transition, **more: Any) -> list[str]:
    return [f.message for f in analyse(net(*steps, **more), {}).findings if f.code == "W_USED_BEFORE_SET"]


@pytest.mark.req("ADV-06")
def test_a_key_that_is_never_set_is_reported_with_the_nearest_one() -> None:
    certificate = analyse(
        net(step("start", arc("b"), tasks=(sets(total=1),)), step("b", tasks=(reads("{{ ctx.totl }}"),))), {}
    )

    [finding] = certificate.findings
    assert finding.code == "W_USED_BEFORE_SET"
    assert finding.message == '"ctx.totl" is read here, but nothing sets it'
    assert finding.hint == 'did you mean "ctx.total"?'


@pytest.mark.req("ADV-06")
def test_a_key_that_only_later_steps_set_is_reported() -> None:
    first = step("start", arc("b"), tasks=(reads("{{ ctx.n }}"),))

    assert messages(first, step("b", tasks=(sets(n=1),))) == ['"ctx.n" is read here, but only later steps set it']


@pytest.mark.parametrize(
    "steps",
    [
        (step("start", arc("b"), tasks=(sets(n=1),)), step("b", tasks=(reads("{{ ctx.n }}"),))),
        (step("start", arc("b"), set_ctx=Authored({"n": 1})), step("b", arc("start", "{{ ctx.n > 3 }}"))),
        (step("start", arc("b"), set_ctx=Authored({"a.b": 1})), step("b", tasks=(reads("{{ ctx.a.b }}"),))),
        # one of two paths sets it
        (
            step("start", arc("a", "{{ workload.x }}"), arc("b")),
            step("a", arc("b"), tasks=(sets(n=1),)),
            step("b", tasks=(reads("{{ ctx.n }}"),)),
        ),
        # a branch beside it may have set it
        (
            step("start", arc("a"), arc("b"), fork=True),
            step("a", tasks=(sets(n=1),)),
            step("b", tasks=(reads("{{ ctx.n }}"),)),
        ),
        # the next round reads what the last one set
        (step("start", arc("start", "{{ ctx.n < 3 }}"), tasks=(reads("{{ ctx.n }}"), sets(n=1))),),
        # defaults and tests
        (step("start", tasks=(reads("{{ ctx.n | default(0) }}"),)),),
        (step("start", tasks=(reads("{{ ctx.n if ctx.n is defined else 1 }}"),)),),
        # a computed key may be any key
        (step("start", arc("b"), set_ctx=Authored({"{{ workload.k }}": 1})), step("b", tasks=(reads("{{ ctx.n }}"),))),
        # a handler may set it at any time
        (
            step(
                "start",
                tasks=(reads("{{ ctx.n }}"),),
                handlers=Handlers(handlers=(Handler(event="x", tasks=(sets(n=1),)),)),
            ),
        ),
        # earlier tasks, earlier attempts and earlier iterations of the same step
        (step("start", tasks=(sets(n=1), reads("{{ ctx.n }}"))),),
        (
            step(
                "start",
                tasks=(
                    reads(
                        "{{ ctx.n }}",
                        policy=Policy(
                            rules=(
                                Rule(
                                    do=Directive.RETRY,
                                    retry=Retry(attempts=Authored(3)),
                                    mutations=Mutations(set_ctx=Authored({"n": 1})),
                                ),
                            )
                        ),
                    ),
                ),
            ),
        ),
        (
            step(
                "start",
                loop=Loop(items=Authored([1]), iterator="i"),
                tasks=(reads("{{ ctx.n }}"), sets(n=1)),
            ),
        ),
    ],
)
@pytest.mark.req("ADV-06")
def test_a_key_that_some_path_may_have_set_is_not_reported(steps: tuple[Transition, ...]) -> None:
    assert messages(*steps) == []


@pytest.mark.req("ADV-06")
def test_a_key_that_only_a_later_task_sets_is_reported() -> None:
    assert len(messages(step("start", tasks=(reads("{{ ctx.n }}"), sets(n=1))))) == 1


@pytest.mark.req("ADV-06", "TOK-05")
@pytest.mark.parametrize(
    ("args", "own", "count"),
    [
        (None, None, 1),
        ({"m": 1}, None, 1),
        ({"n": 1}, None, 0),
        (None, {"n": 1}, 0),
        ("{{ event.result }}", None, 0),  # any key, as far as can be told
    ],
)
def test_args_come_from_the_incoming_arcs(args: Any, own: Any, count: int) -> None:
    first = step("start", arc("b", args=None if args is None else Authored(args)))
    second = step("b", tasks=(reads("{{ args.n }}"),), args=None if own is None else Authored(own))

    assert len(messages(first, second)) == count


@pytest.mark.req("ADV-06", "V2C-25")
def test_args_of_an_arc_with_a_computed_target_can_reach_any_step() -> None:
    computed = arc("", args=Authored({"n": 1}), computed=Authored("{{ event.result.target }}"))

    second = step("b", tasks=(reads("{{ args.n }}"), reads("{{ args.m }}", name="other")))

    assert messages(step("start", computed), second) == ['"args.m" is read here, but no arc passes "m" to step "b"']


@pytest.mark.req("ADV-06", "TOOL-10")
def test_args_of_a_workbook_task_are_its_own() -> None:
    assert messages(step("start", tasks=(reads("{{ args.n }}", args=Authored({"n": 1})),))) == []


@pytest.mark.req("ADV-06")
def test_reading_a_step_result_before_the_step_ran_is_reported() -> None:
    early = messages(step("start", arc("b"), tasks=(reads("{{ b.data }}"),)), step("b"))
    late = messages(step("start", arc("b")), step("b", arc("c", "{{ start.data and b.data }}")), step("c"))

    assert early == ['the result of step "b" is read here, but it cannot have run before']
    assert late == []


@pytest.mark.parametrize(
    "first",
    [
        step("start", arc("b"), tasks=(reads("{{ b }}", "use"), Task(name="b", kind="noop"))),
        step("start", arc("b"), tasks=(reads("{{ b }}"),), loop=Loop(items=Authored([1]), iterator="b")),
    ],
)
@pytest.mark.req("ADV-06", "TPL-06")
def test_a_task_or_iterator_with_the_name_of_a_step_is_not_that_step(first: Transition) -> None:
    assert messages(first, step("b")) == []


@pytest.mark.req("ADV-06")
def test_a_workload_key_with_the_name_of_a_step_is_not_reported() -> None:
    assert messages(step("start", arc("b"), tasks=(reads("{{ b }}"),)), step("b"), workload={"b": 1}) == []


@pytest.mark.req("ADV-06", "V2C-21")
def test_vars_of_a_v2_case_step_are_read_from_the_same_store() -> None:
    fetch = step("start", arc("use"), set_ctx=Authored({"user_id": "{{ result[0].id }}"}), tasks=(Task(
        name="t", kind="postgres", repeat=(Repeat(),)
    ),))  # fmt: skip

    assert messages(fetch, step("use", tasks=(reads("{{ vars.user_id }}"),)), dialect="v2-case") == []
    assert len(messages(fetch, step("use", tasks=(reads("{{ vars.email }}"),)), dialect="v2-case")) == 1
