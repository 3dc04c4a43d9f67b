"""A migration never drops a key: a key that nobody knows, put into any mapping of a playbook of any dialect, is in the
new text, or is named with its place in what the migration says (MIG-06). A text that is refused is not written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl.base.diagnostics import Source
from noetl.language.conversion import Conversion, ConversionOutcome, convert
from tests import quick_yaml
from tests.language.migrating.migrated import FIXTURES, KINDS
from tests.language.migrating.random_playbooks import Playbooks, text_of
from tests.volume import one_in

KEY, VALUE = "zz_rare", "kept_7391"
SOURCES = ("F-001-A", "F-001-B", "F-001-D", "F-002-A", "F-002-D", "F-003-A", "F-000-E", "F-004-H")

V10_IO = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: io, path: tests/io}
workload: {xs: [1, 2]}
workflow:
  - step: start
    input: {n: 1}
    loop: {in: "{{ workload.xs }}", iterator: x, spec: {mode: sequential}}
    tool:
      - name: fetch
        kind: http
        url: u
        input: {id: "{{ x }}"}
        set: {ctx.seen: "{{ output.data.n }}"}
        spec:
          policy:
            rules:
              - when: "{{ output.status == 'error' }}"
                then: {do: retry, attempts: 3, backoff: fixed, delay: 2}
              - else: {then: {do: continue, set: {iter.n: 1}}}
    next: {spec: {mode: exclusive}, arcs: [{step: b, set: {ctx.done: true}, input: {n: 2}}]}
  - step: b
    tool: {kind: noop}
"""


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all mappings of the constructs; what is plain data of the author's own has any keys."""
    if isinstance(node, dict):
        yield path
        for key, value in node.items():
            if key not in ("workload", "keychain", "payload", "headers", "params"):
                yield from places(value, (*path, key))
    elif isinstance(node, list):
        for number, item in enumerate(node):
            yield from places(item, (*path, number))


def with_key(document: dict[str, Any], path: tuple[Any, ...]) -> str:
    """The document with the rare key in the mapping at `path`."""
    changed: Any = quick_yaml.loaded(text_of(document))
    node = changed
    for part in path:
        node = node[part]
    node[KEY] = VALUE
    return text_of(changed)


def is_reported(done: Conversion, path: tuple[Any, ...]) -> bool:
    """Whether the migration names the key, or says that something around it needs a person."""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    around = [note for note in done.blocked if place.startswith(note.path)]
    return bool(around) or any(KEY in note.message for note in (*done.notes, *done.blocked))


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in SOURCES:
        yield name, quick_yaml.loaded((FIXTURES / f"{name}.yaml").read_text())
    yield "v10-io", quick_yaml.loaded(V10_IO)
    for seed in range(2):
        yield f"v2-case {seed}", Playbooks(seed).document("v2-case", usual=False)
        yield f"v2-eval {seed}", Playbooks(seed).document("v2-eval")


@pytest.mark.req("MIG-06")
@pytest.mark.parametrize(("name", "document"), list(documents()), ids=[name for name, _ in documents()])
def test_an_unknown_key_is_kept_or_reported(name: str, document: dict[str, Any]) -> None:
    lost = []
    for path in one_in(3, list(places(document)), first=len(name)):  # another third in each document
        done = convert(Source("test.yaml", with_key(document, path)), kinds=KINDS, extensions=True)
        is_kept = done.outcome is ConversionOutcome.REFUSED or VALUE in (
            done.text or ""
        )  # refused: the file stays as it is
        if not is_kept and not is_reported(done, path):
            lost.append((path, done.outcome.value))

    assert lost == []
