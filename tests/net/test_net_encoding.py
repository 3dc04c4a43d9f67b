"""Nets as JSON and their hash (design.md §3, beyond.md §2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.base.diagnostics import Findings, Source
from noetl.language.compiling.compiler import compile_playbook
from noetl.language.reading.reader import read_playbook
from noetl.net.dump import dump
from noetl.net.net import Net, content_hash, from_json, to_json
from noetl.tools.kinds import KINDS

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").glob("*.yaml"))


def net_of(text: str) -> Net:
    findings = Findings()
    playbook = read_playbook(Source("t.yaml", text), findings, kinds=KINDS)
    assert playbook is not None
    net = compile_playbook(playbook, KINDS, findings).net
    assert net is not None
    return net


PLAIN = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: a, path: t/a }
workflow:
  - step: start
    tool: { kind: http, url: "http://x", params: { p: 1, q: 2 } }
    next: { arcs: [{ step: end, args: { n: 1 } }] }
  - step: end
"""
REARRANGED = """# a comment
kind: Playbook
apiVersion: noetl.io/v10
workflow:

  - next:
      arcs:
        - args: { n: 1 }
          step: end   # another
    tool:
      params:
        q: 2
        p: 1
      url: http://x
      kind: http
    step: start
  - step: end
metadata: { path: t/a, name: a }
"""


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_net_survives_json(path: Path) -> None:
    net = net_of(path.read_text())

    assert from_json(to_json(net)) == net
    assert content_hash(from_json(to_json(net))) == content_hash(net)


def test_the_hash_ignores_comments_layout_and_the_order_of_keys() -> None:
    assert content_hash(net_of(PLAIN)) == content_hash(net_of(REARRANGED))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("p: 1", "p: 3"),
        ("http://x", "http://y"),
        ("args: { n: 1 }", "args: { n: '1' }"),
        ("step: end\n", "step: end\n    desc: x\n"),
    ],
)
def test_the_hash_depends_on_every_change_of_meaning(before: str, after: str) -> None:
    assert content_hash(net_of(PLAIN)) != content_hash(net_of(PLAIN.replace(before, after)))


@pytest.mark.req("LOOP-12")
def test_json_keeps_the_order_of_mappings() -> None:
    net = net_of(PLAIN.replace("workflow:", "workload: { m: { z: 1, a: 2 } }\nworkflow:"))

    assert list(from_json(to_json(net)).workload["m"]) == ["z", "a"]


def test_a_dump_omits_defaults_and_keeps_multi_line_text_readable() -> None:
    text = dump(
        net_of(
            PLAIN.replace('kind: http, url: "http://x", params: { p: 1, q: 2 }', 'kind: python, code: "a = 1\\nb = 2"')
        )
    )

    assert "verbatim:\n          code: |-\n            a = 1\n            b = 2\n" in text
    assert "lease" not in text
    assert "null" not in text


def test_a_dump_quotes_ambiguous_text() -> None:
    text = dump(net_of(PLAIN.replace("p: 1, q: 2", 'p: "1", q: "true", r: "a: b", s: plain words')))

    assert 'p: "1", q: "true", r: "a: b", s: plain words' in text
