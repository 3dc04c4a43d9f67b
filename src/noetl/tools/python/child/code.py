"""Running the author's code, in each form it may have (TOOL-07, design.md §5)."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from types import ModuleType

MODULE = "__noetl__"
CODE = "<code>"  # the file name of unnamed code in tracebacks
TOP = "__top__"  # the name of the function that wraps code with a top-level `return`
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(call: dict[str, Any]) -> Any:
    """The value of `result`, of `main()`, or of a top-level `return`. Every call has its own globals."""
    module = ModuleType(MODULE)
    # Dataclasses and type hints look up the module of a class by its name; each call replaces that of the one before.
    sys.modules[MODULE] = module
    space = module.__dict__
    space |= {"__builtins__": __builtins__, **call["names"]}
    # Tracebacks that the code prints itself get their source lines from the loader.
    space["__loader__"] = SourceLoader(call["code"])
    if isinstance(call.get("context"), dict):
        space["context"] = read_only(call["context"])
    for name, module, part in call.get("libs") or ():
        imported = import_module(module)
        space[name] = getattr(imported, part) if part else imported
    tree = ast.parse(call["code"], call.get("file", CODE))
    if returns_at_top(tree):
        return call_returning(tree, space, call.get("file", CODE))
    exec(compile(tree, call.get("file", CODE), "exec"), space)  # noqa: S102  this is the purpose of the process
    main = space.get("main")
    # A `main` that the code imported, or got as an argument, is not called.
    if callable(main) and getattr(main, "__globals__", None) is space:
        return call_main(main, space)
    return space.get("result")


class SourceLoader:
    """Gives Python the source lines of a module that has no file."""

    def __init__(self, code: str) -> None:
        self._code = code

    def get_source(self, name: str) -> str:
        return self._code


class ReadOnly(dict):  # type: ignore[type-arg]
    """A read-only mapping with access by key or attribute. Writes are refused, since nothing would return them."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the context has no {name!r}: there are {', '.join(map(repr, self))}") from None

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("the context is read-only: return a value as the result, and store it with set_ctx")

    __setitem__ = __delitem__ = __setattr__ = __delattr__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


def read_only(value: Any) -> Any:
    """Plain data with every mapping in it read-only."""
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
    """Run the code as the body of a function, so that its top-level `return` works. Assigned names are declared global:
    functions in the code can then read them, as they could at the top level."""
    assigned = sorted(
        {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    )
    body: list[ast.stmt] = [ast.Global(assigned), *tree.body] if assigned else tree.body
    arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef(TOP, arguments, body, [], None)
    module = ast.fix_missing_locations(ast.Module([function], []))
    exec(compile(module, file, "exec"), space)  # noqa: S102  this is the purpose of the process
    return space[TOP]()


def call_main(main: Any, space: dict[str, Any]) -> Any:
    """Call `main` with the variables that its parameters name."""
    import inspect  # slow to import; the template has it

    named: dict[str, Any] = {}
    # Parameters before "/" are passed by position; after one that keeps its default no further one can be passed.
    positional: list[Any] = []
    for place, (name, parameter) in enumerate(inspect.signature(main).parameters.items()):
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional += [space[name]] if name in space and len(positional) == place else []
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update({key: value for key, value in space["args"].items() if key not in named})
        elif parameter.kind is not parameter.VAR_POSITIONAL and name in space:
            named[name] = space[name]
    result = main(*positional, **named)
    if inspect.iscoroutine(result):
        import asyncio

        return asyncio.run(result)
    return result
