"""Checks of code in the inputs of tasks, SQL and Python, and of values of workload that look like code.

SQL: the place of a template follows from the author's text alone (design.md §8). Text that fails with every value is an
error; text that is one single expression gets a warning. Mistakes of the SQL itself are found by `sql_flaws.py`.

Python: code that does not parse cannot run (TOOL-07). It is never a template, so it is parsed as written, by the Python
that runs the check. Workers may have a newer one, so a mistake is a warning. Nothing is compiled, imported or run.
"""

from __future__ import annotations

import re
import warnings

# `_ast` has the same classes; importing `ast` would slow down every check.
from _ast import (
    Assign,
    AsyncFunctionDef,
    ClassDef,
    Constant,
    Dict,
    Expr,
    FunctionDef,
    Import,
    ImportFrom,
    PyCF_ONLY_AST,
    Set,
)
from collections.abc import Iterable, Iterator
from typing import Any

from noetl.base.diagnostics import DiagnosticPosition, PositionedDiagnostic, Source, Span, is_template
from noetl.language.compiling.passes import Compilation, every_task
from noetl.language.compiling.python_results import lost_result, needed_parameters
from noetl.language.compiling.text_positions import parsed, place_in
from noetl.language.compiling.undefined_names import given_names
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.net.names import defined_names
from noetl.net.net import Net
from noetl.net.task import ENDS, SQL_KEYS, TRANSFER

# The author has marked it as SQL: no warning.
_MARKED = re.compile(r"\|\s*sql\s*-?\}\}\s*\Z")
_JOINED = re.compile(
    r"\bIN\s*\(\s*'?(\{\{(?:(?!\}\}|\|\s*sql\b).)*\|\s*join\b(?:(?!\}\}|\|\s*sql\b).)*\}\})'?\s*\)", re.I | re.S
)
# The body of a DO block or a function.
_BODY = re.compile(r"\$(\w*)\$(?P<body>.*?)\$\1\$", re.S)
_VALUE = re.compile(r"\{\{(?:(?!\}\}|\|\s*(?:sql|identifier)\b).)*\}\}", re.S)
_BIND = "let templates stand where values stand: those are bound"


