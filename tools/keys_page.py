"""docs/dsl/keys.md: every construct of a playbook with its keys, from the grammar that the readers use. `make docs`
writes it."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.language.grammar.model import DURATION, EVERY_DIALECT, Construct, Key, Schema, ref
from noetl.language.grammar.policies import ADMISSION, DIRECTIVE, EMITTED_EVENT, PARTITIONING
from noetl.language.grammar.root import ROOT
from noetl.language.grammar.steps import JOIN, STEP
from noetl.language.grammar.tasks import SUGAR, TASK
from noetl.language.grammar.waits import HANDLER, ON_EVENT
from noetl.templates.scope import DIALECTS

HEAD = """# Every key

Generated from the grammar (`make docs`), the table that the readers, `noetl schema`, completion and `noetl fmt` use.
The keys of a playbook, a step and a task stand in the order in which `noetl fmt` writes them. **Bold** keys are
required. A key that only some dialects have names them. The last column names the place in
[which names can be seen where](scopes.md), where a key and what is inside it may hold templates. The inputs of each
tool are on [its own page](../tools/README.md); [keys of a playbook](spec.md) tells how the constructs work together.
"""
# Constructs in a list or next to another form, where the walk from the root does not reach them.
_INSIDE = (STEP, JOIN, TASK, *SUGAR.values(), DIRECTIVE, ADMISSION, EMITTED_EVENT, PARTITIONING, ON_EVENT, HANDLER)


def keys_page() -> str:
    return HEAD + "".join(f"\n{_section(construct)}" for construct in _constructs())


def _constructs() -> list[Construct]:
    """Each construct once, the outer one before those inside it."""
    found: dict[str, Construct] = {}

    def walk(construct: Construct) -> None:
        if construct.what in found:
            return
        found[construct.what] = construct
        for key in construct.keys:
            if isinstance(key.shape, Construct):
                walk(key.shape)

    for construct in (ROOT, *_INSIDE):
        walk(construct)
    return list(found.values())


def _section(construct: Construct) -> str:
    title = _title(construct)
    ranks = construct.ranks()
    ordered = sorted(construct.keys, key=lambda key: ranks[key.name])
    lines = [f"## {title[:1].upper()}{title[1:]}", ""]
    if construct.doc:
        lines += [construct.doc, ""]
    return (
        "\n".join([*lines, "| key | holds | what it is for | templates |", "|---|---|---|---|", *map(_row, ordered)])
        + "\n"
    )


def _title(construct: Construct) -> str:
    return construct.what.removeprefix("a ").removeprefix("an ").removeprefix("the ")


def _row(key: Key) -> str:
    name = f"**`{key.name}`**" if key.required else f"`{key.name}`"
    held = key.shape
    doc = key.doc or (held.doc if isinstance(held, Construct) else "")
    site = key.rendered.site.replace("_", " ") if key.rendered else ""
    if key.dialects != EVERY_DIALECT:
        doc = f"{doc} Only in {' and '.join(name for name in DIALECTS if name in key.dialects)}.".strip()
    return f"| {name} | {_holds(key)} | {doc.replace('<', '&lt;')} | {site} |".replace("|  |", "| |")


def _holds(key: Key) -> str:
    if isinstance(key.shape, Construct):
        what = _title(key.shape)
        anchor = what.lower().replace(" ", "-").replace(".", "").replace("'", "")
        return f"{'a list of ' if key.items else ''}[{what}](#{anchor})"
    return ", ".join(dict.fromkeys(_forms(key.shape)))


_NAMED = {
    "guard": "condition",
    "template": "template",
    "timeout": "length of time",
    "join": "[join](#join)",
    "tasks": "list of [tasks](#task)",
}
_TYPES = {"object": "mapping", "array": "list", "string": "text", "boolean": "true or false", "integer": "whole number"}


def _forms(shape: Schema) -> Iterator[str]:
    """The forms that a shape takes, as text."""
    if shape == DURATION:
        yield "length of time"
    elif "enum" in shape:
        yield ", ".join(f"`{word}`" for word in shape["enum"])
    elif "const" in shape:
        yield f"`{shape['const']}`"
    elif "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        yield _NAMED.get(name, f"[{name.replace('_', ' ')}](#{name.replace('_', '-')})")
    elif "anyOf" in shape:
        for option in shape["anyOf"]:
            yield from _forms(option)
    elif "if" in shape:
        yield "one [task](#task) or a list of them"
    elif shape.get("items", {}).get("$ref") == ref("step")["$ref"]:
        yield "list of [steps](#step)"
    elif "type" in shape:
        types = [shape["type"]] if isinstance(shape["type"], str) else shape["type"]
        yield from (_TYPES.get(name, name) for name in types)
    else:
        yield "any value"
