"""Scope names: a template reads only what can be seen where it is rendered (TPL-05, C-26, reliability.md §2.6)."""

from __future__ import annotations

from noetl.language.compiling.parsed_templates import parsed
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.targets import arcs_of
from noetl.language.compiling.template_sites import TemplateText, written_texts
from noetl.language.compiling.text_positions import name_in
from noetl.language.reading.playbook import Playbook, SetVars
from noetl.templates.scopes import TemplateSite, foreign, is_reserved, visible


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
