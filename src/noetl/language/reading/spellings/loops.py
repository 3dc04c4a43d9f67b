"""Loops in other words: keys beside `spec`, `collection` and `element`, `concurrency`, the mode `async`."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.spellings.model import (
    EVERYWHERE,
    V2_CASE,
    V2_EVAL,
    V10,
    Rewriting,
    Spelling,
    Where,
    renames,
)
from noetl.language.reading.spellings.trees import made_text, moved_into, with_key, with_value

_PARALLEL_WORDS = ("async", "concurrent", "asynchronous")
_OPTIONS = {"mode": "mode", "max_in_flight": "max_in_flight", "batch_size": "max_in_flight", "policy": "policy"}
_BOUNDS = ("concurrency", "max_concurrency", "max_parallel")


def _move_options(node: Mapping, rewriting: Rewriting) -> Mapping:
    for key, name in _OPTIONS.items():
        if key in node and not _is_option(node, name):
            rewriting.note(node.keys[key], f"loop.{key}", f"loop.spec.{name}")
            node = moved_into(node, "spec", key, name)
    return node


def _rename_batch_size(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    if isinstance(spec, Mapping):
        node = with_value(node, "spec", renames("a loop's spec", {"batch_size": "max_in_flight"})(spec, rewriting))
    return node


def _read_bound(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A loop that says how many iterations run at once means that several do."""
    name = "batch_size" if rewriting.dialect is V2_CASE else "max_in_flight"
    for key in _BOUNDS:
        spec = node.get("spec")
        outside, inside = key in node, isinstance(spec, Mapping) and key in spec
        if not (outside or inside) or _is_option(node, name):
            continue
        place = node.keys[key] if outside or not isinstance(spec, Mapping) else spec.keys[key]
        rewriting.note(place, f'"{key}" of a loop', f"loop.spec.{name}")
        if outside:
            node = moved_into(node, "spec", key, name)
        elif isinstance(spec, Mapping):
            node = with_value(node, "spec", with_key(spec, key, name))
        node = _with_parallel(node, place)
    return node


def _with_parallel(node: Mapping, place: Scalar) -> Mapping:
    spec = node.get("spec")
    if "mode" in node or not isinstance(spec, Mapping) or "mode" in spec:
        return node
    return with_value(node, "spec", with_value(spec, "mode", made_text("parallel", place), place))


def _is_option(node: Mapping, key: str) -> bool:
    spec = node.get("spec")
    return isinstance(spec, Mapping) and key in spec


def _name_parallel(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    if isinstance(spec, Mapping):
        node = with_value(node, "spec", _parallel_word(spec, rewriting))
    return _parallel_word(node, rewriting)


def _parallel_word(node: Mapping, rewriting: Rewriting) -> Mapping:
    mode = node.get("mode")
    if isinstance(mode, Scalar) and mode.value in _PARALLEL_WORDS:
        rewriting.note(mode, f"the mode {mode.value} of a loop", "parallel")
        return with_value(node, "mode", made_text("parallel", mode))
    return node


_NAMES = {"collection": "in", "element": "iterator"}

SPELLINGS = (
    Spelling(
        id="loop-collection",
        where=Where.LOOP,
        older="`loop.collection`, `loop.element`",
        canonical="`loop.in`, `loop.iterator`",
        dialects=(V10, V2_EVAL),
        before="""
- step: start
  loop: {collection: [1, 2], element: n}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        after="""
- step: start
  loop: {in: [1, 2], iterator: n}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        rewrite=renames("a loop", _NAMES),
    ),
    Spelling(
        id="loop-options",
        where=Where.LOOP,
        older="`loop.mode`, `loop.max_in_flight`, `loop.policy`",
        canonical="the same under `loop.spec`",
        dialects=(V10, V2_EVAL),
        before="""
- step: start
  loop: {in: [1, 2], iterator: n, mode: parallel, max_in_flight: 2}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        after="""
- step: start
  loop: {in: [1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        rewrite=_move_options,
    ),
    Spelling(
        id="loop-batch-size",
        where=Where.LOOP,
        older="`loop.spec.batch_size`",
        canonical="`loop.spec.max_in_flight`",
        dialects=(V10, V2_EVAL),
        before="""
- step: start
  loop: {in: [1, 2], iterator: n, spec: {mode: parallel, batch_size: 2}}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        after="""
- step: start
  loop: {in: [1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        rewrite=_rename_batch_size,
    ),
    Spelling(
        id="loop-concurrency",
        where=Where.LOOP,
        older="`loop.concurrency`, `max_concurrency`, `max_parallel`",
        canonical="`loop.spec: {mode: parallel, max_in_flight: …}`",
        dialects=EVERYWHERE,
        before="""
- step: start
  loop: {in: [1, 2], iterator: n, concurrency: 2}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        after="""
- step: start
  loop: {in: [1, 2], iterator: n, spec: {max_in_flight: 2, mode: parallel}}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        rewrite=_read_bound,
    ),
    Spelling(
        id="loop-mode-async",
        where=Where.LOOP,
        older="`loop.spec.mode: async`",
        canonical="`loop.spec.mode: parallel`",
        dialects=EVERYWHERE,
        before="""
- step: start
  loop: {in: [1, 2], iterator: n, spec: {mode: async}}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        after="""
- step: start
  loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
  tool: {kind: noop, args: {n: "{{ iter.n }}"}}
""",
        rewrite=_name_parallel,
    ),
)
