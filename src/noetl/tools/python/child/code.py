"""Running the author's code, in each form it may have (TOOL-07, design.md §5)."""

from __future__ import annotations

import ast
from importlib import import_module

CODE = "<code>"  # what a traceback calls code that nobody has named
TOP = "__top__"  # the function that code with a `return` outside any function becomes
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(call: dict[str, Any]) -> Any:
    """`result`, or what `main` returns, or what the top level returns. Every call has globals of its own."""
    space: dict[str, Any] = {"__name__": "__noetl__", "__builtins__": __builtins__, **call["names"]}
    space["__loader__"] = SourceOf(call["code"])  # so that a traceback which the code prints has its lines too
    if isinstance(call.get("context"), dict):
        space["context"] = read_only(call["context"])
    for name, module, part in call.get("libs") or ():
        found = import_module(module)
        space[name] = getattr(found, part) if part else found
    tree = ast.parse(call["code"], call.get("file", CODE))
    if returns_at_top(tree):
        return call_returning(tree, space, call.get("file", CODE))
    exec(compile(tree, call.get("file", CODE), "exec"), space)  # noqa: S102  this is the purpose of the process
    main = space.get("main")
    if callable(main) and getattr(main, "__globals__", None) is space:
        return called(main, space)
    return space.get("result")


class SourceOf:
    """Where Python looks for the lines of a module that stands in no file."""

    def __init__(self, code: str) -> None:
        self._code = code

    def get_source(self, name: str) -> str:
        return self._code


class ReadOnly(dict):  # type: ignore[type-arg]
    """A mapping to be read by key or by attribute. Nothing that is written to it would come back, so it refuses."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the context has no {name!r}: there are {', '.join(map(repr, self))}") from None

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("the context is read-only: give a value back as the result, and keep it with set_ctx")

    __setitem__ = __delitem__ = __setattr__ = __delattr__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


def read_only(value: Any) -> Any:
    """Plain data with every mapping in it to be read only."""
    if isinstance(value, dict):
        return ReadOnly({key: read_only(item) for key, item in value.items()})
    return [read_only(item) for item in value] if isinstance(value, list) else value


def returns_at_top(tree: ast.Module) -> bool:
    """Whether the code returns outside any function."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))
    return False


def call_returning(tree: ast.Module, space: dict[str, Any], file: str) -> Any:
    """Run the code as the body of a function, so that its top-level `return` means what it says. Names it assigns
    are looked up as globals, as they would be at the top level."""
    assigned = sorted(
        {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    )
    body: list[ast.stmt] = [ast.Global(assigned), *tree.body] if assigned else tree.body
    arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef(TOP, arguments, body, [], None)
    module = ast.fix_missing_locations(ast.Module([function], []))
    exec(compile(module, file, "exec"), space)  # noqa: S102  this is the purpose of the process
    return space[TOP]()


def called(main: Any, space: dict[str, Any]) -> Any:
    """`main` with the variables its parameters name."""
    import inspect  # slow to import; the template has it

    given: dict[str, Any] = {}
    first: list[Any] = []  # of parameters before "/", which take no names; none after one that is left to its default
    for place, (name, parameter) in enumerate(inspect.signature(main).parameters.items()):
        if parameter.kind is parameter.POSITIONAL_ONLY:
            first += [space[name]] if name in space and len(first) == place else []
        elif parameter.kind is parameter.VAR_KEYWORD:
            given.update({key: value for key, value in space["args"].items() if key not in given})
        elif parameter.kind is not parameter.VAR_POSITIONAL and name in space:
            given[name] = space[name]
    result = main(*first, **given)
    if inspect.iscoroutine(result):
        import asyncio

        return asyncio.run(result)
    return result
