"""Whether code reads the variable `context`: all data of an execution, which is costly to send along (O-11).

Code that assigns a `context` itself, which is a common name in libraries, does not mean this one.
"""

from __future__ import annotations

import ast
from functools import lru_cache

NAME = "context"


@lru_cache(maxsize=512)
def reads_context(code: str) -> bool:
    """Whether the code, or a parameter of its `main`, reads `context`."""
    if NAME not in code:
        return False
    try:
        tree = ast.parse(code)
    # Code that cannot be parsed fails in the child, with the author's line in the message.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = list(ast.walk(tree))
    if any(_is_main(node) and NAME in _parameters(node) for node in nodes):
        return True
    # This is wrong for code that reads our variable and also binds the name somewhere: it gets no context, and fails
    # with a NameError.
    return any(map(_loads, nodes)) and not any(map(_binds, nodes))


def _loads(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == NAME and isinstance(node.ctx, ast.Load)


def _binds(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="context", ctx=ast.Store()) | ast.arg(arg="context") | ast.FunctionDef(name="context"):
            return True
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return any((alias.asname or alias.name) == NAME for alias in names)
        case _:
            return False


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main"


def _parameters(node: ast.AST) -> set[str]:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = node.args
    return {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
