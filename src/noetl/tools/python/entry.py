"""The script that starts a process of the `python` tool: the template (`template`), or one child (`child`)."""

from __future__ import annotations

import os.path
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location

NAME = "_noetl_child"  # hardly the name of a module that the author imports


def load() -> None:
    """Make the package `child` importable as `NAME`, independent of installed packages."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child")
    first = os.path.join(folder, "__init__.py")
    spec = spec_from_file_location(NAME, first, submodule_search_locations=[folder])
    assert spec is not None
    sys.modules[NAME] = module_from_spec(spec)


if __name__ == "__main__":
    load()
    import_module(f"{NAME}.{'template' if sys.argv[1] == 'template' else 'serving'}").begin()
