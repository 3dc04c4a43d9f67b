"""The certificate as a whole: fixtures are proved silently, places are found, it is JSON, and it is quick."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from noetl.base.diagnostics import Source, Span
from noetl.language.checking import check
from noetl.language.drawing.text_forms import findings_dot
from noetl.language.proving.certificate import Certificate, analyse
from noetl.net.debug import Origin, step_address
from noetl.net.net import Net, content_hash
from noetl.net.routing import Action, Case, CaseRule
from noetl.templates.expression import parse
from noetl.templates.values import Authored
from noetl.tools.kinds import KINDS
from tests.language.proving.nets import arc, net, step
from tests.work_counting import count_calls

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*.yaml"))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
@pytest.mark.req("ADV-06")
def test_fixtures_have_no_findings(path: Path) -> None:
    certificate = check(Source(path.name, path.read_text()), kinds=KINDS, extensions=True).certificate

    assert certificate is not None
    assert certificate.verdict == "sound"
    assert certificate.findings == ()


@pytest.mark.req("ADV-06")
def test_the_pagination_of_the_long_example_is_proved_to_end() -> None:
    text = (FIXTURES[0].parent / "F-004-H.yaml").read_text()

    certificate = check(Source("F-004-H.yaml", text), kinds=KINDS).certificate

    assert certificate is not None
    assert [reason.why for reason in certificate.reasons] == ["iter.has_more changes in the cycle"]


@pytest.mark.req("ADV-06")
def test_findings_are_placed_at_the_source_of_the_step() -> None:
    span = Span(7, 11, 7, 17)

    certificate = analyse(
        net(step("start"), step("lonely")), {step_address("lonely"): Origin("workflow[1].step", span)}
    )

    assert [(finding.path, finding.span) for finding in certificate.findings] == [("workflow[1].step", span)]


@pytest.mark.req("ADV-06")
def test_a_certificate_is_json_and_names_its_net() -> None:
    lonely = net(step("start", arc("a")), step("a", arc("a")), step("lonely"))

    certificate = analyse(lonely, {})

    assert certificate.hash == content_hash(lonely)
    assert msgspec.json.decode(msgspec.json.encode(certificate), type=Certificate) == certificate


@pytest.mark.req("ADV-06")
def test_the_drawing_colours_the_findings() -> None:
    drawn = net(step("start", arc("a"), arc("b", "{{ false }}")), step("a"), step("b"), step('q"uote'))

    text = findings_dot(drawn, analyse(drawn, {}))

    assert text.startswith("digraph playbook {")
    assert '"b" [label="b\\nW_UNREACHABLE", color="#c0392b"' in text
    assert '"q\\"uote"' in text
    assert '"a" [label="a"];' in text


def transition(target: str) -> Action:
    return Action(transition=(arc(target),))


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ((CaseRule(when=Authored("{{ event.name == 'call.done' }}"), actions=(transition("z"),)),), ["W_UNREACHABLE"]),
        (
            (CaseRule(when=Authored("{{ event.name == 'call.done' and response.ok }}"), actions=(transition("z"),)),),
            [],
        ),
        (
            (
                CaseRule(when=Authored("{{ workload.a }}"), actions=(transition("z"),)),
                CaseRule(actions=(transition("z"),)),
            ),
            ["W_UNREACHABLE"],
        ),
    ],
)
@pytest.mark.req("ADV-06", "V2C-04")
def test_the_next_shortcut_is_taken_only_when_no_case_rule_has_decided(
    rules: tuple[CaseRule, ...], found: list[str]
) -> None:
    cased = net(step("start", arc("y"), fork=True, case=Case(rules=rules)), step("y"), step("z"), dialect="v2-case")

    assert [finding.code for finding in analyse(cased, {}).findings] == found


@pytest.mark.req("ADV-06", "C-40")
def test_the_implicit_end_of_v2_case_is_not_reported() -> None:
    certificate = analyse(net(step("start", arc("end")), dialect="v2-case"), {})

    assert certificate.verdict == "sound"
    assert certificate.statistics.steps == 1


def wide(branches: int) -> Net:
    names = [f"b{i}" for i in range(branches)]
    return net(
        step("start", *(arc(name) for name in names), fork=True),
        *(step(name, arc("merge")) for name in names),
        step("merge", join="all"),
    )


def nested(depth: int) -> Net:
    """Forks inside forks, each with its own join."""
    steps = []
    for level in range(depth):
        inner = f"f{level + 1}" if level + 1 < depth else f"y{level}"
        steps.append(step(f"f{level}", arc(f"x{level}"), arc(inner), fork=True))
        steps.append(step(f"x{level}", arc(f"j{level}")))
        steps.append(step(f"j{level}", *([arc(f"j{level - 1}")] if level else []), join="all"))
    return net(*steps, step(f"y{depth - 1}", arc(f"j{depth - 1}")))


def rounds(count: int) -> Net:
    """Fork, choice and join, one after another."""
    steps = []
    for at in range(count):
        steps.append(step(f"f{at}", *(arc(f"{side}{at}") for side in "abc"), fork=True))
        steps += [step(f"{s}{at}", arc(f"j{at}", f"{{{{ workload.{s}{at} }}}}"), arc(f"j{at}")) for s in "abc"]
        steps.append(step(f"j{at}", *([arc(f"f{at + 1}")] if at + 1 < count else []), join="all"))
    return net(*steps)


@pytest.mark.parametrize(
    ("large", "half"),
    [(wide(998), wide(499)), (nested(333), nested(166)), (rounds(200), rounds(100))],
    ids=["wide", "nested", "rounds"],
)
@pytest.mark.req("ADV-06")
def test_checking_a_thousand_steps_takes_about_twice_the_work_of_five_hundred(large: Net, half: Net) -> None:
    """beyond.md §2 says half a second: `make bench` measures that."""
    parse.cache_clear()  # the guards of the one are not to be known from the other
    _, fewer = count_calls(lambda: analyse(half, {}))
    parse.cache_clear()
    certificate, calls = count_calls(lambda: analyse(large, {}))

    assert certificate.verdict == "sound"
    assert certificate.statistics.steps >= 999
    assert calls < 2.5 * fewer
    assert calls < 1_500_000


@pytest.mark.req("ADV-06")
def test_a_fork_of_forty_guarded_branches_is_checked_in_bounded_work() -> None:
    """2 to the 40 sets of branches; the members are taken one after another instead."""
    names = [f"b{i}" for i in range(40)]
    optional = net(
        step("start", *(arc(name, f"{{{{ workload.{name} }}}}") for name in names), fork=True),
        *(step(name, arc("merge"), arc("aside", "{{ event.name == 'step.failed' }}")) for name in names),
        step("merge", join=2),
        step("aside"),
    )

    certificate = analyse(optional, {})

    assert [finding.code for finding in certificate.findings] == ["W_JOIN_UNFILLED"]
    assert certificate.statistics.combinations < 5_000
