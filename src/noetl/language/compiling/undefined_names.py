"""Undefined names: a bare name that nothing in the document can define would fail its template at run time (TPL-03).

A name may come from any step, task, iterator, `args`, `ctx` or `workload` key of the document, wherever it is set: what
is not known is which of them have run. Names under `is defined` and `default(…)` provide for themselves.
"""

from __future__ import annotations

import re

from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.step_names import arcs_of
from noetl.language.compiling.template_sites import TemplateText, written_texts
from noetl.language.compiling.text_positions import name_in, parsed
from noetl.language.reading.playbook import Dialect, Playbook, SetVars
from noetl.language.reading.shared_checks import nearest
from noetl.net.names import collecting_steps, defined_names, names_beside_collected
from noetl.net.net import Net
from noetl.templates.scope import TemplateSite, foreign, is_reserved, visible

_STEP = re.compile(r"workflow\[(\d+)\]")
_WAY_OUT = "declare it under workload (null if the start brings it), or write | default(…)"


def check_undefined_names(playbook: Playbook, net: Net, compilation: Compilation) -> None:
    """E_UNDEFINED_NAME; under noetl.io/v2 W_UNDEFINED_NAME."""
    names = defined_names(net)
    if names is None:
        return
    names |= set(playbook.workbook)
    dashed = [step.name for step in playbook.steps if "-" in step.name and _identifier(step.name).isidentifier()]
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        read = [one.root for one in template.references if not one.defaulted] if template else []
        here = visible(written.site, playbook.dialect.rules.value) | names | written.own_args
        unknown = [name for name in dict.fromkeys(read) if name not in here and not is_reserved(name)]
        for step in dashed if unknown else ():
            parts = step.split("-")
            if step in written.text and not set(parts).isdisjoint(unknown):
                unknown = [name for name in unknown if name not in parts]
                _note_dashed(step, written, playbook, compilation)
        for name in unknown:
            _note(name, here, written, playbook, compilation)


def check_collected_names(playbook: Playbook, net: Net, compilation: Compilation) -> None:
    """W_FOREIGN_NAME for pages that v2-case collects and another step reads by their bare name, where it is null."""
    collecting = collecting_steps(net) if playbook.dialect is Dialect.V2_CASE else {}
    for written in written_texts(playbook, compilation) if collecting else ():
        template = parsed(written.text)
        read = {one.root for one in template.references if not one.defaulted} if template else set()
        here = _step_at(written.scalar.path, playbook)
        for name in sorted(read & collecting.keys()):
            with_args = written.site not in (TemplateSite.STEP_ARGS, TemplateSite.LOOP_ARGS)
            known = names_beside_collected(net, here, with_args=with_args) | written.own_args
            if collecting[name] != here and name not in known:
                message = f'"{name}" is collected by the step "{collecting[name]}" and is null in {written.what}'
                place = name_in(written.scalar, name, playbook.source)
                compilation.note("W_FOREIGN_NAME", place, message, f"write {collecting[name]}.{name}")


def _step_at(path: str, playbook: Playbook) -> str:
    """The step that a place in the document belongs to; nothing outside of steps."""
    found = _STEP.match(path)
    return playbook.steps[int(found[1])].name if found and int(found[1]) < len(playbook.steps) else ""


def _note(name: str, here: frozenset[str], written: TemplateText, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, name, playbook.source)
    guess = nearest(name, [each for each in here if not each.startswith("_")])
    hint = f'did you mean "{guess}"? Else {_WAY_OUT}' if guess else _WAY_OUT
    if (instead := foreign(name, playbook.dialect.rules.value, written.site)) is not None:
        hint = f"write {instead}"
    message = f'nothing in this playbook is called "{name}", which {written.what} reads'
    compilation.note(undefined_code(playbook), place, message, hint)


def _identifier(step: str) -> str:
    return step.replace("-", "_")


def _note_dashed(step: str, written: TemplateText, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, step.partition("-")[0], playbook.source)
    message = f'"{step}" cannot be read in {written.what}: to a template it is a subtraction'
    compilation.note(undefined_code(playbook), place, message, f'rename the step to "{_identifier(step)}"')


