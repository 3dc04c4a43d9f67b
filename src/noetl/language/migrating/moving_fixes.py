"""Fixes of several lines: indentation with tabs, and keys of other systems in another place (`env`, `if`).

These are proposals: each is tried before it is offered (`language/migrating/fixes.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.migrating.edits import Edit, Fix, made_fix
from noetl.language.migrating.fragments import scalar_text
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.yaml import read_yaml
from noetl.net.kinds import Kinds

_WIDTHS = (2, 4, 8)  # possible widths of a tab; the text does not say which one its author used
_INDENTATION = re.compile(r"[ \t]*")
_BLOCK_TEXT = re.compile(r":\s+[|>][-+0-9]*\s*(?:#.*)?$")
_ENVIRONMENT = ("env", "environment")
_CONDITIONS = ("if", "condition", "unless")
_READS_ENVIRONMENT = re.compile(r"\benviron\b|\bgetenv\b")
_TEMPLATE = re.compile(r"\{\{(.*)\}\}", re.DOTALL)


# Tabs


def spaces_for_tabs(source: Source) -> list[Fix]:
    """The text indented with spaces alone, for each width that a tab may have had."""
    widths = dict.fromkeys((*_WIDTHS, *_widths_above(source)))
    made = (made_fix("Indent with spaces", _spaced(source.text, width)) for width in widths)
    return [fix for fix in made if fix is not None]


def _widths_above(source: Source) -> Iterator[int]:
    """The width with which the first line that begins with tabs stands below the line above it."""
    above = 0
    for line in source.text.split("\n"):
        indentation = _INDENTATION.match(line)[0]  # type: ignore[index]
        if tabs := indentation.count("\t"):
            if above and tabs == len(indentation) and above % tabs == 0:
                yield above // tabs
            return
        above = len(indentation) if line.strip() else above


def _spaced(text: str, width: int) -> Iterator[Edit]:
    """Tabs that belong to a text of several lines stay: a recipe of a Makefile needs them."""
    block: tuple[int, int | None] | None = None  # where its key stands, and its text, once that has begun
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        indentation = _INDENTATION.match(line)[0]  # type: ignore[index]
        spaces = len(indentation) - len(indentation.lstrip(" "))
        if block is not None:
            begin = block[1] if block[1] is not None else (spaces if spaces > block[0] else None)
            if begin is not None and spaces >= begin:
                block = (block[0], begin)
                continue
        spaced = indentation.expandtabs(width)
        if "\t" in indentation:
            yield Edit(replacement=spaced, line=number, column=1, end_column=len(indentation) + 1)
        if block is None or len(spaced) <= block[0]:
            block = (len(spaced), None) if _BLOCK_TEXT.search(line) else None


# Keys in another place


def moving_fixes(found: Diagnostic, source: Source, kinds: Kinds) -> list[Fix]:
    """`env` where tasks of its kind read values from, `if` on the arcs that lead to its step."""
    word = source.cut(found.span) if found.code in ("E_STEP_KEY", "E_TASK_KEY") else ""
    if word not in (*_ENVIRONMENT, *_CONDITIONS):
        return []
    root = read_yaml(source, Findings())
    holder = next((one for one in _mappings(root) if word in one and one.keys[word].span == found.span), None)
    if root is None or holder is None:
        return []
    if word in _ENVIRONMENT:
        found_ways = [_with_values(source, holder, word, kinds)]
    else:
        conditions = _conditions(holder.get(word), is_negated=word == "unless")
        found_ways = [_with_guarded_arcs(source, root, holder, word, one) for one in conditions]
    return [fix for fix in found_ways if fix is not None]


def _mappings(node: Node | None) -> Iterator[Mapping]:
    if isinstance(node, Mapping):
        yield node
    for inner in (
        node.values.values() if isinstance(node, Mapping) else node or () if isinstance(node, Sequence) else ()
    ):
        yield from _mappings(inner)


def _with_values(source: Source, holder: Mapping, word: str, kinds: Kinds) -> Fix | None:
    """Where the tool reads values by name: variables of its environment, or arguments of its code; else `args` of the
    step, which templates read."""
    tool = holder if "kind" in holder else holder.get("tool")
    if not isinstance(holder.get(word), Mapping):
        return None
    if isinstance(tool, Mapping) and (key := _values_of(tool, kinds)) is not None:
        if key in tool or _reads_environment(tool, key):
            return None
        return _renamed(holder, word) if tool is holder else _moved_into_tool(source, holder, word, tool, key)
    return _renamed(holder, word) if tool is not holder and "args" not in holder else None


def _values_of(task: Mapping, kinds: Kinds) -> str | None:
    """The input under which a tool that runs code or programs reads values by name."""
    named = task.get("kind")
    kind = kinds.get(str(named.value)) if isinstance(named, Scalar) else None
    if kind is None:
        return None
    if kind.input("env") is not None:
        return "env"
    return "args" if kind.input("args") is not None and any(one.verbatim for one in kind.inputs) else None


def _reads_environment(task: Mapping, key: str) -> bool:
    """Whether code reads its values from the environment."""
    texts = [one.value for _, _, one in task.items() if isinstance(one, Scalar) and isinstance(one.value, str)]
    return key == "args" and any(_READS_ENVIRONMENT.search(text) for text in texts)


def _renamed(holder: Mapping, word: str) -> Fix:
    span = holder.keys[word].span
    return Fix(
        title="Write it as args", replacement="args", line=span.line, column=span.column, end_column=span.end_column
    )


def _moved_into_tool(source: Source, step: Mapping, word: str, tool: Mapping, key: str) -> Fix | None:
    removed = _lines_of(source, step, word)
    if removed is None:
        return None
    value = step.values[word]
    text = source.cut(value.span)
    if source.text[tool.span.start] == "{":
        if "\n" in text:
            return None
        at = tool.span.end_column - 1
        held = Edit(replacement=f", {key}: {text} ", line=tool.span.end_line, column=at, end_column=at)
    else:
        deeper = " " * (tool.span.column - step.keys[word].span.column)
        gap = " " if value.span.line == step.keys[word].span.line else "\n" + " " * (value.span.column - 1)
        fresh = f"{' ' * (step.keys[word].span.column - 1)}{key}:{gap}{text}"
        lines = "".join(f"\n{deeper}{line}" if line.strip() else "\n" for line in fresh.split("\n"))
        last, end = tool.span.end_line, len(source.line(tool.span.end_line)) + 1
        held = Edit(replacement=lines, line=last, column=end, end_column=end)
    return made_fix(f"Move it to {key} of the tool", [removed, held])


def _with_guarded_arcs(source: Source, root: Mapping, step: Mapping, word: str, condition: str) -> Fix | None:
    name, removed = step.get("step"), _lines_of(source, step, word)
    if not isinstance(name, Scalar) or removed is None:
        return None
    arcs = [one for one in _mappings(root) if _leads_to(one, str(name.value))]
    if not arcs or any("when" in one for one in arcs):
        return None
    guard = f"when: {scalar_text(condition)}"
    return made_fix("Move it to the arc that leads here", [removed, *(_guarded(source, one, guard) for one in arcs)])


def _leads_to(one: Mapping, name: str) -> bool:
    target = one.get("step")
    return isinstance(target, Scalar) and target.value == name and ".next" in one.path


def _conditions(held: Node | None, *, is_negated: bool) -> list[str]:
    """As it is, and for steps that may fail: an arc with a condition is taken after a failure, too."""
    if not isinstance(held, Scalar) or not isinstance(held.value, str):
        return []
    template = _TEMPLATE.fullmatch(held.value.strip())
    inner = template[1].strip() if template is not None else held.value.strip()
    inner = f"not ({inner})" if is_negated else inner
    return [f"{{{{ {inner} }}}}", f"{{{{ event.name != 'step.failed' and ({inner}) }}}}"]


def _guarded(source: Source, arc: Mapping, guard: str) -> Edit:
    target = arc.values["step"].span
    is_in_flow = source.text[arc.span.start] == "{"
    text = f", {guard}" if is_in_flow else "\n" + " " * (arc.span.column - 1) + guard
    return Edit(replacement=text, line=target.end_line, column=target.end_column, end_column=target.end_column)


def _lines_of(source: Source, holder: Mapping, key: str) -> Edit | None:
    """What takes a key and its value out, with their lines; None where something else stands on them."""
    begin, end = holder.keys[key].span, holder.values[key].span
    behind = source.line(end.end_line)[end.end_column - 1 :].strip()
    if source.line(begin.line)[: begin.column - 1].strip() or (behind and not behind.startswith("#")):
        return None
    return Edit(replacement="", line=begin.line, column=1, end_line=end.end_line + 1, end_column=1)
