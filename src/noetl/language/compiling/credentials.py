"""Credentials: what a task names or reads is in the keychain (VAL-21, KEY-05).

Whether the server keeps a credential of that name is not known here, so its absence is only a warning. Older
dialects need no keychain: nothing can be said about a document of theirs that has none.
"""

from __future__ import annotations

from noetl.base.diagnostics import PositionedDiagnostic
from noetl.base.source import is_template
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.template_sites import written_texts
from noetl.language.compiling.text_positions import name_in, parsed
from noetl.language.grammar.root import KEYCHAIN_KINDS
from noetl.language.reading.nodes import Scalar
from noetl.language.reading.playbook import Dialect, KeychainEntrySyntax, Playbook
from noetl.language.reading.shared_checks import did_you_mean, is_typo, nearest
from noetl.net.secret_reads import credential_name


def check_credentials(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_KEYCHAIN, for a literal `auth` and for `keychain.name` in templates; E_KEYCHAIN for a misspelt kind."""
    if playbook.dialect.rules is not Dialect.V10 and not playbook.keychain:
        return playbook
    declared = [entry.name for entry in playbook.keychain]
    for entry in playbook.keychain:
        _check_kind(entry, compilation)
    for task, _ in every_task(playbook):
        auth = task.inputs.get("auth")
        # an address in `auth` is no name, and is not shown
        named = credential_name(auth.value) if isinstance(auth, Scalar) else None
        if auth is not None and named is not None and not is_template(named) and named not in declared:
            message = f'"{named}" is not in the keychain; a stored credential of that name must exist'
            _note(auth, named, message, declared, compilation)
    for written in written_texts(playbook, compilation):
        template = parsed(written.text) if "keychain" in written.text else None
        for read in template.references if template else ():
            name = read.path[0] if read.root == "keychain" and read.path else None
            if isinstance(name, str) and name not in declared:
                place = name_in(written.scalar, "keychain", playbook.source)
                _note(place, name, f'the keychain has no entry "{name}"', declared, compilation)
    return playbook


def _check_kind(entry: KeychainEntrySyntax, compilation: Compilation) -> None:
    """An unknown kind may be that of a plug-in; one that is nearly a known one fails every run."""
    if entry.kind in KEYCHAIN_KINDS or is_template(entry.kind):
        return
    misspelt = is_typo(entry.kind, KEYCHAIN_KINDS)
    known = f"built in are {', '.join(KEYCHAIN_KINDS)}"
    hint = did_you_mean(entry.kind, KEYCHAIN_KINDS) if misspelt else f"{known}; others need a plug-in where servers run"
    message = f'keychain entry "{entry.name}" is of kind "{entry.kind}", which is not a known kind'
    compilation.note("E_KEYCHAIN" if misspelt else "W_KEYCHAIN", entry.node.values["kind"], message, hint)


def _note(place: PositionedDiagnostic, name: str, message: str, declared: list[str], compilation: Compilation) -> None:
    guess = nearest(name, declared)
    hint = f'did you mean "{guess}"?' if guess else f"add - {{name: {name}, kind: credential}} under keychain"
    compilation.note("W_KEYCHAIN", place, message, hint)
