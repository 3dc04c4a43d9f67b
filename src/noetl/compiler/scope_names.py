"""Scope names: a template reads only what can be seen where it is rendered (TPL-05, C-26, RELIABILITY 2.6)."""

from __future__ import annotations

from noetl.compiler.compilation import Compilation
from noetl.compiler.parsed_templates import parsed
from noetl.compiler.pipelines import every_task
from noetl.compiler.targets import arcs_of
from noetl.compiler.text_places import name_in
from noetl.compiler.written_texts import Text, written_texts
from noetl.document.playbook import Loop, Playbook, SetVars
from noetl.document.shapes import distance
from noetl.templates.scopes import Site, foreign, is_reserved, visible


def check_scope_names(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ITER_IN_ARC, W_FOREIGN_NAME, W_KEYCHAIN and E_KEYCHAIN."""
    dialect = playbook.dialect.rules.value
    given, own = given_names(playbook), _names_of_tasks_and_items(playbook)
    dashed = [step.name for step in playbook.steps if "-" in step.name and _identifier(step.name).isidentifier()]
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        seen = visible(written.site, dialect)
        relied_on = [read for read in template.references if not read.defaulted] if template else []
        for name in dict.fromkeys(read.root for read in template.references) if template else ():
            if name == "keychain" and written.site is Site.KEYCHAIN:
                _note_entry(written, playbook, compilation)
            elif name == "keychain" and (written.into_ctx or name not in seen):
                _note_keychain(written, playbook, compilation)
            elif name not in seen and name not in given:
                _note_unseen(name, written, seen, playbook, compilation)
                if name not in own and any(one.root == name and one.path for one in relied_on):
                    _note_misspelt(name, written, seen, playbook, compilation)
        for name in dashed:
            parts, roots = set(name.split("-")), {read.root for read in template.references} if template else set()
            if name in written.text and parts <= roots and not parts <= given:
                _note_dashed(name, written, playbook, compilation)
    return playbook


def _identifier(step: str) -> str:
    return step.replace("-", "_")


def _note_dashed(step: str, written: Text, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, step.partition("-")[0], playbook.source)
    message = f'"{step}" cannot be read in {written.what}: to a template it is a subtraction'
    compilation.note("W_FOREIGN_NAME", place, message, f'rename the step to "{_identifier(step)}"')


def _note_entry(written: Text, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, "keychain", playbook.source)
    message = f"keychain is read in {written.what}, before any entry is resolved, so it is undefined"
    compilation.note("W_KEYCHAIN", place, message, "let the entry take it from a stored credential: auth: NAME")


def _note_keychain(written: Text, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, "keychain", playbook.source)
    if written.into_ctx:
        message, hint = "keychain is written to ctx, where secrets never go", "read it in the task that needs it"
    else:
        message = f"keychain is read in {written.what}, which the server evaluates"
        hint = "secrets exist only inside tool calls: read it in a task's inputs"
    compilation.note("E_KEYCHAIN", place, message, hint)


def _note_unseen(name: str, written: Text, seen: frozenset[str], playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, name, playbook.source)
    here = f"visible here are {', '.join(sorted(each for each in seen if not each.startswith('_')))} and step results"
    if name == "iter" and written.site is Site.ARC:
        message = f'"iter" ends with its iteration and cannot be read in {written.what}'
        compilation.note("W_ITER_IN_ARC", place, message, f"{here}; keep the value with set_ctx")
        return
    instead = foreign(name, playbook.dialect.rules.value, written.site)
    if instead is None and not is_reserved(name):
        return
    if instead is not None and instead.partition(".")[0] == "outcome" and "outcome" not in seen:
        instead = "the name of a task or step, as in fetch.data or fetch.error"
    message = f'"{name}" cannot be read in {written.what}, so it is undefined'
    compilation.note("W_FOREIGN_NAME", place, message, f"write {instead}" if instead else here)


def _note_misspelt(
    name: str, written: Text, seen: frozenset[str], playbook: Playbook, compilation: Compilation
) -> None:
    """A name that is nobody's, and one letter more, less or out of place than one that can be read here. Another
    letter is no such slip: `item` is not `iter`. What a caller passes may have any name, so others are let be."""
    meant = next((each for each in sorted(seen) if _is_slip(name, each)), None)
    if meant is not None:
        place = name_in(written.scalar, name, playbook.source)
        message = f'nothing is called "{name}" in {written.what}, so it is undefined'
        compilation.note("W_FOREIGN_NAME", place, message, f'did you mean "{meant}"?')


def _is_slip(name: str, known: str) -> bool:
    if known.startswith("_") or abs(len(name) - len(known)) > 1 or distance(name, known) != 1:
        return False
    return len(name) != len(known) or sorted(name) == sorted(known)


def _names_of_tasks_and_items(playbook: Playbook) -> set[str]:
    names = {task.name for task, _ in every_task(playbook) if task.name is not None}
    for step in playbook.steps:
        loop: Loop | None = step.loop
        while loop is not None:
            names.add(str(loop.iterator.value))
            loop = loop.inner
    return names


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
