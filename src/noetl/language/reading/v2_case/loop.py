"""Loops of v2-case, in both its spellings: `in`, `iterator`, `mode`; or `collection`, `element`, `spec` (V2C-22)."""

from __future__ import annotations

from noetl.language.grammar.steps import LOOP, LOOP_SPEC
from noetl.language.reading.loops import FILTERS
from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.numbers import count
from noetl.language.reading.playbook import LoopSyntax
from noetl.language.reading.shared_checks import ReadContext, check_keys, choice, mapping, opening, option, text
from noetl.language.reading.v2_case.options import read_options

_FORM = "write loop: {in: …, iterator: …}, or loop: {collection: …, element: …}"
_ENDED = "v2-case has no early end of a loop: migrate, and write loop.spec.complete_when in v10"
_FILTERS = FILTERS | dict.fromkeys(("until", "while", "break_when", "stop_when"), _ENDED)
_MODES = LOOP_SPEC["mode"].words


def read_loop(reading: ReadContext, node: Node | None) -> LoopSyntax | None:
    block = mapping(reading, node, "E_LOOP_SHAPE", "loop", _FORM)
    if block is None:
        return None
    check_keys(reading, block, LOOP, "E_LOOP_SHAPE", elsewhere=_FILTERS)
    _refuse_mixture(reading, block)
    spec = read_options(reading, block, "loop")
    mode = _mode(reading, block, spec)
    items = block.get("in" if "in" in block else "collection")  # an empty list is false, and a collection
    name = block.get("iterator") or block.get("element")
    iterator = text(reading, name, "E_LOOP_SHAPE", "a loop's iterator", "write the name each element gets")
    if items is None or name is None:
        reading.error("E_LOOP_SHAPE", opening(block), "loop needs both in and iterator", _FORM)
    inner = read_loop(reading, block.get("loop"))
    in_flight = _in_flight(reading, spec)
    on_error = choice(reading, option(spec, "on_error"), LOOP_SPEC["on_error"].words, "E_SPEC_OPTION", "on_error")
    if items is None or iterator is None:
        return None
    return LoopSyntax(
        node=block,
        items=items,
        iterator=iterator,
        spec=spec,
        mode=mode,
        max_in_flight=in_flight,
        on_error=on_error,
        inner=inner,
    )


def _refuse_mixture(reading: ReadContext, block: Mapping) -> None:
    """One loop keeps to one spelling; `spec` goes with either."""
    older = [key for key in ("in", "iterator", "mode") if key in block]
    newer = [key for key in ("collection", "element") if key in block]
    if older and newer:
        message = f'"{newer[0]}" and "{older[0]}" are of two spellings'
        hint = f"keep to one: {_FORM.removeprefix('write ')}"
        if older == ["mode"]:
            hint = "with collection and element, mode goes under spec"
        reading.error("E_LOOP_SHAPE", block.keys[newer[0]], message, hint)


def _mode(reading: ReadContext, block: Mapping, spec: Mapping | None) -> str:
    outer = choice(reading, block.get("mode"), _MODES, "E_LOOP_MODE", "a loop's mode")
    inner = choice(reading, option(spec, "mode"), _MODES, "E_LOOP_MODE", "a loop's mode")
    if outer and inner and outer != inner:
        message = f'this loop\'s mode is "{outer}" here and "{inner}" under spec'
        reading.error("E_LOOP_MODE", block.keys["mode"], message, "keep one of them")
    return outer or inner or "sequential"


def _in_flight(reading: ReadContext, spec: Mapping | None) -> Node | None:
    """`batch_size`: iterations in flight, not chunks; v10's word for it is understood too."""
    if spec is None:
        return None
    if "max_in_flight" in spec:
        key: Scalar = spec.keys["max_in_flight"]
        if "batch_size" in spec:
            reading.error("E_SPEC_OPTION", key, "max_in_flight and batch_size are one thing", "keep batch_size")
        else:
            reading.error("I_ALIAS", key, "max_in_flight is the v10 word", "this dialect writes batch_size")
    name = "batch_size" if "batch_size" in spec else "max_in_flight"
    return count(reading, spec.get(name), "E_SPEC_OPTION", name)
