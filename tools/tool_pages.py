"""The pages of docs/tools/: one for each kind of task, its tables from declarations, its words and example by hand.

The tables come from `noetl.tools.kinds`, what the checker itself uses; `tools/tool_examples/KIND.md` is the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from noetl.net.kinds import COMMON_SPEC, Input, ToolKind, TriggerKind
from noetl.tools.kinds import KINDS, group_of
from noetl.tools.registry import EXTRAS, OFF_BY_DEFAULT

RUN_HERE = {name: kind for name, kind in KINDS.items() if kind.plugin is None}
EXAMPLES = Path(__file__).parent / "tool_examples"

INDEX_HEAD = """# Kinds of tasks

A task has a `kind`, the inputs of that kind beside it, and a `spec`. Each kind has a page with an example; the tables
are generated from the declarations that the checker uses. Installed plug-ins add kinds of their own: `examples/plugin`
is a whole one.
"""

COMMON_HEAD = """
## spec, of every kind

Laid together from the outside in: the kind's defaults, `executor.spec`, `step.spec`, `loop.spec`, the task's own.

"""

_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
    "array": "list",
}


def tool_pages() -> dict[str, str]:
    """Every page by its file name. A kind that only a plug-in would run has none."""
    return {"README.md": index_page(), **{f"{name}.md": tool_page(kind) for name, kind in RUN_HERE.items()}}


def index_page() -> str:
    groups = groupby(RUN_HERE.values(), lambda kind: group_of(kind.name))
    tables = (f"\n## {group}\n\n| kind | what it does |\n|---|---|\n{_rows(kinds)}" for group, kinds in groups)
    return INDEX_HEAD + "".join(tables) + COMMON_HEAD + _table(COMMON_SPEC)


def _rows(kinds: Iterable[ToolKind]) -> str:
    return "".join(f"| [{kind.name}]({kind.name}.md) | {kind.doc}{_remark(kind)} |\n" for kind in kinds)


def tool_page(kind: ToolKind) -> str:
    parts = [f"# {kind.name}", kind.doc + _needs(kind), (EXAMPLES / f"{kind.name}.md").read_text().rstrip()]
    parts += ["## Inputs", _table(kind.inputs).rstrip()]
    parts += [f"One of {_name_list(group)} must be there." for group in kind.one_of]
    if kind.open_inputs:
        parts.append("Further keys are passed on.")
    if kind.spec:
        parts += ["## spec", _table(kind.spec).rstrip()]
    if kind.trigger is not None:
        parts += ["## As a trigger", _trigger_text(kind.trigger), _table(kind.trigger.inputs).rstrip()]
    own = "Besides these, a" if kind.spec else "A"
    parts.append(f"{own} task's `spec` takes [what every kind takes](README.md#spec-of-every-kind){_limit(kind)}.")
    return "\n\n".join(parts) + "\n"


def _trigger_text(trigger: TriggerKind) -> str:
    return f"A [trigger](../triggers.md) starts a playbook for: {trigger.doc} `workload.item` is then: {trigger.item}"


def _remark(kind: ToolKind) -> str:
    return " Off by default." if kind.name in OFF_BY_DEFAULT else ""


def _needs(kind: ToolKind) -> str:
    return f" It needs an extra: `pip install noetl-engine[{EXTRAS[kind.name]}]`." if kind.name in EXTRAS else ""


def _limit(kind: ToolKind) -> str:
    timeout = kind.defaults.get("timeout")
    return f"; `timeout` is {timeout} s when left out" if timeout else ""


def _table(inputs: Iterable[Input]) -> str:
    rows = (f"| `{one.name}` | {form(one.schema)} | {_input_row(one)} |" for one in inputs)
    return "| key | value | |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _input_row(one: Input) -> str:
    required = "**Required.** " if one.required else ""
    aliases = f" Also written {_name_list(one.aliases)}." if one.aliases else ""
    return (required + one.doc + aliases).replace("|", "\\|")


def _name_list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def form(schema: dict[str, Any]) -> str:
    """The allowed values, as text."""
    if "enum" in schema:
        return _name_list(
            dict.fromkeys(word.upper() if word.upper() in schema["enum"] else word for word in schema["enum"])
        )
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(form(one) for one in schema["anyOf"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(_WORDS[one] for one in kind)
    if kind == "array" and "items" in schema:
        return f"list of {_several(form(schema['items']))}"
    return _WORDS[kind] if kind else "anything"


def _several(word: str) -> str:
    return {"whole number": "whole numbers", "number": "numbers", "mapping": "mappings", "text": "texts"}.get(
        word, word
    )