def check_sql_fragments(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_TEMPLATE and W_SQL_FRAGMENT; each place once, wherever a workbook's task is used."""
    written = {scalar: None for task, _ in every_task(playbook) for scalar in sql_texts(task, compilation)}
    if written:
        _check_texts(written, playbook, compilation)
    return playbook


def _check_texts(written: Iterable[Scalar], playbook: Playbook, compilation: Compilation) -> None:
    from noetl.templates.sql.plan import KEYCHAIN, impossible  # most playbooks have no SQL

    for scalar in written:
        text = scalar.value if isinstance(scalar.value, str) else ""
        template = parsed(text) if is_template(text) else None
        if template is None:
            continue
        if not template.single:
            if (found := impossible(text)) is not None:
                why, _, way_out = found.why.partition("; ")
                place = place_in(scalar, found.at, playbook.source)
                compilation.note("E_TEMPLATE", place, f"this SQL cannot run: {why}", way_out or _BIND)
            else:
                _note_joined(scalar, text, playbook, compilation)
                _note_bodies(scalar, text, playbook, compilation)
        elif any(read.root in KEYCHAIN for read in template.references):
            message = "this SQL cannot run: it is wholly made of a secret, and a secret can only be bound"
            compilation.note("E_TEMPLATE", scalar, message, _BIND)
        elif not _MARKED.search(text):
            compilation.note(
                "W_SQL_FRAGMENT",
                scalar,
                "this SQL comes whole from a template, so its values cannot be bound as parameters",
                "write the SQL here and use templates for values only; if you trust the text, mark it {{ … | sql }}",
            )


def _note_joined(scalar: Scalar, text: str, playbook: Playbook, compilation: Compilation) -> None:
    from noetl.templates.sql.lexer import has_blocks
    from noetl.templates.sql.plan import bound_lists

    lists = frozenset() if has_blocks(text) else bound_lists(text)
    for joined in _JOINED.finditer(text):
        if joined.start(1) not in lists:
            place = place_in(scalar, joined.start(1), playbook.source)
            message = "joined text is bound as one value, and IN compares with that text alone"
            compilation.note("W_SQL_FRAGMENT", place, message, "leave join out: IN ({{ … }}) takes a list")


def _note_bodies(scalar: Scalar, text: str, playbook: Playbook, compilation: Compilation) -> None:
    """A body between `$$` is text to the database: nothing in it can be bound, only names may be put there (O-23)."""
    for body in _BODY.finditer(text):
        value = _VALUE.search(text, body.start("body"), body.end("body"))
        if value is not None:
            place = place_in(scalar, value.start(), playbook.source)
            message = "nothing can be bound within $$: the task fails with sql.fragment unless this gives a plain name"
            hint = "read the value outside, e.g. SELECT set_config('app.x', '{{ … }}', true), or mark it {{ … | sql }}"
            compilation.note("W_SQL_FRAGMENT", place, message, hint)


def has_sql(playbook: Playbook, compilation: Compilation) -> bool:
    """Whether some task of the playbook runs SQL."""
    return any(True for task, _ in every_task(playbook) for _ in sql_texts(task, compilation))


def sql_texts(task: TaskSyntax, compilation: Compilation) -> Iterator[Scalar]:
    """The texts of a task that are SQL; those of a transfer are in its ends."""
    kind = compilation.kinds.get(task.kind)
    for known in kind.inputs if kind else ():
        if known.sql:
            yield from _texts(task.inputs.get(known.name))
    for end in ENDS if task.kind == TRANSFER else ():
        node = task.inputs.get(end)
        for key in SQL_KEYS:
            yield from _texts(node.values.get(key) if isinstance(node, Mapping) else None)


def _texts(node: Node | None) -> Iterator[Scalar]:
    return scalars(node) if node is not None else iter(())


KIND = "python"
# Total per playbook. Parsing takes time, so code beyond this is not checked.
MAX_PYTHON_CHARACTERS = 200_000
# Only a brace pair that begins with a name counts as a template: `{{1, 2}}` is a set in a set, and plain Python.
_EXPRESSION = re.compile(r"\{\{-?\s*([A-Za-z_]\w*)\b[^{}]*\}\}")
_DATA = frozenset({"workload", "ctx", "args", "iter", "vars", "keychain", "event", "outcome", "execution_id", "_prev"})
_NO_TEMPLATE = "code is no template: give values to the task as args, which the code has as variables"


def check_python_code(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_PYTHON; each place once, wherever a workbook's task is used."""
    written = {
        # A dict for its keys: each code once, in the order of the document.
        code: None
        for task, _ in every_task(playbook)
        if task.kind == KIND
        # A value that is no text is reported by the check of input shapes; it may be unhashable.
        if isinstance(code := task.inputs.get("code"), Scalar) and isinstance(code.value, str)
    }
    left = MAX_PYTHON_CHARACTERS
    for code in written:
        text = str(code.value)
        # A budget for all code together: parsing megabytes of code would block an editor that checks during typing.
        left -= len(text)
        if left >= 0 and (problem := problem_of(text)) is not None:
            message = f"this Python code does not parse: {problem.msg}"
            hint = _NO_TEMPLATE if is_template(text) else "correct it: as it is, the task fails"
            compilation.note("W_PYTHON", _place_of_problem(code, problem, playbook.source), message, hint)
        elif left >= 0:
            _note_idle(code, compilation)
            if is_template(text):
                _note_templates(code, playbook, compilation)
    return playbook


def _note_idle(code: Scalar, compilation: Compilation) -> None:
    """W_PYTHON for code without a result: it sets another name than `result`, or it only defines functions, none of
    which is called `main`."""
    tree = tree_of(str(code.value))
    if tree is None:
        return
    if (word := lost_result(tree)) is not None:
        message = f'the code sets "{word}" and gives nothing back, so the result of this task is null'
        compilation.note("W_PYTHON", code, message, f"write result = … in place of {word} = …")
        return
    names = [one.name for one in tree.body if isinstance(one, FunctionDef | AsyncFunctionDef)]
    does_nothing = all(isinstance(one, _DEFINING) or _is_plain(one) for one in tree.body)
    if names and "main" not in names and does_nothing:
        message = f'nothing calls "{names[-1]}", so the task does nothing and its result is null'
        hint = f"call it main, whose parameters are the args by name; or end with: result = {names[-1]}(…)"
        compilation.note("W_PYTHON", code, message, hint)


# Statements whose only effect is a name: definitions, imports and constants.
_DEFINING = (FunctionDef, AsyncFunctionDef, ClassDef, Import, ImportFrom)


def _is_plain(statement: Any) -> bool:
    if isinstance(statement, Assign):
        targets = [getattr(target, "id", "result") for target in statement.targets]
        return isinstance(statement.value, Constant) and "result" not in targets
    return isinstance(statement, Expr) and isinstance(statement.value, Constant)


_GIVEN = _DATA | {"args", "input_data", "context"}


def check_main_parameters(playbook: Playbook, net: Net, compilation: Compilation) -> None:
    """W_PYTHON: a parameter of `main` without a default that nothing can give."""
    names = defined_names(net)
    left = MAX_PYTHON_CHARACTERS
    for task, pipeline in every_task(playbook) if names is not None else ():
        code, args = task.inputs.get("code"), task.inputs.get("args")
        is_text = task.kind == KIND and isinstance(code, Scalar) and isinstance(code.value, str)
        # The arguments of a workbook definition are known where it is used.
        if not is_text or not isinstance(code, Scalar) or pipeline.in_workbook or names is None:
            continue
        left -= len(str(code.value))
        tree = tree_of(str(code.value)) if left >= 0 else None
        # A mapping that a template returns, and `libs`, may define any name.
        if tree is None or "libs" in task.inputs or not isinstance(args, Mapping | None) or task.bound:
            continue
        known = names | _GIVEN | (args.values.keys() if args is not None else set())
        for name in needed_parameters(tree) - known:
            message = f'main has no default for "{name}", and nothing here is called "{name}"'
            way_out = "context has everything of the execution" if "context" in _identifiers(code) else ""
            hint = f"give it as args: {{{name}: …}}" + (f"; {way_out}" if way_out else "")
            compilation.note("W_PYTHON", code, message, hint)


def _identifiers(code: Scalar) -> set[str]:
    return set(re.findall(r"\w+", str(code.value)))


def _note_templates(code: Scalar, playbook: Playbook, compilation: Compilation) -> None:
    """Each text in the code that looks like a template of this playbook. Doubled braces of an f-string are no
    template."""
    names = _DATA | given_names(playbook) | {task.name for task, _ in every_task(playbook) if task.name}
    texts, nested = _texts_and_sets(str(code.value))
    for found in _EXPRESSION.finditer(str(code.value)):
        if found[1] in names and (nested or any(found[0] in text for text in texts)):
            place = place_in(code, found.start(), playbook.source, len(found[0]))
            shown = found[0] if len(found[0]) <= 60 else f"{{{{ {found[1]} … }}}}"
            message = f"{shown} stays as it is: Python code is not rendered"
            compilation.note("W_PYTHON", place, message, f'write args: {{ value: "{shown}" }} and read value')


def _texts_and_sets(code: str) -> tuple[set[str], bool]:
    """The string constants of the code, and whether a set contains a set: that is how Python reads a bare template.
    Doubled braces of an f-string are single ones here."""
    texts: set[str] = set()
    pending: list[Any] = [_tree(code)]
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
    """The reason why this Python cannot parse the code, if known."""
    try:
        _tree(code)
    except SyntaxError as problem:
        return problem
    except (ValueError, RecursionError, MemoryError):  # a NUL, or deeper nesting than the parser accepts
        return None
    return None


def tree_of(code: str) -> Any | None:
    """The syntax tree of the code; None where this Python cannot judge it."""
    try:
        return _tree(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _tree(code: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(code, "<code>", "exec", PyCF_ONLY_AST, dont_inherit=True)


def _place_of_problem(code: Scalar, problem: SyntaxError, source: Source | None) -> PositionedDiagnostic:
    """The place of the mistake in its line; the whole value if the code is not written line by line."""
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


# Workload is data and never rendered (DOC-07).

_OLDER_BOOLEANS = frozenset({"yes", "no", "on", "off", "Yes", "No", "On", "Off"})
_READ_IN_TEMPLATES = frozenset({"workload", "execution_id", "ctx", "args", "keychain", "now", "env"})


def check_workload_values(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_WORKLOAD_VALUE: for a template that refers to this playbook, and for a word that is a boolean in YAML 1.1."""
    names = _READ_IN_TEMPLATES.union(playbook.workload.keys if playbook.workload is not None else ())
    for scalar in scalars(playbook.workload) if playbook.workload is not None else ():
        value = scalar.value
        if not isinstance(value, str):
            continue
        if scalar.plain and value in _OLDER_BOOLEANS:
            way_out = f'write {str(value.lower() in ("yes", "on")).lower()}, or "{value}" in quotes for the word'
            compilation.note("W_WORKLOAD_VALUE", scalar, f"{value} is text here, and not true or false", way_out)
        template = parsed(value) if is_template(value) else None
        # A text for other templates reads names that this playbook does not have.
        if template is not None and any(one.root in names for one in template.references):
            message = "this template stays as it is: values of workload are data and never rendered"
            way_out = "write it where the value is read; or under ctx, which is rendered when a run begins"
            compilation.note("W_WORKLOAD_VALUE", scalar, message, way_out)
    return playbook
