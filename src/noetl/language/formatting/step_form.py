"""A step as a form: read from the text of a playbook, and written back into it, every other character as it was.

The new text is read again and compared with the form, so a mistake here can cause a refusal, but never damage a
playbook. Knows the layout of steps, not what their inputs mean; that is in the table of kinds.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator
from typing import Any

from noetl.base.diagnostics import Findings, Source, is_template
from noetl.base.errors import InvalidError
from noetl.language.formatting.formatter import FormatError
from noetl.language.formatting.layout import NewStep, StepForm
from noetl.language.migrating.fragments import scalar_text
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, data
from noetl.language.reading.yaml import read_yaml
from noetl.net.kinds import Input, Kinds, ToolKind

_NAME = re.compile(r"[A-Za-z_]\w{0,99}")
_ARGS = Input(name="args", schema={"type": "object"}, doc="Arguments by name.")


def form_inputs(kind: ToolKind) -> tuple[Input, ...]:
    """The inputs in the form of this kind; every kind takes arguments."""
    return kind.inputs if kind.input("args") else (*kind.inputs, _ARGS)


def control_of(one: Input) -> str:
    """The control of an input in a form: flag, number, choice, long text, text, or data (YAML)."""
    if one.verbatim or one.sql or one.quoted or one.prose:
        return "long"
    if "enum" in one.schema:
        return "choice"
    kinds = {"boolean": "flag", "integer": "number", "number": "number", "string": "text"}
    return kinds.get(str(one.schema.get("type")), "data")


def step_form(source: Source, step: str, task: int = 0) -> StepForm:
    """RefusedError or FormatError where the text cannot be shown as a form."""
    tasks = _tasks(_step(_root(source), step), step)
    if not 0 <= task < len(tasks):
        raise InvalidError(f'step "{step}" has {len(tasks)} tasks')
    node = tasks[task]
    inputs = {key: _input_text(source, value) for key, _, value in node.items() if key not in ("kind", "name", "spec")}
    return StepForm(step=step, kind=str(data(node.get("kind"))), inputs=inputs, task=task, tasks=len(tasks))


def with_inputs(source: Source, form: StepForm, kinds: Kinds) -> str:
    """The text with the inputs of a form: those that differ are written, those that are empty taken out."""
    before = step_form(source, form.step, form.task)
    root = _root(source)
    index = next(n for n, one in enumerate(_steps(root)) if data(one.get("step")) == form.step)
    node = _tasks(_steps(root)[index], form.step)[form.task]
    # A mapping in the place of a text stays a mapping.
    structured = {name for name, _, value in node.items() if not isinstance(value, Scalar)}
    values = _values(form.inputs, _kind(form.kind, kinds), structured)
    meant = data(root)
    tool = meant["workflow"][index]["tool"]
    target = tool[form.task] if isinstance(tool, list) else tool
    edits: list[tuple[int, int, str]] = []
    for name in dict.fromkeys((*before.inputs, *form.inputs)):
        text = form.inputs.get(name, "")
        if text == before.inputs.get(name, ""):
            continue
        edits.append(_edit(source.text, node, name, values.get(name), text))
        target.pop(name, None)
        if text:
            target[name] = values[name]
    return _verified_text(source, edits, meant)


def with_step(source: Source, new: NewStep, kinds: Kinds) -> str:
    """The text with a new step and the arc that leads to it."""
    if not _NAME.fullmatch(new.name):
        raise InvalidError("name: a letter, then letters, digits and underscores")
    root = _root(source)
    steps = _steps(root)
    if new.name in [data(one.get("step")) for one in steps]:
        raise InvalidError(f'name: there is a step "{new.name}" already')
    values = _values({key: text for key, text in new.inputs.items() if text}, _kind(new.kind, kinds))
    after = _step(root, new.after)
    meant = data(root)
    place = next(n for n, one in enumerate(steps) if one is after)
    edits = [_arc_edit(source.text, after, new, meant["workflow"][place])]
    made: dict[str, Any] = {"step": new.name, "tool": {"kind": new.kind, **values}}
    if new.before:
        made["next"] = {"arcs": [{"step": new.before}]}
    meant["workflow"].insert(place + 1, made)
    edits.append(_block_edit(source.text, root, after, new, values))
    return _verified_text(source, edits, meant)


# Reading


def _root(source: Source) -> Mapping:
    findings = Findings()
    root = read_yaml(source, findings)
    if root is None or findings.has_errors:
        raise FormatError("this text does not read as YAML", findings)
    return root


def _steps(root: Mapping) -> list[Mapping]:
    workflow = root.get("workflow")
    if not isinstance(workflow, Sequence):
        raise InvalidError("this playbook has no workflow with steps")
    return [one for one in workflow if isinstance(one, Mapping)]


def _step(root: Mapping, name: str) -> Mapping:
    found = next((one for one in _steps(root) if data(one.get("step")) == name), None)
    if found is None:
        raise InvalidError(f'there is no step "{name}" in this playbook')
    return found


def _tasks(step: Mapping, name: str) -> list[Mapping]:
    tool = step.get("tool")
    found = list(tool) if isinstance(tool, Sequence) else [tool]
    tasks = [one for one in found if isinstance(one, Mapping) and "kind" in one]
    if not tasks or len(tasks) != len(found):
        raise InvalidError(f'step "{name}" has no tool that a form can show: edit its text')
    return tasks


def _kind(name: str, kinds: Kinds) -> ToolKind:
    if name not in kinds:
        raise InvalidError(f'kind: "{name}" is not a tool kind here')
    return kinds[name]


def _input_text(source: Source, node: Node) -> str:
    if isinstance(node, Scalar):
        return node.value if isinstance(node.value, str) else source.cut(node.span)
    # Its first line begins at the column of the others, which the cut has lost.
    return textwrap.dedent(" " * (node.span.column - 1) + source.cut(node.span))


def _values(inputs: dict[str, str], kind: ToolKind, structured: Collection[str] = ()) -> dict[str, Any]:
    """The values of the texts in a form; all mistakes are reported at once."""
    found, problems = {}, []
    for name, text in inputs.items():
        declared = next((one for one in form_inputs(kind) if one.name == name or name in one.aliases), None)
        try:
            is_text = declared is not None and not (declared.prose and name in structured)
            found[name] = _value(text, control_of(declared) if declared and is_text else "data")
        except FormatError:
            problems.append({"field": name, "found": text[:100], "allowed": "YAML on this input"})
    if problems:
        words = "; ".join(f"{one['field']}: this does not read as YAML" for one in problems)
        raise InvalidError(words, tuple(problems))
    return found


def _value(text: str, control: str) -> Any:
    # A template stays text: YAML would read its braces as a mapping.
    if control in ("text", "long", "choice") or is_template(text.strip()[:2]):
        return text
    # As the value of a key, since only a mapping is read.
    wrapped = f"value:\n{textwrap.indent(text, '  ')}\n"
    value = data(_root(Source("input", wrapped)).get("value"))
    return text if control == "number" and not isinstance(value, int | float) else value


# Writing


def _written_value(value: Any, text: str, column: int, *, flow: bool) -> str:
    """A value behind its key, whose lines begin at `column` when it takes several."""
    indent = "\n" + " " * (column - 1 + 2)
    if isinstance(value, str):
        if flow or "\n" not in value or _is_awkward(value):
            return scalar_text(value)
        lines = value.removesuffix("\n").split("\n")
        mark = "|" if value.endswith("\n") else "|-"
        return mark + "".join(indent + line if line else "\n" for line in lines)
    if not isinstance(value, dict | list):
        return scalar_text(value)
    if text.strip()[0] in "{[" and "\n" not in text.strip():
        return text.strip()
    if flow:
        return scalar_text(value)
    return "".join(indent + line if line else "\n" for line in text.strip("\n").split("\n"))


def _is_awkward(value: str) -> bool:
    """Whether a block scalar would change the text: it begins with a space, ends with empty lines, or has special
    characters."""
    return value[:1] in (" ", "\n") or value.endswith("\n\n") or not value.replace("\n", "").isprintable()


def _edit(text: str, node: Mapping, name: str, value: Any, written: str) -> tuple[int, int, str]:
    flow = text[node.span.start] == "{"
    column = node.span.column
    if name in node:
        old, key = node.values[name], node.keys[name]
        if written:
            fresh = _written_value(value, written, column, flow=flow)
            return key.span.end, old.span.end, (":" if fresh.startswith("\n") else ": ") + fresh
        return _removal(text, node, name, flow=flow)
    fresh = _written_value(value, written, column, flow=flow)
    colon = ":" if fresh.startswith("\n") else ": "
    if flow:
        return node.span.end - 1, node.span.end - 1, f", {name}{colon}{fresh} ".replace(" , ", ", ")
    return node.span.end, node.span.end, "\n" + " " * (column - 1) + f"{name}{colon}{fresh}"


def _removal(text: str, node: Mapping, name: str, *, flow: bool) -> tuple[int, int, str]:
    names = list(node.values)
    at = names.index(name)
    start, end = node.keys[name].span.start, node.values[name].span.end
    if flow:
        if at + 1 < len(names):
            return start, node.keys[names[at + 1]].span.start, ""
        return node.values[names[at - 1]].span.end, end, ""
    # The next key takes its place; text before it on the line (such as a dash) stays.
    if at == 0:
        return start, node.keys[names[1]].span.start, ""
    return text.rindex("\n", 0, start), end, ""


def _arc_edit(text: str, after: Mapping, new: NewStep, meant: dict[str, Any]) -> tuple[int, int, str]:
    """The arc that leads to the new step: one that led elsewhere, or the first of its step."""
    if new.before:
        for scalar in _targets(after.get("next")):
            if scalar.value == new.before:
                _retarget(meant, new)
                return scalar.span.start, scalar.span.end, new.name
        raise InvalidError(f'step "{new.after}" has no arc to "{new.before}"')
    if "next" in after:
        raise InvalidError(f'step "{new.after}" has arcs already: say which one it goes into')
    meant["next"] = {"arcs": [{"step": new.name}]}
    arcs = f"next: {{ arcs: [{{ step: {new.name} }}] }}"
    if text[after.span.start] == "{":
        return after.span.end - 1, after.span.end - 1, f", {arcs} "
    return after.span.end, after.span.end, "\n" + " " * (after.span.column - 1) + arcs


def _targets(node: Node | None) -> Iterator[Scalar]:
    match node:
        case Scalar():
            yield node
        case Sequence():
            for item in node:
                yield from _targets(item)
        case Mapping():
            for key, _, value in node.items():
                if key in ("arcs", "step"):
                    yield from _targets(value)
        case None:
            return


def _retarget(meant: dict[str, Any], new: NewStep) -> None:
    following = meant["next"]
    if following == new.before:
        meant["next"] = new.name
        return
    arcs = following["arcs"] if isinstance(following, dict) else following
    for at, arc in enumerate(arcs):
        if arc == new.before:
            arcs[at] = new.name
            return
        if isinstance(arc, dict) and arc.get("step") == new.before:
            arc["step"] = new.name
            return


def _block_edit(text: str, root: Mapping, after: Mapping, new: NewStep, values: dict[str, Any]) -> tuple[int, int, str]:
    workflow = root.values["workflow"]
    if text[workflow.span.start] == "[":
        raise InvalidError("the workflow is written on one line: press Format first")
    dash, column = workflow.span.column, workflow.span.column + 2
    pad = " " * (column - 1)
    lines = [f"{' ' * (dash - 1)}- step: {new.name}", f"{pad}tool:", f"{pad}  kind: {new.kind}"]
    for name, value in values.items():
        fresh = _written_value(value, new.inputs[name], column + 2, flow=False)
        lines.append(f"{pad}  {name}:{'' if fresh.startswith(chr(10)) else ' '}{fresh}")
    if new.before:
        lines.append(f"{pad}next: {{ arcs: [{{ step: {new.before} }}] }}")
    gap = "\n\n" if re.search(r"\n[ \t]*\n[ \t]*-", text[workflow.span.start : workflow.span.end]) else "\n"
    # Behind the line on which the step ends: a comment there belongs to it.
    end = text.find("\n", after.span.end)
    end = len(text) if end < 0 else end
    return end, end, gap + "\n".join(lines)


def _verified_text(source: Source, edits: list[tuple[int, int, str]], meant: Any) -> str:
    """The text with the edits; FormatError if its meaning would be another one."""
    text = source.text
    # Of two at one place the first is written first: the arc of a step precedes the next step.
    for _, (start, end, fresh) in sorted(enumerate(edits), key=lambda one: (one[1][0], one[0]), reverse=True):
        text = text[:start] + fresh + text[end:]
    if data(_root(Source(source.name, text))) != meant:
        raise FormatError("left as it is: the form cannot write this text without changing other parts of it")
    return text
