"""Python code: what does not parse can never run, and is told where it was written (TOOL-07).

Code is never a template, so it is read as it stands. It is parsed by the Python that checks; workers may have a newer
one, so what is found is a warning. Nothing is compiled, imported or run.
"""

from __future__ import annotations

import re
import warnings
from _ast import Constant, Dict, PyCF_ONLY_AST, Set  # the module `ast` itself would cost every check its import
from typing import Any

from noetl.base.diagnostics import DiagnosticPosition, PositionedDiagnostic
from noetl.base.source import Source, Span, is_template
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.text_positions import place_in
from noetl.language.compiling.undefined_names import given_names
from noetl.language.reading.nodes import Scalar
from noetl.language.reading.playbook import Playbook

KIND = "python"
MOST_CHARACTERS = 200_000  # of one playbook; what is longer than that is not looked at, since parsing takes time
# Only what begins with a name is taken for a template: `{{1, 2}}` is a set in a set, and plain Python.
_EXPRESSION = re.compile(r"\{\{-?\s*([A-Za-z_]\w*)\b[^{}]*\}\}")
_DATA = frozenset({"workload", "ctx", "args", "iter", "vars", "keychain", "event", "outcome", "execution_id", "_prev"})
_NO_TEMPLATE = "code is no template: give values to the task as args, which the code has as variables"


def check_python_code(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_PYTHON; each place once, wherever a workbook's task is used."""
    written = {
        code: None for task, _ in every_task(playbook) if task.kind == KIND for code in (task.inputs.get("code"),)
    }
    left = MOST_CHARACTERS
    for code in written:
        if not (isinstance(code, Scalar) and isinstance(code.value, str)):
            continue
        # A budget for all code together: parsing megabytes of it would hold up an editor that checks while one types.
        left -= len(code.value)
        if left >= 0 and (problem := problem_of(code.value)) is not None:
            message = f"this Python code does not parse: {problem.msg}"
            hint = _NO_TEMPLATE if is_template(code.value) else "the task would fail"
            compilation.note("W_PYTHON", _place(code, problem, playbook.source), message, hint)
        elif left >= 0 and is_template(code.value):
            _note_templates(code, playbook, compilation)
    return playbook


def _note_templates(code: Scalar, playbook: Playbook, compilation: Compilation) -> None:
    """Each text in the code that looks like a template of this playbook. A doubled brace of an f-string is none."""
    names = _DATA | given_names(playbook) | {task.name for task, _ in every_task(playbook) if task.name}
    texts, nested = _texts_and_sets(str(code.value))
    for found in _EXPRESSION.finditer(str(code.value)):
        if found[1] in names and (nested or any(found[0] in text for text in texts)):
            place = place_in(code, found.start(), playbook.source, len(found[0]))
            shown = found[0] if len(found[0]) <= 60 else f"{{{{ {found[1]} … }}}}"
            message = f"{shown} stays as it is: Python code is not rendered"
            compilation.note("W_PYTHON", place, message, f'write args: {{ value: "{shown}" }} and read value')


def _texts_and_sets(code: str) -> tuple[set[str], bool]:
    """The string constants of the code, and whether a set stands in a set: how Python reads a bare template. Doubled
    braces of an f-string are single ones here."""
    texts: set[str] = set()
    pending: list[Any] = [compile(code, "<code>", "exec", PyCF_ONLY_AST, dont_inherit=True)]
    nested = False
    while pending:
        node = pending.pop()
        if isinstance(node, Constant) and isinstance(node.value, str):
            texts.add(node.value)
        nested = nested or (isinstance(node, Set) and isinstance(node.elts[0], Set | Dict))
        for name in getattr(node, "_fields", ()):
            value = getattr(node, name, None)
            pending.extend(value if isinstance(value, list) else [value] if hasattr(value, "_fields") else [])
    return texts, nested


def problem_of(code: str) -> SyntaxError | None:
    """What keeps this Python from parsing the code, if it can say."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "<code>", "exec", PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as problem:
        return problem
    except (ValueError, RecursionError, MemoryError):  # a NUL, or more nesting than the parser takes
        return None
    return None


def _place(code: Scalar, problem: SyntaxError, source: Source | None) -> PositionedDiagnostic:
    """Where in its line the mistake is; the value itself where the code is not written line by line."""
    if source is None or not problem.lineno:
        return code
    header, *lines = source.cut(code.span).split("\n")
    if not header.startswith("|") or problem.lineno > len(lines):
        return code
    written, meant = lines[problem.lineno - 1], str(code.value).split("\n")[problem.lineno - 1]
    if not written.endswith(meant):
        return code
    column = len(written) - len(meant) + max(problem.offset or 1, 1)
    line, start = code.span.line + problem.lineno, code.span.start + len(header) + 1
    start += sum(len(one) + 1 for one in lines[: problem.lineno - 1]) + column - 1
    return DiagnosticPosition(code.path, Span(line, column, line, column + 1, start, start + 1))
