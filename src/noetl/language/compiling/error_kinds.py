"""Error kinds: a rule that waits for a kind of error which its tool never gives will never hold (VAL-20).

The kinds are those that the tool's own declaration lists, and those that any task may end with.
"""

from __future__ import annotations

from noetl.base.source import is_template
from noetl.language.compiling.parsed_templates import parsed
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.text_positions import name_in
from noetl.language.reading.nodes import Scalar
from noetl.language.reading.playbook import Playbook
from noetl.language.reading.shared_checks import nearest
from noetl.net.kinds import COMMON_ERRORS, ToolKind


def check_error_kinds(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_KIND."""
    for task, _ in every_task(playbook):
        kind = compilation.kinds.get(task.kind)
        if kind is not None and kind.error_kinds:  # of a plug-in nobody knows
            for rule in task.policy.rules if task.policy else ():
                _check(rule.when, kind, playbook, compilation)
    return playbook


def _check(when: Scalar | None, kind: ToolKind, playbook: Playbook, compilation: Compilation) -> None:
    template = parsed(str(when.value)) if when is not None and is_template(str(when.value)) else None
    if template is None or when is None:
        return
    own = (*kind.error_kinds, *kind.error_aliases)
    for test in template.comparisons:
        if (test.root, test.path) != ("outcome", ("error", "kind")):
            continue
        for word in test.values:
            if isinstance(word, str) and word not in own and word not in COMMON_ERRORS:
                guess = nearest(word, own) or nearest(word, COMMON_ERRORS)
                here = f"it gives {', '.join((*kind.error_kinds, *COMMON_ERRORS))}"
                hint = f'did you mean "{guess}"? {here}' if guess else here
                place = name_in(when, word, playbook.source, quoted=True)
                compilation.note("W_ERROR_KIND", place, f'no "{kind.name}" task ends with the error "{word}"', hint)
