"""Drawings in their languages: whole, escaped, and the same on every run."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from noetl.language.drawing.drawing import draw
from noetl.language.drawing.svg import svg
from noetl.language.drawing.text_forms import dot, ladder, mermaid
from noetl.net.net import Net
from noetl.net.routing import Join, Mode
from noetl.net.task import Task
from tests.language.drawing.nets import guard, net, step, thirty

JOIN = net(
    step("start", "a", "b", mode=Mode.INCLUSIVE),
    step("a", "merge", tasks=(Task(name="a_task", kind="python"),)),
    step("b", "merge", ("b", "ctx.again")),
    step("merge", join=Join()),
    name="join",
)
HOSTILE = net(
    step("start", ('</text><script>alert("x")</script>', "a < b & 'c' > \"d\"")),
    step('</text><script>alert("x")</script>', tasks=(Task(name="a|b`#\\", kind="http\x1b[31m"),)),
    name='<b>"bold"</b>\n%% & more',
)


def test_text_shows_branches_and_where_they_join() -> None:
    assert ladder(draw(JOIN)) == (
        "join\n"
        "tests/drawn · v10\n"
        "\n"
        "start\n"
        "│  ∥ fork: all ways at once\n"
        "├─ → a\n"
        "│  │  python\n"
        "│  └─ → merge ↓\n"
        "└─ → b\n"
        "   ├─ → merge ↓\n"
        "   └─ ctx.again → b ↑\n"
        "\n"
        "merge\n"
        "   ⋈ join: all branches\n"
    )


def test_text_lists_unreachable_steps() -> None:
    shown = ladder(draw(net(step("start"), step("lost", "start"))))

    assert shown.endswith("start\n\nnever reached:\nlost\n└─ → start ↑\n")


def test_a_long_chain_stays_in_one_column() -> None:
    """Indentation grows with nesting, not with length, and no recursion limit is met."""
    chain = net(*(step(f"s{number}", f"s{number + 1}") for number in range(3000)), step("s3000"))

    shown = ladder(draw(chain)).splitlines()

    assert shown[-1] == "s3000"
    assert max(len(line) for line in shown) < 20


@pytest.mark.parametrize("drawn", [JOIN, HOSTILE, thirty()], ids=["join", "hostile", "thirty"])
def test_svg_is_self_contained_xml(drawn: Net) -> None:
    picture = svg(draw(drawn))
    root = ElementTree.fromstring(picture)

    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {element.tag.split("}")[1] for element in root.iter()} <= {
        *("svg", "title", "style", "rect", "text", "g", "path", "polygon", "line")
    }
    assert "href" not in picture
    assert "url(" not in picture
    assert "prefers-color-scheme: dark" in picture


def test_svg_shows_every_name_and_label_as_text() -> None:
    root = ElementTree.fromstring(svg(draw(HOSTILE)))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]

    assert '</text><script>alert("x")</script>' in texts
    assert "a < b & 'c' > \"d\"" in texts
    assert "http\ufffd[31m" in texts


def test_a_truncated_label_has_its_full_text_in_the_title() -> None:
    long = "event.result.score > 0.9 and event.result.amount > 1000 and ctx.limit"
    drawn = draw(net(step("start", ("end", long)), step("end")))

    assert drawn.ways[0].label.endswith("…")
    assert f"<title>{long.replace('>', '&gt;')}</title>" in svg(drawn)
    assert guard(long) is not None


def test_mermaid_escapes_special_characters() -> None:
    text = mermaid(draw(HOSTILE))

    assert "<script>" not in text
    assert text.count("\n") == len(text.splitlines())
    assert "s0 -->|" in text
    assert '"]' in text or '"])' in text
    assert text.startswith("---\ntitle: '")


def test_mermaid_styles_failure_arcs() -> None:
    text = mermaid(draw(net(step("start", "a", ("b", "event.name == 'step.failed'")), step("a"), step("b"))))

    assert 's0 -.->|"step.failed"| s2' in text
    assert "linkStyle 1" in text


def test_dot_escapes_quotes_and_breaks() -> None:
    text = dot(draw(HOSTILE))

    assert 'alert(\\"x\\")' in text
    assert "a|b`#\\\\" in text
    assert len(text.splitlines()) == 4 + 2 + 1 + 1


@pytest.mark.parametrize("write", [svg, ladder, mermaid, dot])
def test_drawing_is_deterministic(write: object) -> None:
    assert callable(write)
    assert write(draw(thirty())) == write(draw(thirty()))
