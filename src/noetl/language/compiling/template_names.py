"""Names that a template can read at one place of a text, for completion: those that the checks of names accept there.

The text may be in the middle of being written: open parts at the place (a template, a quote, brackets) are closed to
read it. The site of the place comes from the list that the checks walk, and the visible names from their table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from noetl.base.diagnostics import Findings, Source
from noetl.language.compiling.embedded_code import KIND as PYTHON
from noetl.language.compiling.embedded_code import MAX_PYTHON_CHARACTERS, tree_of
from noetl.language.compiling.lowering.values import loops_of
from noetl.language.compiling.passes import Compilation, every_task, pipelines
from noetl.language.compiling.python_results import result_fields
from noetl.language.compiling.step_names import arcs_of
from noetl.language.compiling.template_sites import TemplateText, written_texts
from noetl.language.compiling.undefined_names import EVENT_KEYS, OUTCOME_KEYS, TOKEN_KEYS
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.playbook import Playbook, StepSyntax, TaskSyntax
from noetl.language.reading.reader import read_playbook
from noetl.net.kinds import Kinds
from noetl.templates.scope import TemplateSite, visible

_MARK = "noetl_is_written_here"
_WHEN = re.compile(r"\bwhen\s*:[^:]*$")
_MEMBERS = {"event": EVENT_KEYS, "token": TOKEN_KEYS, "outcome": OUTCOME_KEYS}
# Places that are rendered before any step has run, or that read nothing of steps.
_WITHOUT_RESULTS = frozenset({TemplateSite.KEYCHAIN, TemplateSite.INITIAL_CTX, TemplateSite.NOTICE})
_IN_PIPELINE = frozenset({TemplateSite.TASK_INPUT, TemplateSite.TASK_POLICY, TemplateSite.HANDLER_TASK})
# Places that are rendered when the step has a result of its own.
_AFTER_STEP = frozenset(
    {TemplateSite.ARC, TemplateSite.SET_CTX_STEP, TemplateSite.COMPENSATE, TemplateSite.EMIT, TemplateSite.VARS}
)


def template_names(text: str, offset: int, kinds: Kinds) -> list[str]:
    """Names, and members as `workload.key`, that a template can read at `offset`; none where no template can be."""
    begin = offset
    while begin > 0 and (text[begin - 1].isalnum() or text[begin - 1] in "_."):
        begin -= 1
    end = text.find("\n", offset)
    line_end = end if end >= 0 else len(text)
    line = text[text.rfind("\n", 0, begin) + 1 : begin]
    for rest in _endings(line, text[offset:line_end]):
        playbook = read_playbook(
            Source("<text>", text[:begin] + _MARK + rest + text[line_end:]), Findings(), kinds=kinds
        )
        if playbook is None:
            continue
        written = written_texts(playbook, Compilation(kinds=kinds, findings=Findings()))
        here = next((one for one in written if _MARK in one.text), None)
        if here is not None:
            return sorted(set(_names(here, playbook, kinds)), key=lambda name: (name.startswith("_"), name))
    return []


def _endings(line: str, rest: str) -> Iterator[str]:
    """Possible ends of a line: the line as it is, then with its open parts closed."""
    if "}}" in rest or "%}" in rest:
        yield rest
    ending = " %}" if line.rfind("{%") > line.rfind("{{") else " }}"
    yield ending + rest
    quote, brackets = "", ""
    for at, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{" and not line.startswith(("{{", "{%"), at) and line[at - 1 : at] != "{":
            brackets = {"[": "]", "{": "}"}[character] + brackets
        elif character in "]}" and brackets.startswith(character):
            brackets = brackets[1:]
    yield f"{ending}{quote}{brackets}"
    yield f"{ending}{quote}"
    # A rule of a policy can only be read if it has a directive.
    if (condition := _WHEN.search(line)) is not None:
        yield f"{ending}{quote}, then: {{do: continue}}{brackets}"
        yield f"{ending}{quote}\n{' ' * condition.start()}then: {{do: continue}}"


def _names(here: TemplateText, playbook: Playbook, kinds: Kinds) -> Iterator[str]:
    seen = visible(here.site, playbook.dialect.rules.value)
    step = here.step_of(playbook)
    members = dict(_MEMBERS) | {
        "workload": frozenset(_nested_keys(playbook.workload)),
        "ctx": frozenset(_ctx_keys(playbook)),
        "args": frozenset(_token_args(step, playbook)),
        "iter": frozenset({"index", *_iterators(step)}),
        "keychain": frozenset(entry.name for entry in playbook.keychain),
    }
    for name in seen:
        yield name
        yield from (f"{name}.{key}" for key in members.get(name, ()))
    if "iter" in seen:
        yield from _iterators(step)
    yield from here.own_args
    if here.site in _WITHOUT_RESULTS:
        return
    for other in playbook.steps:
        if step is None or other.name != step.name or here.site in _AFTER_STEP:
            yield from _result(other, kinds)
    if here.site in _IN_PIPELINE:
        yield from _earlier_tasks(here, playbook)


def _earlier_tasks(here: TemplateText, playbook: Playbook) -> Iterator[str]:
    """The tasks of the pipeline before the one that the place is in."""
    for pipeline in pipelines(playbook):
        names: list[str] = []
        for task in pipeline.tasks:
            if here.scalar.path.startswith(f"{task.path}."):
                yield from names
                return
            names += [task.name] if task.name else []


def _result(step: StepSyntax, kinds: Kinds) -> Iterator[str]:
    """The step, with the fields of its form, or with the result fields of the kind of its last task."""
    yield step.name
    for field in step.blocks.human_task.form if step.blocks.human_task else ():
        yield f"{step.name}.{field.field}"
    last = step.tasks[-1] if step.tasks and step.loop is None else None
    if isinstance(last, TaskSyntax):
        yield from (f"{step.name}.{key}" for key in _result_keys(last, kinds))


def _result_keys(task: TaskSyntax, kinds: Kinds) -> Iterable[str]:
    """The fields that each result of its kind has; of Python code, those of the mapping that it writes out."""
    code = task.inputs.get("code")
    if task.kind != PYTHON or not isinstance(code, Scalar):
        kind = kinds.get(task.kind)
        return kind.result_keys if kind is not None else ()
    text = str(code.value)
    tree = tree_of(text) if len(text) <= MAX_PYTHON_CHARACTERS else None
    return (key for key in sorted(result_fields(tree) or ()) if key.isidentifier()) if tree is not None else ()


def _keys(written: Mapping | None) -> frozenset[str]:
    return frozenset(key for key in (written.keys if written is not None else ()) if key.isidentifier())


def _nested_keys(written: Mapping | None, depth: int = 3) -> Iterator[str]:
    """Keys, and those of mappings in them: `region`, `region.zone`."""
    for key in sorted(_keys(written)):
        yield key
        inner = written.get(key) if written is not None and depth > 1 else None
        if isinstance(inner, Mapping):
            yield from (f"{key}.{below}" for below in _nested_keys(inner, depth - 1))


def _ctx_keys(playbook: Playbook) -> Iterable[str]:
    yield from _keys(playbook.ctx)
    for step in playbook.steps:
        yield from _keys(step.set_ctx)
        for arc in arcs_of(step):
            yield from _keys(arc.set_ctx)
    for task, _ in every_task(playbook):
        for rule in task.policy.rules if task.policy else ():
            yield from _keys(rule.then.set_ctx)


def _token_args(step: StepSyntax | None, playbook: Playbook) -> Iterable[str]:
    """The args of the token: the step's own defaults, and the args of the arcs that lead to it."""
    if step is None:
        return
    yield from _keys(step.args)
    for other in playbook.steps:
        for arc in arcs_of(other):
            if arc.target.value == step.name:
                yield from _keys(arc.args)


def _iterators(step: StepSyntax | None) -> Iterable[str]:
    for level in loops_of(step.loop if step is not None else None):
        yield str(level.iterator.value)