def undefined_code(playbook: Playbook) -> str:
    return "E_UNDEFINED_NAME" if refuses_undefined(playbook) else "W_UNDEFINED_NAME"


# Scope names: a template reads only what can be seen where it is rendered (TPL-05, C-26, reliability.md §2.6).


def check_scope_names(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ITER_IN_ARC, W_FOREIGN_NAME, W_KEYCHAIN and E_KEYCHAIN; E_UNDEFINED_NAME for a reserved word that no place of
    the dialect has."""
    dialect = playbook.dialect.rules.value
    given = given_names(playbook)
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        seen = visible(written.site, dialect)
        for name in dict.fromkeys(read.root for read in template.references) if template else ():
            if name == "keychain" and written.site is TemplateSite.KEYCHAIN:
                _note_entry(written, playbook, compilation)
            elif name == "keychain" and (written.into_ctx or name not in seen):
                _note_keychain(written, playbook, compilation)
            elif name not in seen and name not in given:
                _note_unseen(name, written, seen, playbook, compilation)
    return playbook


def _note_entry(written: TemplateText, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, "keychain", playbook.source)
    message = f"keychain is read in {written.what}, before any entry is resolved, so it is undefined"
    compilation.note("W_KEYCHAIN", place, message, "let the entry take it from a stored credential: auth: NAME")


def _note_keychain(written: TemplateText, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, "keychain", playbook.source)
    if written.into_ctx:
        message, hint = "keychain is written to ctx, where secrets never go", "read it in the task that needs it"
    else:
        message = f"keychain is read in {written.what}, which the server evaluates"
        hint = "secrets exist only inside tool calls: read it in a task's inputs"
    compilation.note("E_KEYCHAIN", place, message, hint)


def _note_unseen(
    name: str, written: TemplateText, seen: frozenset[str], playbook: Playbook, compilation: Compilation
) -> None:
    place = name_in(written.scalar, name, playbook.source)
    here = f"visible here are {', '.join(sorted(each for each in seen if not each.startswith('_')))} and step results"
    if name == "iter" and written.site is TemplateSite.ARC:
        message = f'"iter" ends with its iteration and cannot be read in {written.what}'
        compilation.note("W_ITER_IN_ARC", place, message, f"{here}; keep the value with set_ctx")
        return
    if not is_reserved(name):
        return
    instead = foreign(name, playbook.dialect.rules.value, written.site)
    if instead is not None and instead.partition(".")[0] == "outcome" and "outcome" not in seen:
        instead = "the name of a task or step, as in fetch.data or fetch.error"
    message = f'"{name}" cannot be read in {written.what}, so it is undefined'
    nowhere = all(name not in visible(site, playbook.dialect.rules.value) for site in TemplateSite)
    code = "E_UNDEFINED_NAME" if nowhere and refuses_undefined(playbook) else "W_FOREIGN_NAME"
    compilation.note(code, place, message, f"write {instead}" if instead else here)


def refuses_undefined(playbook: Playbook) -> bool:
    """Names are held to what is declared under noetl.io/v10 and with --strict; elsewhere it is said and goes on."""
    return playbook.api_version.endswith("/v10") or playbook.strict


def given_names(playbook: Playbook) -> set[str]:
    """Bare names that mean the author's own data, which may well be called `status_code` or `page` (TPL-06)."""
    mappings = [playbook.workload, playbook.ctx]
    for step in playbook.steps:
        arcs = list(arcs_of(step))
        mappings += [step.args, step.set_ctx, step.vars, *(arc.args for arc in arcs), *(arc.set_ctx for arc in arcs)]
        for rule in step.case.rules if step.case else ():
            mappings += [action.values for action in rule.actions if isinstance(action, SetVars)]
    for task, _ in every_task(playbook):
        mappings += [rule.then.set_ctx for rule in task.policy.rules] if task.policy else []
    steps = {step.name for step in playbook.steps}
    return steps.union(*(mapping.keys for mapping in mappings if mapping is not None))
