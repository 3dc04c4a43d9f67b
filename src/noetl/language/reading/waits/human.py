"""Human tasks: who is asked, by which form, and what happens when nobody answers (HUM-01, HUM-03, HUM-04)."""

from __future__ import annotations

from noetl.language.grammar.model import Construct
from noetl.language.grammar.waits import ASSIGNEE, ESCALATION, FORM_FIELD, HUMAN_TASK, HUMAN_TASK_SPEC
from noetl.language.reading.nodes import Mapping, Node, data
from noetl.language.reading.numbers import duration, duration_or_moment
from noetl.language.reading.playbook import FormFieldSyntax, HumanTaskSyntax
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    check_keys,
    choice,
    mapping,
    opening,
    sequence,
    text,
)

_CODE = "E_STEP_KEY"


def read_human_task(reading: ReadContext, node: Node) -> HumanTaskSyntax | None:
    block = mapping(reading, node, _CODE, "human_task", "write human_task: {title: …, assignee: {role: …}}")
    if block is None:
        return None
    check_keys(reading, block, HUMAN_TASK, _CODE)
    role, user = _person(reading, block.get("assignee"), ASSIGNEE, "assignee", ("role", "user"))
    after, to_role, to_user = _escalation(reading, block.get("escalation"))
    return HumanTaskSyntax(
        node=block,
        title=text(reading, block.get("title"), _CODE, "a human task's title"),
        description=text(reading, block.get("description"), _CODE, "a human task's description"),
        data=block.get("data"),
        role=role,
        user=user,
        form=_form(reading, block.get("form")),
        due_date=duration_or_moment(reading, block.get("due_date"), "due_date"),
        escalate_after=after,
        escalate_to_role=to_role,
        escalate_to_user=to_user,
        escalation_mode=_escalation_mode(reading, block.get("spec")),
    )


def _person(
    reading: ReadContext, node: Node | None, construct: Construct, what: str, keys: tuple[str, str]
) -> tuple[Node | None, Node | None]:
    """The role and the user that a mapping names; it must name exactly one of them."""
    block = mapping(reading, node, _CODE, what, f"write {what}: {{{keys[0]}: …}}")
    if block is None:
        return None, None
    check_keys(reading, block, construct, _CODE)
    if (keys[0] in block) == (keys[1] in block):
        found = "both" if keys[0] in block else "neither"
        reading.error(_CODE, opening(block), f"{what} has {found} of {keys[0]} and {keys[1]}", "name one of them")
    role, user = (text(reading, block.get(key), _CODE, f"{what}.{key}") for key in keys)
    return role, user


def _escalation(reading: ReadContext, node: Node | None) -> tuple[Node | None, Node | None, Node | None]:
    role, user = _person(reading, node, ESCALATION, "escalation", ("to_role", "to_user"))
    if not isinstance(node, Mapping):
        return None, None, None
    if "after" not in node:
        reading.error("E_DURATION", opening(node), "this escalation does not say after how long", "add after: 48h")
    return duration(reading, node.get("after"), "escalation.after"), role, user


def _escalation_mode(reading: ReadContext, node: Node | None) -> str:
    spec = mapping(reading, node, "E_SPEC_OPTION", HUMAN_TASK_SPEC.what)
    if spec is None:
        return "reassign"
    check_keys(reading, spec, HUMAN_TASK_SPEC, "E_SPEC_OPTION")
    modes = HUMAN_TASK_SPEC["escalation_mode"].words
    mode = choice(reading, spec.get("escalation_mode"), modes, "E_SPEC_OPTION", "escalation_mode")
    return mode or "reassign"


def _form(reading: ReadContext, node: Node | None) -> tuple[FormFieldSyntax, ...]:
    items = sequence(reading, node, _CODE, "a human task's form", "write a list of {field: …, type: …}")
    fields: dict[str, FormFieldSyntax] = {}
    for item in items or ():
        field = _field(reading, item)
        if field is None:
            continue
        if field.field in fields:
            reading.error(_CODE, field, f'the form already has a field "{field.field}"', "rename one of them")
        fields.setdefault(field.field, field)
    return tuple(fields.values())


def _field(reading: ReadContext, node: Node) -> FormFieldSyntax | None:
    block = mapping(reading, node, _CODE, "a form field", "write {field: …, type: …}")
    if block is None:
        return None
    check_keys(reading, block, FORM_FIELD, _CODE)
    name = text(reading, block.get("field"), _CODE, "a form field's name")
    if "field" not in block:
        reading.error(_CODE, opening(block), "this form field has no name", "add field: <name>")
    kind = choice(reading, block.get("type"), FORM_FIELD["type"].words, _CODE, "a form field's type") or "string"
    options = sequence(reading, block.get("options"), _CODE, "a form field's options")
    _check_options(reading, block, kind)
    required = boolean(reading, block.get("required"), _CODE, "required")
    if name is None:
        return None
    return FormFieldSyntax(
        node=block,
        field=str(name.value),
        type=kind,
        options=options.items if options is not None else (),
        required=required,
        default=block.get("default"),
    )


def _check_options(reading: ReadContext, block: Mapping, kind: str) -> None:
    options = data(block.get("options"))
    if kind != "enum":
        if "options" in block:
            reading.error(_CODE, block.keys["options"], f'a field of type "{kind}" has no options', "write type: enum")
        return
    if not options:
        reading.error(_CODE, opening(block), "an enum field needs options", "add options: [approve, reject]")
    elif isinstance(options, list) and "default" in block and data(block.get("default")) not in options:
        allowed = ", ".join(str(option) for option in options)
        reading.error(
            _CODE, block.values["default"], "the default is not one of the options", f"write one of {allowed}"
        )
