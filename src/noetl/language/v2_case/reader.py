"""The reader of v2-case: `tool`, `case`, `retry`, `sink`, `vars` and a plain `next` (V2C-01…27).

From nodes to a `Playbook` of that dialect; nothing is lowered here. How the events of a step meet its rules is the
compiler's and the engine's business.
"""

from __future__ import annotations

from noetl.language.grammar.steps import LOOP, LOOP_SPEC, STEP, STEP_SPEC
from noetl.language.grammar.waits import WAITS
from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.playbook import CaseOptions, LoopSyntax, Playbook, StepSyntax
from noetl.language.reading.policy_keys import check_step_options
from noetl.language.reading.root import read_root
from noetl.language.reading.shared_checks import (
    ReadContext,
    check_keys,
    choice,
    count,
    mapping,
    opening,
    option,
    plain_text,
    text,
)
from noetl.language.reading.steps import ELSEWHERE, FILTERS, read_result
from noetl.language.reading.waits import read_wait_blocks
from noetl.language.v2_case.rules import read_case, read_shortcut
from noetl.language.v2_case.tools import read_labelled_tasks, read_options, read_retry, read_sink, read_tool

# Every step needs at least one of these (VAL-05).
STEP_CONTENT = ("tool", "next", "case", *WAITS)
_MOVED = {**ELSEWHERE, "save": "write sink: {tool: {kind: postgres, auth: …, table: …}, args: {…}}"}
_REFUSED = {
    "when": ("E_STEP_KEY", "a v2-case step has no when", "put the condition in the case of the step before"),
    "eval": ("E_EVAL", "eval belongs to another dialect", "write the condition in case or retry"),
    "pipe": ("E_PIPE", "pipe does not exist", "name the tasks one after another in a case rule's then list"),
}
_LOOP_FORM = "write loop: {in: …, iterator: …}, or loop: {collection: …, element: …}"
_ENDED = "v2-case has no early end of a loop: migrate, and write loop.spec.complete_when in v10"
_FILTERS = FILTERS | dict.fromkeys(("until", "while", "break_when", "stop_when"), _ENDED)
_MODES = LOOP_SPEC["mode"].words


def read_v2_case(root: Mapping, reading: ReadContext) -> Playbook | None:
    """The whole document; mistakes are noted in `reading`, and valid parts are kept."""
    return read_root(root, reading, _step, read_tool, lifted_identity=True)


def _step(reading: ReadContext, node: Mapping, name: Scalar) -> StepSyntax:
    check_keys(reading, node, STEP, "E_STEP_KEY", handled=tuple(_REFUSED), elsewhere=_MOVED)
    for key, (code, message, hint) in _REFUSED.items():
        if key in node:
            reading.error(code, node.keys[key], message, hint)
    _refuse_empty(reading, node, name)
    spec = read_options(reading, node, "step")
    check_step_options(reading, spec)
    options = _case_options(reading, spec)
    tool = read_tool(reading, node.values["tool"]) if "tool" in node else None
    return StepSyntax(
        node=node,
        name=str(name.value),
        name_node=name,
        desc=plain_text(reading, node.get("desc"), "E_STEP_KEY", "desc"),
        spec=spec,
        args=_block(reading, node, "args"),
        set_ctx=_block(reading, node, "set_ctx"),
        result=read_result(reading, node, spec),
        loop=read_loop(reading, node.get("loop")),
        tasks=(tool,) if tool is not None else (),
        single=tool is not None,
        router=read_shortcut(reading, node.get("next")),
        case=read_case(reading, node.get("case")),
        options=options,
        retry=read_retry(reading, node.get("retry")),
        sink=read_sink(reading, node.values["sink"]) if "sink" in node else None,
        vars=_block(reading, node, "vars"),
        blocks=read_wait_blocks(reading, node, read_labelled_tasks),
    )


def _block(reading: ReadContext, node: Mapping, key: str) -> Mapping | None:
    return mapping(reading, node.get(key), "E_STEP_KEY", key, f"write {key}: {{name: value}}")


def _refuse_empty(reading: ReadContext, node: Mapping, name: Scalar) -> None:
    """A step that does nothing and leads nowhere is a slip, unless it is the end (VAL-05, C-29)."""
    if name.value == "end" or any(is_written(node.get(key)) for key in STEP_CONTENT):
        return
    reading.error(
        "E_STEP_EMPTY",
        name,
        f'the step "{name.value}" has none of tool, next, case or a wait block',
        "add one of them, or lead to end instead",
    )


def is_written(node: Node | None) -> bool:
    """Whether a key is there and says something."""
    return node is not None and not (isinstance(node, Scalar) and node.value is None)


def _case_options(reading: ReadContext, spec: Mapping | None) -> CaseOptions:
    """The step's own options: how cases are chosen, on which events, and whether errors are fatal."""
    if spec is None:
        return CaseOptions()
    case_mode = choice(reading, spec.get("case_mode"), STEP_SPEC["case_mode"].words, "E_SPEC_OPTION", "case_mode")
    eval_mode = choice(reading, spec.get("eval_mode"), STEP_SPEC["eval_mode"].words, "E_SPEC_OPTION", "eval_mode")
    on_error = choice(reading, spec.get("on_error"), STEP_SPEC["on_error"].words, "E_SPEC_OPTION", "on_error")
    return CaseOptions(case_mode=case_mode or "exclusive", eval_mode=eval_mode or "on_entry", on_error=on_error)


def read_loop(reading: ReadContext, node: Node | None) -> LoopSyntax | None:
    """In both spellings: `in`, `iterator`, `mode`; or `collection`, `element`, `spec` (V2C-22)."""
    block = mapping(reading, node, "E_LOOP_SHAPE", "loop", _LOOP_FORM)
    if block is None:
        return None
    check_keys(reading, block, LOOP, "E_LOOP_SHAPE", elsewhere=_FILTERS)
    _refuse_mixture(reading, block)
    spec = read_options(reading, block, "loop")
    mode = _mode(reading, block, spec)
    # Not `get("in") or …`: an empty list is false, yet a valid collection.
    items = block.get("in" if "in" in block else "collection")
    name = block.get("iterator") or block.get("element")
    iterator = text(reading, name, "E_LOOP_SHAPE", "a loop's iterator", "write the name each element gets")
    if items is None or name is None:
        reading.error("E_LOOP_SHAPE", opening(block), "loop needs both in and iterator", _LOOP_FORM)
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
        hint = f"keep to one: {_LOOP_FORM.removeprefix('write ')}"
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
