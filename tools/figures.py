"""Statistics of the lines of the package, by sub-package: fails if a figure has drifted from its limit (docs/style.md).

Held are the number of modules, the share of import lines (continued lines counted) and that of comment lines. Public
class names that two classes have are found by `tools/old_names.py`.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "noetl"
MOST_MODULES = 680
MOST_IMPORTS, FEWEST_COMMENTS = 0.07, 0.03  # of all lines
_TABLE = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.Call)
_TABLE_LINES = 4  # a literal of a module with fewer lines is a constant


@dataclass
class Figures:
    """How many lines of each kind a module or package has; every line is of one kind. `beside` counts comments after
    code: their lines are code."""

    modules: int = 0
    lines: int = 0
    blank: int = 0
    docstrings: int = 0
    comments: int = 0
    imports: int = 0
    tables: int = 0
    code: int = 0
    beside: int = 0

    def __iadd__(self, other: Figures) -> Figures:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self


def figures_of(text: str) -> Figures:
    """The figures of one module."""
    tree, lines = ast.parse(text), text.splitlines()
    imports = _spans(node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    docstrings = _spans(_docstrings(tree)) - imports
    tables = _spans(_tables(tree))
    comments = {
        token.start[0]: lines[token.start[0] - 1].lstrip().startswith("#")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    found = Figures(modules=1, lines=len(lines), beside=sum(not alone for alone in comments.values()))
    for number, line in enumerate(lines, 1):
        kind = (
            ("docstrings" if number in docstrings else "")
            or ("blank" if not line.strip() else "")
            or ("comments" if comments.get(number) else "")
            or ("imports" if number in imports else "")
            or ("tables" if number in tables else "code")
        )
        setattr(found, kind, getattr(found, kind) + 1)
    return found


def _spans(nodes: Iterable[ast.stmt]) -> set[int]:
    return {number for node in nodes for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first


def _tables(tree: ast.Module) -> Iterator[ast.stmt]:
    """Literals of modules, over several lines: rows of a table, not code."""
    for node in tree.body:
        is_literal = isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, _TABLE)
        if is_literal and (node.end_lineno or 0) - node.lineno >= _TABLE_LINES - 1:
            yield node


def figures() -> dict[str, Figures]:
    """The figures of every sub-package, by its name; those of the package's own modules under `.`."""
    found: dict[str, Figures] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        package = place.parts[0] if len(place.parts) > 1 else "."
        found[package] = found.get(package, Figures())
        found[package] += figures_of(path.read_text("utf-8"))
    return found


def drifted(whole: Figures) -> list[str]:
    """The figures beyond their limits, as lines to print."""
    imports, comments = whole.imports / whole.lines, (whole.comments + whole.beside) / whole.lines
    problems = []
    if whole.modules > MOST_MODULES:
        problems.append(
            f"{whole.modules} modules, at most {MOST_MODULES}: join one with its only importer (§2 of style.md)"
        )
    if imports > MOST_IMPORTS:
        problems.append(f"{imports:.2%} of the lines are imports, at most {MOST_IMPORTS:.0%}")
    if comments < FEWEST_COMMENTS:
        problems.append(f"{comments:.2%} of the lines have a comment, at least {FEWEST_COMMENTS:.0%}: say why (§4)")
    return problems


def main() -> int:
    found, whole = figures(), Figures()
    for one in found.values():
        whole += one
    names = [field.name for field in fields(Figures)]
    sys.stdout.write(f"{'':12}" + "".join(f"{name:>11}" for name in names) + "\n")
    for package, one in [*found.items(), ("all", whole)]:
        sys.stdout.write(f"{package:12}" + "".join(f"{getattr(one, name):11,}" for name in names) + "\n")
    problems = drifted(whole)
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
