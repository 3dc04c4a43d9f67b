"""Steps of earlier generations: a loop as a kind of tool, and what is saved beside the tool."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import EVERYWHERE, V2_CASE, Rewriting, Spelling, Where
from noetl.language.reading.spellings.trees import made_mapping, with_key, with_value, without_keys

_COLLECTIONS = ("in", "collection", "items", "over", "each")
_OF_LOOP = (
    *_COLLECTIONS,
    *("iterator", "element", "as", "var", "item"),
    *("mode", "spec", "concurrency", "max_in_flight", "batch_size", "parallel", "until"),
)
_LOOP_WORDS = {"collection": "in", "element": "iterator"}
_BODIES = ("task", "tool", "tasks")
_STORES = ("storage", "type")  # other words for the kind of what is saved to
_SAVED = ("args", "data", "payload", "with", "desc")


def _read_iterator(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`tool: {kind: iterator, in, iterator, task}` as a loop of the step around that task."""
    tool = node.get("tool")
    if isinstance(tool, Sequence) and len(tool) == 1:
        tool = tool.items[0]
    kind = tool.get("kind") if isinstance(tool, Mapping) else None
    if not isinstance(tool, Mapping) or not isinstance(kind, Scalar) or kind.value != "iterator" or "loop" in node:
        return node
    bodies = [key for key in _BODIES if isinstance(tool.get(key), Mapping | Sequence)]
    rest = set(tool.values) - {"kind", "name", "desc", *_OF_LOOP, *bodies}
    if len(bodies) != 1 or rest or not any(key in tool for key in _COLLECTIONS):
        return node
    rewriting.note(kind, "kind: iterator", "loop: {in: …, iterator: …} of the step, with its task as tool")
    loop: list[tuple[str, Node]] = [
        (_LOOP_WORDS.get(key, key), value) for key, value in tool.values.items() if key in _OF_LOOP
    ]
    node = with_value(node, "loop", made_mapping(loop, tool), kind)
    return with_value(node, "tool", tool.values[bodies[0]])


def _read_save(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`save: {storage: postgres, table, data}` as the sink it is."""
    save = node.get("save")
    if not isinstance(save, Mapping) or "sink" in node:
        return node
    word = next((key for key in _STORES if key in save), "kind")
    store = save.get(word)
    held = store if isinstance(store, Mapping) else save.get("tool")
    if isinstance(held, Mapping) and "kind" in held:  # {storage: {kind, auth, table}, data}
        written = with_key(save, word, "tool") if held is store else save
    elif isinstance(store, Scalar) and isinstance(store.value, str):
        flat = with_key(save, word, "kind") if word != "kind" else save
        outside: list[tuple[str, Node]] = [(key, flat.values[key]) for key in flat.values if key in _SAVED]
        inside = without_keys(flat, *(key for key, _ in outside))
        written = made_mapping([("tool", inside), *outside], save)
    else:
        return node
    rewriting.note(node.keys["save"], '"save" of a step', '"sink"')
    return with_value(with_key(node, "save", "sink"), "sink", written)


SPELLINGS = (
    Spelling(
        id="step-iterator",
        where=Where.STEP,
        older="`tool: {kind: iterator, in, iterator, task: {kind: …}}`",
        canonical="`loop: {in, iterator}` beside `tool: {kind: …}`",
        dialects=EVERYWHERE,
        refused_by_v10=True,
        rewrite=_read_iterator,
    ),
    Spelling(
        id="step-save",
        where=Where.STEP,
        older="`save: {storage: postgres, table, data}` of a step",
        canonical="a task that stores",
        dialects=(V2_CASE,),
        rewrite=_read_save,
    ),
)
