"""Libs: the imports that a python task names beside its code, in each shape people write them (design.md §5).

`{pd: pandas}`, `[json, numpy as np]`, `{from: datetime, import: date}`, and lists of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from noetl.base.errors import ToolError

SHAPES = "a mapping {pd: pandas}, a list [json, numpy as np], or {from: datetime, import: [date, time]}"
_MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]*)(?:\s+as\s+(?P<name>[A-Za-z_]\w*))?\Z")

Import = tuple[str, str, str]  # the name it gets, the module, what of the module; nothing for all of it


def imports_of(libs: Any) -> list[Import]:
    """The imports that `libs` names, in their order. ToolError `py.exception` names the shapes."""
    return [] if libs is None else list(_imports(libs))


def _imports(libs: Any) -> Iterator[Import]:
    match libs:
        case str():
            for part in libs.split(","):
                yield from _plain(part.strip())
        case list():
            for one in libs:
                yield from _imports(one)
        case Mapping() if "from" in libs or "import" in libs:
            yield from _from(libs)
        case Mapping() if isinstance(libs.get("name"), str) and set(libs) <= {"name", "as", "alias", "version"}:
            yield _named(_module(libs["name"]), libs.get("as") or libs.get("alias"))
        case Mapping():
            for name, module in libs.items():
                yield from _under(str(name), module)
        case _:
            raise _unknown()


def _under(name: str, module: Any) -> Iterator[Import]:
    if isinstance(module, Mapping) and "from" in module:
        [one] = _from(module) if isinstance(module.get("import"), str) else [None]
        if one is None:
            raise _unknown()
        yield _named(one, name)
    elif isinstance(module, str):
        yield _named(_module(module), name)
    else:
        raise _unknown()


def _from(said: Mapping[str, Any]) -> Iterator[Import]:
    """`{from: module, import: name}`; without `from` it is an import of the module itself."""
    module, wanted = said.get("from"), said.get("import")
    names = wanted if isinstance(wanted, list) else str(wanted or "").split(",")
    if wanted is None or not all(isinstance(name, str) and name.strip() for name in names):
        raise _unknown()
    for written in names:
        name, found, _ = _module(written.strip())
        if module is None:
            yield from [_named((name, found, ""), said["as"])] if said.get("as") else _plain(written.strip())
        else:
            shown = name if " as " in written else found
            yield _named((shown, _module(str(module))[1], found), said.get("as") if len(names) == 1 else None)


def _plain(written: str) -> Iterator[Import]:
    """`import a.b` gives a, once a.b is imported."""
    name, module, _ = _module(written)
    yield name.partition(".")[0], module, ""
    if "." in name:
        yield name.partition(".")[0], name.partition(".")[0], ""


def _module(written: str) -> Import:
    found = _MODULE.match(written)
    if found is None:
        raise _unknown()
    return found["name"] or found["module"], found["module"], ""


def _named(one: Import, name: Any) -> Import:
    return (str(name), *one[1:]) if name else one


def _unknown() -> ToolError:
    return ToolError("py.exception", f"libs is not what it should be: write {SHAPES}", exception="ValueError")
