"""Other spellings of loops: keys beside `spec`, `collection` and `element`, `concurrency`, the mode `async`."""

from __future__ import annotations

from noetl.base.diagnostics import is_template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.nodes import inner as inner_node
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.casing import with_snake_keys
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where

_PARALLEL_WORDS = ("async", "concurrent", "asynchronous")
_OPTIONS = {"mode": "mode", "max_in_flight": "max_in_flight", "batch_size": "max_in_flight", "policy": "policy"}
_BOUNDS = ("concurrency", "max_concurrency", "max_concurrent", "max_parallel", "concurrency_limit", "max_workers")


def _move_options(node: Mapping, rewriting: Rewriting) -> Mapping:
    for key, name in _OPTIONS.items():
        if key in node and not _is_option(node, name):
            rewriting.note(node.keys[key], f"loop.{key}", f"loop.spec.{name}")
            node = model.moved_into(node, "spec", key, name)
    return node


def _rename_batch_size(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    if isinstance(spec, Mapping):
        node = model.with_value(
            node, "spec", model.renames("a loop's spec", {"batch_size": "max_in_flight"})(spec, rewriting)
        )
    return node


def _read_bound(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A loop that limits the iterations that run at once is parallel."""
    # v2-case has another word for the bound (C-08).
    name = "batch_size" if rewriting.dialect is model.V2_CASE else "max_in_flight"
    number = node.get("parallel")
    # Not a boolean, which is an int to Python.
    if isinstance(number, Scalar) and type(number.value) is int and "concurrency" not in node:
        node = model.with_key(node, "parallel", "concurrency")
    for key in _BOUNDS:
        spec = node.get("spec")
        outside, inside = key in node, isinstance(spec, Mapping) and key in spec
        if not (outside or inside) or _is_option(node, name):
            continue
        place = node.keys[key] if outside or not isinstance(spec, Mapping) else spec.keys[key]
        rewriting.note(place, f'"{key}" of a loop', f"loop.spec.{name}")
        if outside:
            node = model.moved_into(node, "spec", key, name)
        elif isinstance(spec, Mapping):
            node = model.with_value(node, "spec", model.with_key(spec, key, name))
        node = _with_parallel(node, place)
    return node


def _with_parallel(node: Mapping, place: Scalar) -> Mapping:
    spec = node.get("spec")
    if "mode" in node or not isinstance(spec, Mapping) or "mode" in spec:
        return node
    return model.with_value(node, "spec", model.with_value(spec, "mode", model.made_text("parallel", place), place))


def _name_end(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`until` is evaluated after each iteration, like `complete_when`."""
    if "until" in node and not _is_option(node, "complete_when"):
        rewriting.note(node.keys["until"], "loop.until", "loop.spec.complete_when")
        return model.moved_into(node, "spec", "until", "complete_when")
    return node


def _is_option(node: Mapping, key: str) -> bool:
    spec = node.get("spec")
    return isinstance(spec, Mapping) and key in spec


def _name_parallel(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    if isinstance(spec, Mapping):
        node = model.with_value(node, "spec", _parallel_word(spec, rewriting))
    return _parallel_word(node, rewriting)


def _parallel_word(node: Mapping, rewriting: Rewriting) -> Mapping:
    mode = node.get("mode")
    if isinstance(mode, Scalar) and mode.value in _PARALLEL_WORDS:
        rewriting.note(mode, f"the mode {mode.value} of a loop", "parallel")
        return model.with_value(node, "mode", model.made_text("parallel", mode))
    return node


_NAMES = {"collection": "in", "element": "iterator"}
_COLLECTIONS = ("items", "over", "each", "for_each", "foreach", "list", "values")
_ITERATORS = ("as", "var", "item", "variable", "iterator_name", "element_name")


def _name_collection(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Other keys for the collection and its element; an element without a name is called `item`."""
    own = {"in": "iterator", "collection": "element"}
    # New keys come after the existing ones: a loop in two spellings is refused.
    held = next((key for key in own if key in node), "in")
    names = dict.fromkeys(_COLLECTIONS, held) | dict.fromkeys(_ITERATORS, own[held])
    if held == "collection" and "iterator" in node:
        names["collection"] = "in"
    elif held == "in" and "element" in node:
        names["element"] = "iterator"
    node = model.renames("a loop", names)(node, rewriting)
    if "parallel" in node and "mode" not in node and isinstance(flag := node.values["parallel"], Scalar):
        word = {True: "parallel", False: "sequential"}.get(flag.value) if isinstance(flag.value, bool) else None
        if word is not None and not _is_option(node, "mode"):
            rewriting.note(node.keys["parallel"], "loop.parallel", f"mode: {word}")
            node = model.with_value(model.with_key(node, "parallel", "mode"), "mode", model.made_text(word, flag))
    return node


def _name_errors(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`on_error: continue`, or `fail_fast: false`, of a loop: its step continues when items have failed."""
    loop = node.get("loop")
    spec = loop.get("spec") if isinstance(loop, Mapping) else None
    for holder in (loop, spec):
        word = _error_word(holder) if isinstance(holder, Mapping) else None
        if word is None or not isinstance(holder, Mapping) or not isinstance(loop, Mapping):
            continue
        key, value = holder.keys[word], holder.values[word]
        goes_on = isinstance(value, Scalar) and value.value in ("continue", False)
        rest = model.without_keys(holder, word)
        if rewriting.dialect is model.V2_CASE:
            if holder is spec and word == "on_error":
                continue
            directive = model.made_text("continue" if goes_on else "fail", value)
            rewriting.note(key, f'"{word}" of a loop', "loop.spec.on_error")
            # Without its key first: the spec may be the very mapping that held it.
            loop = rest if holder is loop else model.with_value(loop, "spec", rest)
            return model.with_value(node, "loop", model.with_path(loop, ("spec", "on_error"), directive, key))
        mode = inner_node(node, "spec", "policy", "failure")
        if mode is not None:
            return node
        rewriting.note(key, f'"{word}" of a loop', "step.spec.policy.failure.mode")
        loop = rest if holder is loop else model.with_value(loop, "spec", rest)
        text = model.made_text("best_effort" if goes_on else "fail_fast", value)
        return model.with_path(model.with_value(node, "loop", loop), ("spec", "policy", "failure", "mode"), text, key)
    return node


def _error_word(node: Mapping) -> str | None:
    for key, values in (("on_error", ("continue", "fail")), ("fail_fast", (True, False))):
        setting = node.get(key)
        if isinstance(setting, Scalar) and setting.value in values:
            return key
    return None


def _name_loop(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`for_each: {in: …, iterator: …}` of a step, and `with_items`, whose element is `item`."""
    for key in ("for_each", "foreach", "with_items"):
        held = node.get(key)
        is_loop = isinstance(held, Mapping) and bool({"in", "collection", "items"} & held.values.keys())
        is_value = isinstance(held, Sequence) or (
            isinstance(held, Scalar) and isinstance(held.value, str) and is_template(held.value)
        )
        if "loop" not in node and (is_loop or is_value):
            rewriting.note(node.keys[key], f'"{key}" of a step', "loop: {in: …, iterator: …}")
            # Keys are in snake case from here on: the row for the errors of a loop comes next.
            return with_snake_keys(model.with_key(node, key, "loop"), rewriting)
    return node


def _name_iterator(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A loop whose element has no name."""
    if "in" in node and "iterator" not in node and "element" not in node:
        rewriting.note(node.keys["in"], "a loop without iterator", "iterator: item")
        return model.with_value(node, "iterator", model.made_text("item", node.keys["in"]), node.keys["in"])
    return node


def _is_level(node: Node) -> bool:
    return isinstance(node, Mapping) and bool({"in", "collection"} & node.values.keys()) and "loop" not in node


def _nested_levels(levels: Sequence) -> Node:
    """The first level with the others inside it."""
    inner: Node | None = None
    for level in reversed(levels.items):
        inner = level if inner is None or not isinstance(level, Mapping) else model.with_value(level, "loop", inner)
    assert inner is not None
    return inner


def _read_collection(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`loop` of a step as the collection itself, each element called `item`."""
    loop = node.get("loop")
    if isinstance(loop, Sequence) and len(loop) and all(_is_level(item) for item in loop):
        rewriting.note(node.keys["loop"], "loop as a list of levels", "loop: {in: …, iterator: …, loop: {…}}")
        return model.with_value(node, "loop", _nested_levels(loop))
    is_text = isinstance(loop, Scalar) and isinstance(loop.value, str) and is_template(loop.value)
    if loop is None or not (is_text or isinstance(loop, Sequence)):
        return node
    rewriting.note(node.keys["loop"], "loop as a collection", "loop: {in: …, iterator: item}")
    return model.with_value(
        node, "loop", model.made_mapping([("in", loop), ("iterator", model.made_text("item", loop))], loop)
    )


SPELLINGS = (
    Spelling(
        id="step-for-each",
        where=Where.STEP,
        older="`for_each: {in: …, iterator: …}`, `with_items: [1, 2]` of a step",
        canonical="`loop: {in: …, iterator: …}`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=_name_loop,
    ),
    Spelling(
        id="loop-on-error",
        where=Where.STEP,
        older="`on_error: continue`, `fail_fast: false` of a loop",
        canonical="`spec.policy.failure.mode: best_effort` of the step",
        dialects=(model.V10, model.V2_CASE),
        refused_by_v10=True,
        rewrite=_name_errors,
    ),
    Spelling(
        id="loop-value",
        where=Where.STEP,
        older='`loop: "{{ … }}"`, `loop: [1, 2]`; a list of levels `[{in, iterator}, …]`',
        canonical="`loop: {in: …, iterator: item}`",
        dialects=model.EVERYWHERE,
        rewrite=_read_collection,
    ),
    Spelling(
        id="loop-words",
        where=Where.LOOP,
        older="`loop.items`, `over`, `each`; `as`, `var`; `collection` with `iterator`; `parallel: true`",
        canonical="`loop.in`, `loop.iterator`, `loop.spec.mode`",
        dialects=model.EVERYWHERE,
        rewrite=_name_collection,
    ),
    Spelling(
        id="loop-iterator",
        where=Where.LOOP,
        older="a loop without `iterator`",
        canonical="`iterator: item`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=_name_iterator,
    ),
    Spelling(
        id="loop-collection",
        where=Where.LOOP,
        older="`loop.collection`, `loop.element`",
        canonical="`loop.in`, `loop.iterator`",
        dialects=(model.V10, model.V2_EVAL),
        rewrite=model.renames("a loop", _NAMES),
    ),
    Spelling(
        id="loop-options",
        where=Where.LOOP,
        older="`loop.mode`, `loop.max_in_flight`, `loop.policy`",
        canonical="the same under `loop.spec`",
        dialects=(model.V10, model.V2_EVAL),
        rewrite=_move_options,
    ),
    Spelling(
        id="loop-batch-size",
        where=Where.LOOP,
        older="`loop.spec.batch_size`",
        canonical="`loop.spec.max_in_flight`",
        dialects=(model.V10, model.V2_EVAL),
        rewrite=_rename_batch_size,
    ),
    Spelling(
        id="loop-concurrency",
        where=Where.LOOP,
        older="`loop.concurrency`, `max_concurrency`, `max_parallel`",
        canonical="`loop.spec: {mode: parallel, max_in_flight: …}`",
        dialects=model.EVERYWHERE,
        rewrite=_read_bound,
    ),
    Spelling(
        id="loop-until",
        where=Where.LOOP,
        older="`loop.until`",
        canonical="`loop.spec.complete_when`",
        dialects=(model.V10, model.V2_EVAL),
        rewrite=_name_end,
    ),
    Spelling(
        id="loop-mode-async",
        where=Where.LOOP,
        older="`loop.spec.mode: async`",
        canonical="`loop.spec.mode: parallel`",
        dialects=model.EVERYWHERE,
        rewrite=_name_parallel,
    ),
)
